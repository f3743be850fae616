"""The agent's configuration file."""

from __future__ import annotations

import re
import stat
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from brokers.adapters.brokers_file import BrokerConfig, ConfigurationError, TlsConfig

_NAME = re.compile(r"[a-z0-9-]{1,64}")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_KINDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "overlay": (str,),
    "state": (str,),
    "brokers_file": (str,),
    "anchors_file": (str,),
    "http_port": (int,),
    "lease_interval": (int, float),
    "decision_interval": (int, float),
    "batch": (int,),
    "prefetch": (int,),
    "client_window": (int,),
    "inbox_bytes": (int,),
    "window_seconds": (int,),
    "log_level": (str,),
    "comparator": (str,),
    "enrolment_file": (str,),
    "tls": (dict,),
}
_REQUIRED = ("name", "overlay", "state", "brokers_file", "anchors_file")
_PATHS = ("state", "brokers_file", "anchors_file")
_OPTIONAL_PATHS = ("comparator", "enrolment_file")
_TLS = ("ca", "certificate", "key")
_SPOKEN = {str: "text", int: "a whole number", float: "a number", dict: "a table"}
_RANGES: dict[str, tuple[float, float]] = {
    "http_port": (0, 65_535),
    "lease_interval": (0.05, 3600),
    "decision_interval": (0.05, 3600),
    "batch": (1, 10_000),
    "prefetch": (1, 100_000),
    "client_window": (4, 8192),
    "inbox_bytes": (2**20, 2**36),
    "window_seconds": (60, 366 * 86_400),
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
        decision_interval: seconds after which a segment of the decision log is sent.
        batch: most events handled together.
        prefetch: events on their way at once, per queue.
        client_window: most deliveries sent ahead to one client that has not confirmed them yet;
            what is beyond waits in a queue that only this agent reads.
        window_seconds: how far back doubles are told; events older than that are refused.
        inbox_bytes: most bytes of messages that were taken from the broker and not handled yet;
            further ones stay with it.
        log_level: as in `logging`.
        comparator: socket of the comparator beside this agent (`brokers.comparator`), or None.
        enrolment_file: what `policyctl enrol` wrote, so that the certificate renews itself; None
            where keys were typed in.
        tls: files for TLS in place of those that the brokers file names, or None.

    Raises:
        SettingError: a setting has a value that it cannot have.
    """

    name: str
    overlay: str
    state: Path
    brokers_file: Path
    anchors_file: Path
    http_port: int = 0
    lease_interval: float = 5.0
    decision_interval: float = 60.0
    batch: int = 200
    prefetch: int = 400
    client_window: int = 200
    inbox_bytes: int = 64 * 2**20
    window_seconds: int = 86_400
    log_level: str = "INFO"
    comparator: Path | None = None
    enrolment_file: Path | None = None
    tls: TlsConfig | None = None

    @classmethod
    def load(cls, path: Path) -> AgentConfig:
        """Read a TOML file; relative paths count from its folder.

        Raises:
            ConfigurationError: missing, not TOML, or with wrong or unknown settings; says which
                setting, and on which line it stands.
        """
        try:
            text = path.read_text(encoding="utf-8")
            document = tomllib.loads(text)
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path}: {error}") from None
        try:
            _check_kinds(document)
            return cls(**_settings(path.parent, document))
        except SettingError as error:
            place = f"{path}{_line(text, error.setting)}"
            raise ConfigurationError(f"{place}: {error}") from None

    def __post_init__(self) -> None:
        for setting in ("name", "overlay"):
            value = getattr(self, setting)
            if not _NAME.fullmatch(value):
                raise SettingError(setting, f"`{value}` is not a name (a-z, 0-9 and -)")
        for setting, (least, most) in _RANGES.items():
            value = getattr(self, setting)
            if not least <= value <= most:
                raise SettingError(setting, f"{value} is not between {least:g} and {most:g}")
        if self.log_level not in _LEVELS:
            raise SettingError("log_level", f"`{self.log_level}` is none of {', '.join(_LEVELS)}")

    def secured(self, broker: BrokerConfig) -> BrokerConfig:
        """A broker with this agent's own TLS files, where it has some."""
        return broker if self.tls is None else replace(broker, tls=self.tls)


class SettingError(ValueError):
    """A setting is missing, unknown or wrong.

    Args:
        setting: its name; `tls.key` for one of a table.
        message: what is wrong with it.
    """

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(f"`{setting}`: {message}")
        self.setting = setting


def _check_kinds(document: dict[str, Any]) -> None:
    for setting in _REQUIRED:
        if setting not in document:
            raise SettingError(setting, "missing")
    for setting, value in document.items():
        if setting not in _KINDS:
            raise SettingError(setting, "unknown setting")
        _check_kind(setting, value, _KINDS[setting])


def _check_kind(setting: str, value: object, kinds: tuple[type, ...]) -> None:
    # TOML's true is Python's 1.
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise SettingError(setting, f"{_SPOKEN[kinds[-1]]} is expected")


def _settings(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    settings = dict(document)
    for setting in _PATHS:
        settings[setting] = folder / document[setting]
    for setting in _OPTIONAL_PATHS:
        if setting in document:
            settings[setting] = folder / document[setting]
    if "tls" in document:
        settings["tls"] = _tls(folder, document["tls"])
    return settings


def _tls(folder: Path, table: dict[str, Any]) -> TlsConfig:
    for setting in table:
        if setting not in _TLS:
            raise SettingError(f"tls.{setting}", "unknown setting")
    for setting in _TLS:
        if setting not in table:
            raise SettingError(f"tls.{setting}", "missing")
        _check_kind(f"tls.{setting}", table[setting], (str,))
        if not (folder / table[setting]).is_file():
            raise SettingError(f"tls.{setting}", f"there is no file {folder / table[setting]}")
    key = folder / table["key"]
    if key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingError("tls.key", f"others may read {key}; set its mode to 0600")
    return TlsConfig(*(str(folder / table[setting]) for setting in _TLS))


def _line(text: str, setting: str) -> str:
    """`:7` where a setting stands on line 7, or nothing where it stands nowhere."""
    table, _, name = setting.rpartition(".")
    inside = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([^\]]*?)\s*\]", line):
            inside = header[1]
            if inside == setting:
                return f":{number}"
        elif inside == table and re.match(rf"\s*[\"']?{re.escape(name)}[\"']?\s*[=.]", line):
            return f":{number}"
    return ""
