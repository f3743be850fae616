"""The files of a production broker's configuration, and what differs from those in a folder.

No file holds a secret: passwords of key stores are the operator's, in `credentials.properties`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from xml.sax.saxutils import quoteattr

from tasks.activemq.rights import Rights

_TEMPLATES = Path(__file__).parent / "templates"
_MODE = 0o640
_SMALLEST_STORE_MB = 128
_MESSAGE_BYTES = 16 * 2**20
_HEADER_BYTES = 64 * 2**10
_OPERATORS = ("broker.p12", "trust.p12", "credentials.properties")
# Parts of the store: the control plane's messages find room whatever events fill the rest, and
# what waits for clients never keeps agents from receiving.
_STORES = (
    ("pc.control.>", 10),
    ("pc.deliver.>", 35),
    ("pc.dead.>", 5),
    ("", 50),
)


@dataclass(frozen=True)
class Settings:
    """How a broker is set up.

    Args:
        name: the broker's name.
        host: the address it listens on.
        port: the TCP port it listens on.
        store_mb: most megabytes of messages that it keeps, at least 128.
        connections: most connections at once.
        runtime: let ActiveMQ read changed authorisations while it runs; needs
            `activemq-runtime-config`, which Apache's distribution has and Debian's has not.

    Raises:
        ValueError: a port or a size that cannot be.
    """

    name: str
    host: str = "0.0.0.0"  # noqa: S104 - agents and clients come from other machines
    port: int = 61614
    store_mb: int = 20_480
    connections: int = 2000
    runtime: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.port < 65536:
            raise ValueError(f"port {self.port} is not between 1 and 65535")
        if self.store_mb < _SMALLEST_STORE_MB:
            raise ValueError(f"a store has at least {_SMALLEST_STORE_MB} megabytes")
        if self.connections < 1:
            raise ValueError("a broker has at least one connection")


def render(settings: Settings, rights: Rights) -> dict[str, str]:
    """File name -> content; the same model gives the same bytes."""
    users = {user: rights.users[user] for user in sorted(rights.users)}
    groups = {
        group: ",".join(sorted(rights.groups[group] & users.keys()))
        for group in sorted(rights.groups)
    }
    copied = ("login.config", "log4j.properties", "log4j2.properties")
    return {
        "activemq.xml": _configuration(settings, rights),
        "users.properties": _properties(users),
        "groups.properties": _properties({k: v for k, v in groups.items() if v}),
        **{name: (_TEMPLATES / name).read_text(encoding="utf-8") for name in copied},
    }


def _configuration(settings: Settings, rights: Rights) -> str:
    runtime = '      <runtimeConfigurationPlugin checkPeriod="2000"/>\n' if settings.runtime else ""
    return Template((_TEMPLATES / "activemq.xml").read_text(encoding="utf-8")).substitute(
        name=settings.name,
        stores="".join(_store(settings, queue, share) for queue, share in _STORES),
        entries="".join(_entries(rights)),
        runtime=runtime,
        store_mb=settings.store_mb,
        temp_mb=max(64, settings.store_mb // 20),
        uri=_uri(settings).replace("&", "&amp;"),
    )


def _store(settings: Settings, queue: str, share: int) -> str:
    limit = settings.store_mb * share // 100
    return Template((_TEMPLATES / "store.xml").read_text(encoding="utf-8")).substitute(
        filter=f" queue={quoteattr(queue)}" if queue else "",
        limit_mb=limit,
        # Space comes back a journal file at a time.
        journal_mb=max(1, min(32, limit // 8)),
    )


def _entries(rights: Rights) -> Iterable[str]:
    for entry in sorted(rights.entries, key=lambda one: one.queue):
        parts = (
            f"{right}={quoteattr(','.join(groups))}"
            for right, groups in (
                ("read", entry.read),
                ("write", entry.write),
                ("admin", entry.admin),
            )
        )
        queue = quoteattr(entry.queue)
        yield f"              <authorizationEntry queue={queue} {' '.join(parts)}/>\n"


def _uri(settings: Settings) -> str:
    # Nagle's algorithm against delayed acknowledgements costs 10 to 20 ms a message.
    options = (
        "needClientAuth=true",
        "transport.tcpNoDelay=true",
        "transport.enabledProtocols=TLSv1.3,TLSv1.2",
        f"maximumConnections={settings.connections}",
        f"wireFormat.maxDataLength={_MESSAGE_BYTES}",
        f"wireFormat.maxFrameSize={_MESSAGE_BYTES + _HEADER_BYTES}",
        "transport.connectAttemptTimeout=10000",
    )
    return f"stomp+ssl://{settings.host}:{settings.port}?{'&'.join(options)}"


def _properties(entries: Mapping[str, str]) -> str:
    lines = ["# Rendered by manage.py render_activemq: change the administration model instead."]
    lines += [f"{key}={_escaped(value)}" for key, value in entries.items()]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    # java.util.Properties reads ISO 8859-1; characters above U+FFFF are two UTF-16 units.
    units = value.encode("utf-16-be")
    pairs = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(unit) if 0x20 <= unit < 0x7F else f"\\u{unit:04x}" for unit in pairs)


def differences(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    """File name -> `missing` or `changed`, for those that are not as they should be."""
    found = {}
    for name, content in files.items():
        path = folder / name
        if not path.is_file():
            found[name] = "missing"
        elif path.read_text(encoding="utf-8") != content:
            found[name] = "changed"
    return found


def write(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    """Write what differs, each file whole or not at all, groups before the users they name.

    Returns:
        What differed, as `differences`.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    found = differences(folder, files)
    for name in sorted(found):
        fresh = folder / f".{name}.new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(files[name])
            handle.flush()
            os.fsync(handle.fileno())
        fresh.replace(folder / name)
    return found


def missing_parts(folder: Path) -> list[str]:
    """Files that the operator has to put beside the rendered ones and that are not there."""
    return [name for name in _OPERATORS if not (folder / name).is_file()]
