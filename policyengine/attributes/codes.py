"""Numbers as bit strings, so that a range becomes a few prefixes (dyadic intervals).

A code is a string of `0` and `1`. Codes of one attribute keep the order of its values
and none is a prefix of another one, so the values of a range are exactly those whose
code begins with one of the prefixes of `cover`. With limits and a step the codes have
one length; without, a number's code grows with the number of its digits.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Final

from policyengine.attributes.types import MAX_INTEGER, AttributeType

_SIGN: Final = 1 << 63
_LENGTH_BITS: Final = 9  # a whole number of the language has at most 333 bits
_FLIP: Final = str.maketrans("01", "10")


class NumberCode:
    """The codes of one attribute's values.

    A value's *rank* is a whole number that keeps the order: its place on the grid of
    `min` and `step`, the whole number itself, or the bits of the float (IEEE 754).

    Args:
        declared: a type of kind `int` or `float`.
    """

    def __init__(self, declared: AttributeType) -> None:
        self._kind = declared.kind
        self._grid = _grid(declared)
        low, high = declared.minimum, declared.maximum
        if self._grid is not None:
            self.low: int | None = 0
            self.high: int | None = self._grid.count - 1
        else:
            self.low = None if low is None else self._rank(low, up=True)
            self.high = None if high is None else self._rank(high, up=False)

    @property
    def width(self) -> int | None:
        """Length of every code, or None where the lengths differ."""
        if self._grid is not None:
            return max(1, (self._grid.count - 1).bit_length())
        return 64 if self._kind == "float" else None

    def encode(self, value: float) -> str:
        """Return the code of a value of the domain."""
        return self.code(self._rank(value, up=True))

    def code(self, rank: int) -> str:
        """Return the code of a rank."""
        width = self.width
        if width is not None:
            return format(rank, f"0{width}b")
        if rank < 0:  # -1 is the mirror image of 0, -2 that of 1, ...
            return "0" + _magnitude(-rank - 1).translate(_FLIP)
        return "1" + _magnitude(rank)

    def interval(
        self, low: float | None, low_open: bool, high: float | None, high_open: bool
    ) -> tuple[int | None, int | None] | None:
        """Return the ranks of a range of values, both ends included.

        Args:
            low: least value, or None for no bound; need not be in the domain.
            low_open: whether `low` itself is outside.
            high: greatest value, or None for no bound.
            high_open: whether `high` itself is outside.

        Returns:
            First and last rank, None for "no bound"; None when no value is inside.
        """
        first = None if low is None else self._bound(low, up=True, strict=low_open)
        last = None if high is None else self._bound(high, up=False, strict=high_open)
        if self.high is not None and first is not None and first > self.high:
            return None
        if self.low is not None and last is not None and last < self.low:
            return None
        if self.low is not None and first is not None and first <= self.low:
            first = None
        if self.high is not None and last is not None and last >= self.high:
            last = None
        return None if first is not None and last is not None and first > last else (first, last)

    def cover(self, first: int | None, last: int | None) -> tuple[str, ...]:
        """Return prefixes that the codes from one rank to another, and no others, begin with.

        Args:
            first: first rank inside, or None for no bound.
            last: last rank inside, or None for no bound; not before `first`.

        Returns:
            The prefixes; the empty one stands for every value.
        """
        low = None if first is None else self.code(first)
        high = None if last is None else self.code(last)
        if low is not None and low == high:
            return (low,)
        # Both ends agree up to the first place that parts them: below it is 0, above it 1.
        at = 0 if low is None or high is None else len(_common(low, high)) + 1
        below = () if low is None else _side(low, at, "0", "1")
        above = () if high is None else _side(high, at, "1", "0")
        if not below and not above:
            return ("",)
        if at and below == (low[:at],) and above == (high[:at],):  # type: ignore[index]
            return (low[: at - 1],)  # type: ignore[index]
        return below + above

    def _bound(self, value: float, *, up: bool, strict: bool) -> int:
        rank = self._rank(value, up=up)
        exact = rank == self._rank(value, up=not up)
        if strict and exact:
            return rank + 1 if up else rank - 1
        return rank

    def _rank(self, value: float, *, up: bool) -> int:
        if self._grid is not None:
            return self._grid.place(value, up=up)
        if self._kind == "int":
            return int(value)
        bits: int = struct.unpack(">Q", struct.pack(">d", value))[0]
        return ~bits & (2 * _SIGN - 1) if bits & _SIGN else bits | _SIGN


class _Grid:
    def __init__(self, start: Fraction, step: Fraction, count: int) -> None:
        self.start, self.step, self.count = start, step, count

    def place(self, value: float, *, up: bool) -> int:
        """Return the place at or beside a value, which may lie outside the grid."""
        exact = (Fraction(repr(value)) - self.start) / self.step
        return math.ceil(exact) if up else math.floor(exact)


def _grid(declared: AttributeType) -> _Grid | None:
    low, high, step = declared.minimum, declared.maximum, declared.step
    if low is None or high is None or (declared.kind == "float" and step is None):
        return None
    start, unit = Fraction(repr(low)), Fraction(repr(1 if step is None else step))
    return _Grid(start, unit, int((Fraction(repr(high)) - start) / unit) + 1)


def _magnitude(number: int) -> str:
    # INVARIANT: the language refuses numbers of more bits (`MAX_INTEGER`); one beyond still fits
    assert number <= MAX_INTEGER
    length = number.bit_length()
    mantissa = format(number, "b")[1:] if number else ""
    return format(length, f"0{_LENGTH_BITS}b") + mantissa


def _common(first: str, second: str) -> str:
    at = next(
        at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other
    )
    return first[:at]


def _side(code: str, at: int, end: str, branch: str) -> tuple[str, ...]:
    """Return the prefixes from a bound outwards, as far as place `at`.

    Args:
        code: code of the bound.
        at: places that stay as they are.
        end: the bit that can be cut off behind the last other one.
        branch: the bit of the values that lie inside.
    """
    kept = code[:at] + code[at:].rstrip(end)
    if not kept:
        return ("",)
    turns = (kept[:place] + branch for place in range(at, len(kept)) if kept[place] == end)
    return (*turns, kept)
