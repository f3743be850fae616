"""What an agent or a client keeps on disk, and how it survives a crash.

Every write is: write a temporary file, fsync it, rename it, fsync the folder. A crash
leaves the old content or the new one, never half of either.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from brokers.adapters.brokers_file import ConfigurationError, read_private_json
from brokers.data.subscriptions import Subscription
from policyengine.bundles import TrustedState
from policyengine.errors import PortcullisError
from policyengine.primitives.canonical import b64, dumps, loads, unb64
from policyengine.primitives.hashing import digest
from policyengine.primitives.hpke import SealingKey, generate_sealing_key
from policyengine.primitives.signatures import SigningKey, generate_signing_key

_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700
_MOST_ROUTING = 2**30
_DOMAIN = re.compile(r"[a-z0-9-]{1,64}")


class StateError(Exception):
    """The folder's files do not belong together or are damaged; a person must look."""


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file's content so that it survives a crash at any moment.

    Args:
        path: the file; mode 0600 afterwards.
        data: its new content.
    """
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except OSError:
        # On a full disk half a file must not take the room of others.
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_folder(folder: Path) -> Path:
    """Make a folder that only its owner may enter; close one that others may.

    Raises:
        StateError: others may enter it, and it is not ours to close.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE_FOLDER)
    if folder.stat().st_mode & ~_PRIVATE_FOLDER & 0o777:
        try:
            folder.chmod(_PRIVATE_FOLDER)
        except PermissionError:
            raise StateError(f"others may enter {folder}; set its mode to 0700") from None
    return folder


class FolderLock:
    """Holds a folder for one process; released when the process ends, however it ends.

    Args:
        folder: the folder.

    Raises:
        StateError: another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._handle = (folder / "lock").open("w")
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._handle.close()
            raise StateError(f"{folder} is in use by another process") from None

    def release(self) -> None:
        """Give the folder up."""
        self._handle.close()


@dataclass(frozen=True)
class Keys:
    """The private keys of one audience.

    Args:
        sealing: X25519, opens what is sealed to it.
        signing: Ed25519, signs what it says.
    """

    sealing: SealingKey = field(repr=False)
    signing: SigningKey = field(repr=False)

    def public(self) -> dict[str, str]:
        """The public halves as base64, to be registered with the control plane."""
        return {
            "sealing_key": b64(self.sealing.public),
            "verify_key": b64(self.signing.public),
        }

    @classmethod
    def load(cls, path: Path) -> Keys:
        """Read a key file of mode 0600.

        Raises:
            ConfigurationError: missing, open to others, or not a key file.
        """
        document = read_private_json(path)
        try:
            return cls(
                sealing=SealingKey(unb64(document["sealing"])),
                signing=SigningKey(unb64(document["signing"])),
            )
        except (KeyError, TypeError, AttributeError, PortcullisError):
            raise ConfigurationError(f"{path}: not a key file") from None

    @classmethod
    def create(cls, path: Path) -> Keys:
        """Make fresh keys and keep them; existing keys are read and never replaced."""
        if path.exists():
            return cls.load(path)
        keys = cls(sealing=generate_sealing_key(), signing=generate_signing_key())
        document = {
            "sealing": b64(keys.sealing.private),
            "signing": b64(keys.signing.private),
        }
        private_folder(path.parent)
        write_atomically(path, json.dumps(document).encode())
        return keys


class BundleFolder:
    """Received bundles, sealed as they came: `<folder>/<domain>.bundle`."""

    def __init__(self, folder: Path) -> None:
        self._folder = private_folder(folder)

    def load(self, domain: str) -> bytes | None:
        """The sealed bundle of a domain, or None."""
        path = self._path(domain)
        return path.read_bytes() if path.exists() else None

    def save(self, domain: str, message: bytes) -> None:
        """Keep a sealed bundle; returns when it survives a crash."""
        write_atomically(self._path(domain), message)

    def domains(self) -> tuple[str, ...]:
        """The domains for which a bundle is kept."""
        return tuple(sorted(path.stem for path in self._folder.glob("*.bundle")))

    def _path(self, domain: str) -> Path:
        if not _DOMAIN.fullmatch(domain):
            raise ValueError(f"`{domain}` is not a domain's name")
        return self._folder / f"{domain}.bundle"


class StateFile:
    """The trusted state: revisions in force, notices, denied handles."""

    def __init__(self, path: Path, audience: str) -> None:
        self._path = path
        self._audience = audience

    def load(self) -> TrustedState:
        """The state kept, or an empty one before the first bundle.

        Raises:
            StateError: damaged, or another audience's.
        """
        if not self._path.exists():
            return TrustedState(self._audience)
        try:
            state = TrustedState.from_json(loads(self._path.read_bytes()))
        except PortcullisError:
            raise StateError(f"{self._path} is damaged; restore it or enrol anew") from None
        if state.audience != self._audience:
            raise StateError(f"{self._path} belongs to `{state.audience}`")
        return state

    def save(self, state: TrustedState) -> None:
        """Keep a state; returns when it survives a crash."""
        write_atomically(self._path, dumps(state.to_json()))


class SubscriptionFile:
    """Durable subscriptions of an agent's clients.

    What their clients read stands in a file beside it, so that an earlier release can be put
    back; it counts for exactly the subscriptions that it was written with.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reads_path = path.with_name(f"{path.stem}-reads{path.suffix}")

    def load(self) -> tuple[Subscription, ...]:
        """The subscriptions kept.

        Raises:
            StateError: the file is damaged.
        """
        if not self._path.exists():
            return ()
        try:
            data = self._path.read_bytes()
            found = [Subscription(**entry) for entry in json.loads(data)]
        except (ValueError, TypeError):
            message = f"{self._path} is damaged; remove it, clients subscribe anew"
            raise StateError(message) from None
        reads = self._load_reads(digest(data), len(found))
        return tuple(replace(one, reads=text) for one, text in zip(found, reads, strict=True))

    def _load_reads(self, written_with: str, count: int) -> list[str]:
        """What each reads; nothing where it cannot be told: everybody reads the first form."""
        try:
            document: Any = json.loads(self._reads_path.read_bytes())
            reads = [str(text) for text in document["reads"]]
            if document["subscriptions"] == written_with and len(reads) == count:
                return reads
        except (OSError, ValueError, TypeError, KeyError):
            pass
        return [""] * count

    def save(self, subscriptions: Iterable[Subscription]) -> None:
        """Keep them; returns when they survive a crash."""
        # An older release reads what needs nothing new.
        entries = [asdict(one) for one in subscriptions]
        reads = [entry.pop("reads") for entry in entries]
        document = [
            {name: held for name, held in entry.items() if held or name not in ("blind", "ordered")}
            for entry in entries
        ]
        data = json.dumps(document).encode()
        write_atomically(self._path, data)
        beside = {"subscriptions": digest(data), "reads": reads}
        write_atomically(self._reads_path, json.dumps(beside).encode())


class RoutingFile:
    """What an agent knows of its overlays: numbers of announcements, and what others want."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, object]:
        """Domain -> its state.

        Raises:
            StateError: the file is damaged.
        """
        if not self._path.exists():
            return {}
        try:
            document = loads(self._path.read_bytes(), max_bytes=_MOST_ROUTING)
        except PortcullisError:
            document = None
        if not isinstance(document, dict):
            message = f"{self._path} is damaged; remove it, the other agents tell it anew"
            raise StateError(message)
        return document

    def save(self, states: Mapping[str, object]) -> None:
        """Keep it; returns when it survives a crash."""
        write_atomically(self._path, dumps(dict(states)))
