"""The embedded key store: key-encryption keys in files that only the authority's user reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from policyengine.primitives import aead
from policyengine.primitives.rand import RandomSource
from tasks.authority.files import StateError, read_private, sync_folder, write_private

KEY_BYTES: Final = 32
FIRST: Final = 1
_NAME: Final = "kek"
_LATER: Final = re.compile(r"kek-([1-9][0-9]{0,5})\Z")


class FileStore:
    """Key-encryption keys as files `kek`, `kek-2`, `kek-3` and so on, each of mode 0600.

    Args:
        folder: where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def exists(self) -> bool:
        """Whether there is a key."""
        return bool(self._numbers())

    def create(self, random: RandomSource) -> None:
        """Make the first key."""
        self._write(FIRST, random)

    def ids(self) -> tuple[int, ...]:
        """The numbers of the keys that can be unwrapped with, oldest first."""
        return self._numbers()

    def wrap(self, secret: bytes, *, aad: bytes, random: RandomSource) -> tuple[int, bytes]:
        """Encrypt under the newest key; returns its number and the ciphertext."""
        number = max(self._numbers(), default=FIRST)
        return number, aead.seal(self._key(number), secret, aad=aad, random=random)

    def unwrap(self, number: int, wrapped: bytes, *, aad: bytes) -> bytes:
        """Decrypt what was wrapped under the key of this number.

        Raises:
            DecryptionError: another place, or damaged.
            StateError: the key is not there, or open to others.
        """
        return aead.open_(self._key(number), wrapped, aad=aad)

    def rotate(self, random: RandomSource) -> int:
        """Make another key, under which everything is wrapped from now on."""
        number = max(self._numbers()) + 1
        self._write(number, random)
        return number

    def retire(self, number: int) -> None:
        """Destroy an old key: what is still wrapped under it is lost."""
        if number not in self._numbers():
            raise StateError(f"there is no key-encryption key {number}")
        if number == max(self._numbers()):
            raise StateError("the newest key-encryption key is in use: rotate first")
        self._path(number).unlink()
        sync_folder(self._folder)

    def _key(self, number: int) -> bytes:
        path = self._path(number)
        key = read_private(path)
        if len(key) != KEY_BYTES:
            raise StateError(f"{path} must hold exactly {KEY_BYTES} bytes")
        return key

    def _write(self, number: int, random: RandomSource) -> None:
        write_private(self._path(number), random.token(KEY_BYTES))

    def _path(self, number: int) -> Path:
        # The first has no number: so it was called when there was only one.
        return self._folder / (_NAME if number == FIRST else f"{_NAME}-{number}")

    def _numbers(self) -> tuple[int, ...]:
        if not self._folder.is_dir():
            return ()
        names = {path.name for path in self._folder.iterdir()}
        later = [int(found[1]) for name in names if (found := _LATER.match(name))]
        return tuple(sorted([*([FIRST] if _NAME in names else []), *later]))
