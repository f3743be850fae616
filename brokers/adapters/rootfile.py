"""What an audience pins, and the roots that it followed from there, kept on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from brokers.adapters.brokers_file import ConfigurationError
from brokers.adapters.files import StateError, write_atomically
from brokers.control.roots import resets
from policyengine.bundles import (
    Root,
    SignedRoot,
    TrustAnchors,
    decode_root,
    open_root,
    verify_chain,
)
from policyengine.errors import DecodeError, PortcullisError
from policyengine.primitives.canonical import dumps, loads

_MOST_BYTES = 2**24


@dataclass(frozen=True)
class Pinned:
    """What a person put there to begin with.

    Args:
        anchors: the keys that follow from it.
        root: the signed root; None in a file of earlier releases, which names keys alone.
    """

    anchors: TrustAnchors
    root: SignedRoot | None


def load_pinned(path: Path) -> Pinned:
    """Read a file of a root, or of keys as earlier releases wrote it.

    Raises:
        ConfigurationError: missing, or neither.
    """
    try:
        data = path.read_bytes()
        document = json.loads(data)
        if isinstance(document, dict) and "format" in document:
            signed = decode_root(data)
            return Pinned(open_root(signed).anchors(), signed)
        return Pinned(TrustAnchors.from_json(document), None)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except (ValueError, PortcullisError):
        raise ConfigurationError(f"{path}: not a file of trust anchors") from None


def load_anchors(path: Path) -> TrustAnchors:
    """The keys of a pinned file.

    Raises:
        ConfigurationError: missing or not trust anchors.
    """
    return load_pinned(path).anchors


def kept_roots(path: Path, pinned: Pinned) -> RootFile | None:
    """The file of roots beside what is pinned; None where that is keys and no root."""
    return None if pinned.root is None else RootFile(path, pinned.root)


class RootFile:
    """The chain from the pinned root to the newest: `{"roots": [...], "settled": version}`.

    What a root has audiences forget is forgotten after the root is kept; `settled` is the last
    root of which that was done.

    Args:
        path: the file.
        pinned: the root to begin with.
    """

    def __init__(self, path: Path, pinned: SignedRoot) -> None:
        self._path = path
        self._pinned = pinned
        self._chain: tuple[SignedRoot, ...] = (pinned,)
        self._settled = pinned.claimed().version

    def load(self) -> Root:
        """The newest root kept, or the pinned one where a person pinned one beyond it.

        Raises:
            StateError: damaged, or it begins at another root than the pinned one.
        """
        if self._path.exists():
            self._chain, self._settled = self._read()
        return verify_chain(open_root(self._chain[0]), self._chain[1:])

    def pending(self) -> tuple[str, ...]:
        """Domains that roots have forgotten and of which it is not known that it was done."""
        return resets([each for each in self._chain if each.claimed().version > self._settled])

    def save(self, roots: Sequence[SignedRoot]) -> None:
        """Keep roots that follow; returns when they survive a crash."""
        chain = (*self._chain, *roots)
        self._write(chain, self._settled)
        self._chain = chain

    def settle(self) -> None:
        """Note that everything was forgotten that the roots ask for."""
        newest = self._chain[-1].claimed().version
        self._write(self._chain, newest)
        self._settled = newest

    def _write(self, chain: Sequence[SignedRoot], settled: int) -> None:
        document = {"roots": [each.to_json() for each in chain], "settled": settled}
        write_atomically(self._path, dumps(document))

    def _read(self) -> tuple[tuple[SignedRoot, ...], int]:
        try:
            document = loads(self._path.read_bytes(), max_bytes=_MOST_BYTES)
            if type(document) is not dict or set(document) != {"roots", "settled"}:
                raise DecodeError("other members")
            kept = tuple(SignedRoot.from_json(each) for each in document["roots"])
            verify_chain(open_root(kept[0]), kept[1:])
            settled = int(document["settled"])
        except (PortcullisError, ValueError, TypeError, IndexError):
            raise StateError(
                f"{self._path} is damaged; remove it to begin at the root that is pinned"
            ) from None
        return self._from_pinned(kept, settled)

    def _from_pinned(
        self, kept: tuple[SignedRoot, ...], settled: int
    ) -> tuple[tuple[SignedRoot, ...], int]:
        version = self._pinned.claimed().version
        if version > kept[-1].claimed().version:
            # A person pinned a newer one by hand: that is where it goes on.
            return (self._pinned,), version
        bodies = [each.body for each in kept]
        # INVARIANT: what was followed is never left for an older root because a file changed.
        if self._pinned.body not in bodies and version >= kept[0].claimed().version:
            raise StateError(
                f"the root that is pinned does not lead to those in {self._path}; if a person "
                "decided so, remove that file"
            )
        return kept, settled
