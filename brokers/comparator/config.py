"""The comparator's configuration file."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokers.adapters.brokers_file import ConfigurationError

_NAME = re.compile(r"[a-z0-9-]{1,64}")
_PATHS = ("socket", "state", "brokers_file", "anchors_file")
_REQUIRED = {"name", *_PATHS}
_OPTIONAL = {"uids", "lease_interval", "log_level"}


@dataclass(frozen=True)
class ComparatorConfig:
    """How one comparator runs.

    Args:
        name: its name, `[a-z0-9-]{1,64}`; its audience is `comparator:<name>`.
        socket: where agents ask it; in a folder that only they can enter.
        state: its folder, with `keys.json` made by `init`.
        brokers_file: where the control broker stands.
        anchors_file: pinned keys of the authority.
        uids: users that may ask; by default the user it runs as.
        lease_interval: seconds between two reports to the control plane.
        log_level: as in `logging`.
    """

    name: str
    socket: Path
    state: Path
    brokers_file: Path
    anchors_file: Path
    uids: tuple[int, ...] = field(default_factory=lambda: (os.geteuid(),))
    lease_interval: float = 5.0
    log_level: str = "INFO"

    @classmethod
    def load(cls, path: Path) -> ComparatorConfig:
        """Read a TOML file; relative paths count from its folder.

        Raises:
            ConfigurationError: missing, not TOML, or with wrong or unknown settings.
        """
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path}: {error}") from None
        wrong = sorted((_REQUIRED - set(document)) | (set(document) - _REQUIRED - _OPTIONAL))
        if wrong:
            raise ConfigurationError(f"{path}: missing or unknown {', '.join(wrong)}")
        try:
            return cls(**_settings(path.parent, document))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{path}: {error}") from None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"`{self.name}` is not a name (a-z, 0-9 and -)")
        if not self.uids:
            raise ValueError("uids names the users that may ask")
        if self.lease_interval <= 0:
            raise ValueError("lease_interval is above 0")


def _settings(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    settings = {**document, "name": str(document["name"])}
    for name in _PATHS:
        settings[name] = folder / str(document[name])
    if "uids" in document:
        if not all(type(uid) is int and uid >= 0 for uid in document["uids"]):
            raise ValueError("uids are numbers of users")
        settings["uids"] = tuple(document["uids"])
    return settings
