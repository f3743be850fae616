"""The agent's configuration file."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokers.adapters.brokers_file import ConfigurationError

_NAME = re.compile(r"[a-z0-9-]{1,64}")
_REQUIRED = {"name", "overlay", "state", "brokers_file", "anchors_file"}
_OPTIONAL = {
    "http_port",
    "lease_interval",
    "batch",
    "prefetch",
    "window_seconds",
    "log_level",
}


@dataclass(frozen=True)
class AgentConfig:
    """How one agent runs.

    Args:
        name: the agent's name, `[a-z0-9-]{1,64}`.
        overlay: the overlay it stands on.
        state: its folder, with `keys.json` made by `init`.
        brokers_file: where the brokers stand.
        anchors_file: pinned keys of the authority.
        http_port: loopback port of its status pages; 0 takes a free one.
        lease_interval: seconds between two requests for a lease.
        batch: most events handled together.
        prefetch: events on their way at once, per queue.
        window_seconds: how far back doubles are told; events older than that are refused.
        log_level: as in `logging`.
    """

    name: str
    overlay: str
    state: Path
    brokers_file: Path
    anchors_file: Path
    http_port: int = 0
    lease_interval: float = 5.0
    batch: int = 200
    prefetch: int = 400
    window_seconds: int = 86_400
    log_level: str = "INFO"

    @classmethod
    def load(cls, path: Path) -> AgentConfig:
        """Read a TOML file; relative paths count from its folder.

        Raises:
            ConfigurationError: missing, not TOML, or with wrong or unknown settings.
        """
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}") from None
        except tomllib.TOMLDecodeError as error:
            raise ConfigurationError(f"{path}: {error}") from None
        _check_names(path, document)
        try:
            return cls(**_settings(path.parent, document))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{path}: {error}") from None

    def __post_init__(self) -> None:
        for name in (self.name, self.overlay):
            if not _NAME.fullmatch(name):
                raise ValueError(f"`{name}` is not a name (a-z, 0-9 and -)")
        if not 0 <= self.http_port < 65536:
            raise ValueError(f"http_port {self.http_port} is not a port")
        if min(self.lease_interval, self.batch, self.prefetch, self.window_seconds) <= 0:
            raise ValueError("lease_interval, batch, prefetch and window_seconds are above 0")


def _check_names(path: Path, document: dict[str, Any]) -> None:
    missing = sorted(_REQUIRED - set(document))
    unknown = sorted(set(document) - _REQUIRED - _OPTIONAL)
    if missing:
        raise ConfigurationError(f"{path}: missing {', '.join(missing)}")
    if unknown:
        raise ConfigurationError(f"{path}: unknown {', '.join(unknown)}")


def _settings(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    settings = dict(document)
    for name in ("state", "brokers_file", "anchors_file"):
        settings[name] = folder / str(document[name])
    settings["name"], settings["overlay"] = str(document["name"]), str(document["overlay"])
    for name, kind in (("http_port", int), ("batch", int), ("prefetch", int)):
        if name in document:
            settings[name] = kind(document[name])
    return settings
