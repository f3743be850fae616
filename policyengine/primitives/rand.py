"""Random bytes as an argument, so that tests and golden vectors can pin them."""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import Final, Protocol

from policyengine.errors import InputError

_BLOCK: Final = 64


class RandomSource(Protocol):
    """Where random bytes come from."""

    def token(self, size: int) -> bytes:
        """Return `size` bytes that nobody can guess."""


class SystemRandom:
    """The operating system's generator; safe across forks."""

    def token(self, size: int) -> bytes:
        """Return `size` bytes of the system's generator."""
        return os.urandom(size)


class SeededRandom:
    """A deterministic stream: keyed BLAKE2b over a counter. For vectors and tests only.

    Args:
        seed: 1 to 64 bytes; the same seed gives the same stream.

    Raises:
        InputError: `invalid` when the seed is empty or too long.
    """

    def __init__(self, seed: bytes) -> None:
        if not 1 <= len(seed) <= _BLOCK:
            raise InputError("invalid", "a seed has 1 to 64 bytes")
        self._seed = seed
        self._counter = 0
        self._left = b""

    def token(self, size: int) -> bytes:
        """Return the next `size` bytes of the stream."""
        chunks = [self._left]
        have = len(self._left)
        while have < size:
            chunks.append(self._block())
            have += _BLOCK
        stream = b"".join(chunks)
        self._left = stream[size:]
        return stream[:size]

    def _block(self) -> bytes:
        block = blake2b(
            self._counter.to_bytes(8, "big"), key=self._seed, person=b"portcullis-rand"
        ).digest()
        self._counter += 1
        return block


SYSTEM_RANDOM: Final = SystemRandom()
