"""Where the brokers stand and how to sign in: the brokers file.

JSON: `{"control": "a", "overlays": {"a": {"host", "port", "login", "passcode",
"tls": null | {"ca", "certificate", "key"}}}}`. It holds passcodes, so it is refused
unless nobody but its owner can read it.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Everything that would end a header line or the frame: STOMP does not escape CONNECT.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f]")
_OVERLAY = re.compile(r"[a-z0-9-]{1,64}")


class ConfigurationError(Exception):
    """A configuration file is missing, unreadable or says something impossible."""


@dataclass(frozen=True)
class TlsConfig:
    """Files for a connection over TLS with client certificates.

    Args:
        ca: PEM file with the authority that signed the broker's certificate.
        certificate: PEM file with our own certificate, or None.
        key: PEM file with its private key, or None.
    """

    ca: str
    certificate: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class BrokerConfig:
    """One ActiveMQ broker.

    Args:
        host: name or address.
        port: STOMP port.
        login: user name, without control characters.
        passcode: password, without control characters.
        tls: TLS files, or None for a plain connection.

    Raises:
        ConfigurationError: the credentials would inject headers, or the port is impossible.
    """

    host: str
    port: int
    login: str = ""
    passcode: str = ""
    tls: TlsConfig | None = None

    def __post_init__(self) -> None:
        for name in ("host", "login", "passcode"):
            if _UNSAFE.search(getattr(self, name)):
                raise ConfigurationError(f"the broker's {name} holds a control character")
        if not 0 < self.port < 65536:
            raise ConfigurationError(f"port {self.port} is not between 1 and 65535")

    def __repr__(self) -> str:
        return f"BrokerConfig(host={self.host!r}, port={self.port}, tls={self.tls is not None})"


@dataclass(frozen=True)
class BrokersFile:
    """All brokers of an installation.

    Args:
        control: name of the overlay whose broker carries the control queues.
        overlays: overlay name -> its broker.
    """

    control: str
    overlays: Mapping[str, BrokerConfig]

    def overlay(self, name: str) -> BrokerConfig:
        """The broker of an overlay.

        Raises:
            ConfigurationError: no such overlay in the file.
        """
        try:
            return self.overlays[name]
        except KeyError:
            known = ", ".join(sorted(self.overlays))
            message = f"overlay `{name}` is not in the brokers file (known: {known})"
            raise ConfigurationError(message) from None

    def control_broker(self) -> BrokerConfig:
        """The broker that carries the control queues."""
        return self.overlay(self.control)

    @classmethod
    def load(cls, path: str | Path) -> BrokersFile:
        """Read a brokers file.

        Args:
            path: the JSON file; mode 0600.

        Raises:
            ConfigurationError: missing, open to others, not JSON, or not of this form.
        """
        document = read_private_json(Path(path))
        try:
            overlays = {
                _overlay_name(name): _broker(entry, Path(path).parent)
                for name, entry in document["overlays"].items()
            }
            loaded = cls(control=str(document["control"]), overlays=overlays)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ConfigurationError(f"{path}: not a brokers file: {error!r}") from None
        loaded.control_broker()
        return loaded


def read_private_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file that only its owner may read.

    Raises:
        ConfigurationError: missing, open to others, or not a JSON object.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(f"{path}: others may read it; set its mode to 0600")
    try:
        document = json.loads(text)
    except ValueError:
        raise ConfigurationError(f"{path}: not JSON") from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path}: not a JSON object")
    return document


def _overlay_name(name: str) -> str:
    if not _OVERLAY.fullmatch(name):
        raise ValueError(f"overlay name {name!r}")
    return name


def _broker(entry: Mapping[str, Any], folder: Path) -> BrokerConfig:
    tls = entry.get("tls")
    return BrokerConfig(
        host=str(entry["host"]),
        port=int(entry["port"]),
        login=str(entry.get("login") or ""),
        passcode=str(entry.get("passcode") or ""),
        tls=None if tls is None else _tls(tls, folder),
    )


def _tls(entry: Mapping[str, Any], folder: Path) -> TlsConfig:
    certificate, key = entry.get("certificate") or None, entry.get("key") or None
    return TlsConfig(
        ca=_beside(folder, str(entry["ca"])),
        certificate=None if certificate is None else _beside(folder, str(certificate)),
        key=None if key is None else _beside(folder, str(key)),
    )


def _beside(folder: Path, path: str) -> str:
    """A file that lies with the brokers file, so that the folder may move; else as it is named."""
    return str(folder / path) if (folder / path).is_file() else path
