"""Seeded choices: everything that happens by chance in a simulation is drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import log
from typing import TypeVar

from policyengine.primitives.rand import SeededRandom

T = TypeVar("T")
_BITS = 53


class Chance:
    """A stream of choices that its name gives again, on every machine.

    Args:
        name: the seed, and what the stream is for.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._source = SeededRandom(blake2b(name.encode(), digest_size=32).digest())

    def child(self, name: str) -> Chance:
        """A stream of its own: what is drawn from it changes nothing here."""
        return Chance(f"{self._name}/{name}")

    def token(self, size: int) -> bytes:
        """`size` bytes."""
        return self._source.token(size)

    def identifier(self) -> str:
        """An identifier of 32 hexadecimal digits."""
        return self.token(16).hex()

    def fraction(self) -> float:
        """A number from 0 up to, not including, 1."""
        return (int.from_bytes(self.token(7), "big") >> (56 - _BITS)) / float(1 << _BITS)

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit - 1`."""
        return int(self.fraction() * limit)

    def between(self, low: float, high: float) -> float:
        """A number from `low` to `high`."""
        return low + (high - low) * self.fraction()

    def waiting(self, mean: float) -> float:
        """A waiting time with this mean, without memory (exponential)."""
        return -mean * log(1.0 - self.fraction())

    def happens(self, probability: float) -> bool:
        """Whether something of this probability happens; certainty draws nothing."""
        return probability > 0 and self.fraction() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[self.below(len(choices))]

    def sample(self, choices: Sequence[T], number: int) -> list[T]:
        """So many different ones of the choices, in the order in which they were drawn."""
        left = list(choices)
        return [left.pop(self.below(len(left))) for _ in range(min(number, len(left)))]
