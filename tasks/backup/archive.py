"""The file of a backup: a tar of compressed parts, whose manifest comes last and names them all.

With a passphrase the tar stands in encrypted chunks. Nothing of it is ever unpacked to disk, and
no more than a part is held in memory.

    plain:     the tar
    encrypted: magic, salt, log2 of scrypt's cost, then for each chunk a byte (1 for the last),
               the length in 4 bytes and the ciphertext
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from policyengine.errors import PortcullisError
from policyengine.primitives import passphrase as stretching
from policyengine.primitives.rand import SYSTEM_RANDOM

MANIFEST = "manifest.json"
FORMAT = "portcullis-backup/1"
MAX_MANIFEST = 256 * 2**20
CHUNK = 2**20
_MAGIC = b"portcullis-sealed-backup/1\n"
_HEAD = len(_MAGIC) + stretching.SALT_SIZE + 1


class DamagedArchive(Exception):
    """The file is no backup, or not whole any more, or the passphrase is another."""


# -- writing ------------------------------------------------------------------------------------


class ArchiveWriter:
    """Adds parts; `finish` adds the manifest that vouches for them."""

    def __init__(self, out: IO[bytes]) -> None:
        self._tar = tarfile.TarFile(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT)
        self._parts: dict[str, dict[str, Any]] = {}

    def add(self, name: str, data: bytes) -> None:
        packed = gzip.compress(data, compresslevel=6, mtime=0)
        digest = hashlib.sha256(packed).hexdigest()
        self._parts[name] = {"sha256": digest, "size": len(packed)}
        self._put(name, packed)

    def finish(self, manifest: dict[str, Any]) -> None:
        document = {"format": FORMAT, "parts": self._parts, **manifest}
        self._put(MANIFEST, json.dumps(document, sort_keys=True, indent=1).encode())
        self._tar.close()

    def _put(self, name: str, data: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(data), 0o600
        self._tar.addfile(member, io.BytesIO(data))


@contextmanager
def writing(path: Path, passphrase: str | None) -> Iterator[ArchiveWriter]:
    """A backup at `path`, which must not be there; whole or absent, readable by its owner alone."""
    if path.exists():
        raise FileExistsError(f"{path} is there already")
    partial = path.with_name(f".{path.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            sealed = None if passphrase is None else _SealedWriter(file, passphrase)
            yield ArchiveWriter(file if sealed is None else sealed)  # type: ignore[arg-type]
            if sealed is not None:
                sealed.close()
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


class _SealedWriter:
    """Cuts what is written into chunks and encrypts each."""

    def __init__(self, out: IO[bytes], passphrase: str) -> None:
        salt = SYSTEM_RANDOM.token(stretching.SALT_SIZE)
        cost = stretching.COST
        self._key = stretching.stretch(passphrase, salt, cost=cost)
        self._out = out
        self._number = 0
        self._taken = 0
        self._waiting = bytearray()
        out.write(_MAGIC + salt + bytes([cost.bit_length() - 1]))

    def tell(self) -> int:
        """How much was written to it."""
        return self._taken

    def write(self, data: bytes) -> int:
        self._taken += len(data)
        self._waiting += data
        while len(self._waiting) > CHUNK:
            self._seal(bytes(self._waiting[:CHUNK]), last=False)
            del self._waiting[:CHUNK]
        return len(data)

    def close(self) -> None:
        self._seal(bytes(self._waiting), last=True)

    def _seal(self, chunk: bytes, *, last: bool) -> None:
        sealed = stretching.seal_chunk(
            self._key, self._number, chunk, last=last, random=SYSTEM_RANDOM
        )
        self._number += 1
        self._out.write(bytes([last]) + len(sealed).to_bytes(4, "big") + sealed)


# -- reading ------------------------------------------------------------------------------------


def check(path: Path, passphrase: str | None, progress: Callable[[int, int], None]) -> Any:
    """Read the whole archive and give its manifest, once every part is what the manifest says.

    Raises:
        DamagedArchive: it is not.
    """
    found: dict[str, dict[str, Any]] = {}
    manifest: Any = None
    total = path.stat().st_size
    done = 0
    for name, data in _members(path, passphrase):
        done += len(data)
        progress(min(done, total), total)
        if manifest is not None or name in found:
            raise DamagedArchive("the backup holds what its manifest does not name")
        if name == MANIFEST:
            manifest = _manifest(data)
        else:
            found[name] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    if manifest is None:
        raise DamagedArchive("the backup ends before its manifest")
    if manifest["parts"] != found:
        wrong = sorted(
            name
            for name in set(found) | set(manifest["parts"])
            if found.get(name) != manifest["parts"].get(name)
        )
        raise DamagedArchive(f"damaged or missing: {', '.join(wrong[:5])}")
    return manifest


def parts(path: Path, passphrase: str | None) -> Iterator[tuple[str, bytes]]:
    """Name and content of every part, in the order in which they were added."""
    for name, data in _members(path, passphrase):
        if name != MANIFEST:
            yield name, gzip.decompress(data)


def is_sealed(path: Path) -> bool:
    """Whether a passphrase is needed."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _members(path: Path, passphrase: str | None) -> Iterator[tuple[str, bytes]]:
    try:
        with path.open("rb") as file:
            source: Any = file
            if is_sealed(path):
                if passphrase is None:
                    raise DamagedArchive("the backup is encrypted: its passphrase is needed")
                source = _SealedReader(file, passphrase)
            with tarfile.open(fileobj=source, mode="r|") as tar:
                for member in tar:
                    yield member.name, _content(tar, member)
            if source is not file:
                source.drain()
    except (tarfile.TarError, EOFError, OSError, PortcullisError) as error:
        raise DamagedArchive("the file is no backup, or damaged, or has another passphrase") from (
            error
        )


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    handle = tar.extractfile(member) if member.isreg() else None
    if handle is None or member.size > MAX_MANIFEST:
        raise DamagedArchive("the backup holds what is no part of one")
    return handle.read()


def _manifest(data: bytes) -> Any:
    try:
        manifest = json.loads(data)
        known = manifest["format"] == FORMAT and isinstance(manifest["parts"], dict)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedArchive("the manifest cannot be read") from error
    if not known:
        raise DamagedArchive(f"the backup is of another format than {FORMAT}")
    return manifest


class _SealedReader:
    """Gives back what `_SealedWriter` was given."""

    def __init__(self, source: IO[bytes], passphrase: str) -> None:
        head = source.read(_HEAD)
        salt, cost = head[len(_MAGIC) : -1], head[-1]
        if len(head) != _HEAD or cost > stretching.MAX_COST.bit_length():
            raise EOFError
        self._key = stretching.stretch(passphrase, salt, cost=1 << cost)
        self._source = source
        self._number = 0
        self._ready = bytearray()
        self._ended = False

    def read(self, size: int) -> bytes:
        while len(self._ready) < size and not self._ended:
            self._ready += self._open()
        data = bytes(self._ready[:size])
        del self._ready[:size]
        return data

    def drain(self) -> None:
        """Read to the end, so that a cut is seen even where the tar ended before it."""
        while not self._ended:
            self._open()
        if self._source.read(1):
            raise EOFError

    def _open(self) -> bytes:
        head = self._source.read(5)
        size = int.from_bytes(head[1:], "big")
        if len(head) != 5 or head[0] > 1 or size > CHUNK + 64:
            raise EOFError
        last = bool(head[0])
        chunk = stretching.open_chunk(self._key, self._number, self._source.read(size), last=last)
        self._number += 1
        self._ended = last
        return chunk
