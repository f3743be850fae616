"""Quick choices from a seed, for tests that draw millions of them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import shake_256
from typing import TypeVar

T = TypeVar("T")
_BLOCK = 1024
_WIDTH = 4


class Dice:
    """A stream of choices that its seed gives again, on every machine.

    Args:
        seed: any text.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._block = 0
        self._at = 0
        self._bytes = b""

    def token(self, size: int) -> bytes:
        """`size` bytes."""
        if self._at + size > len(self._bytes):
            self._bytes = shake_256(f"{self._seed}/{self._block}".encode()).digest(
                max(size, _BLOCK)
            )
            self._block, self._at = self._block + 1, 0
        self._at += size
        return self._bytes[self._at - size : self._at]

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit - 1`."""
        return int.from_bytes(self.token(_WIDTH), "big") * limit >> 8 * _WIDTH

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[self.below(len(choices))]
