"""Regions of an attribute's values: one witness for everything that tests can tell apart.

The tests that an expression makes of an attribute cut its domain into finitely many
regions; within one, every test has the same answer. So a question about all values is a
question about one witness a region: exact for finite kinds (every value), for numbers
(each constant, and one value of the grid in each gap between constants) and for strings.
A string that equals no constant is told apart by the longest prefix and the longest suffix
of the tests that it has, and `prefix + a fresh letter + suffix` has exactly these two.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, Final, TypeAlias, cast

from policyengine.attributes import AttributeType, Test, Value, evaluate
from policyengine.attributes.types import MAX_INTEGER, NUMERIC

Witness: TypeAlias = Value | None
"""A value that stands for its region; None stands for the absent attribute."""

_BASIC: Final = range(ord("a"), 0xD800)  # what follows are surrogates, which no value has
_BEYOND: Final = range(0x10000, sys.maxunicode + 1)
_TRIES: Final = 64  # points of a grid that are looked at before a gap counts as not empty


def witnesses(tests: Iterable[Test], declared: AttributeType) -> Iterator[Witness]:
    """Visit one witness for each region, the absent attribute first.

    Sound: every state of the attribute has a witness that answers all tests alike. Where
    it cannot be said cheaply whether a gap holds a value (a grid too fine for floats,
    texts longer than a value may be), there may be a witness too many.

    Args:
        tests: tests of one attribute.
        declared: its type.
    """
    yield None
    if declared.kind == "bool":
        yield from (False, True)
    elif declared.kind == "enum":
        yield from declared.values
    elif declared.kind in NUMERIC:
        yield from _numbers(_constants(tests), declared)
    else:
        yield from _texts(tuple(tests))


class Regions:
    """The regions of one attribute as bits, and the answers of tests as masks over them.

    Args:
        tests: every test that will be asked about.
        declared: the attribute's type.
    """

    def __init__(self, tests: Iterable[Test], declared: AttributeType) -> None:
        asked = tuple(tests)
        self._values = tuple(cast(Any, value) for value in witnesses(asked, declared))[1:]
        self._bits = {value: 2 << number for number, value in enumerate(self._values)}
        self._present = (2 << len(self._values)) - 2  # bit 0 is the absent attribute

    @property
    def all(self) -> int:
        """Every region."""
        return self._present | 1

    def mask(self, test: Test) -> int:
        """Return the regions in which a test holds.

        Agrees with `policyengine.attributes.evaluate` on every witness.
        """
        wanted: Any = test.value
        match test.op:
            case "has":
                return self._present
            case "==":
                return self._bits.get(wanted, 0)
            case "!=":
                return self._present & ~self._bits.get(wanted, 0)
            case "in":
                return sum(self._bits.get(value, 0) for value in set(wanted))
            case "<" | ">=":  # the witnesses of a number stand in order
                below = (2 << bisect_left(self._values, wanted)) - 2
            case "<=" | ">":
                below = (2 << bisect_right(self._values, wanted)) - 2
            case _:
                return sum(
                    2 << number
                    for number, value in enumerate(self._values)
                    if evaluate(test, {test.attribute: value})
                )
        return below if test.op in ("<", "<=") else self._present & ~below


def _constants(tests: Iterable[Test]) -> list[Value]:
    found: set[Value] = set()
    for test in tests:
        if isinstance(test.value, tuple):
            found.update(test.value)
        elif test.value is not None:
            found.add(test.value)
    return list(found)


def _texts(tests: Sequence[Test]) -> Iterator[Value]:
    whole = [test for test in tests if test.op in ("==", "!=", "in")]
    yield from cast("list[str]", _constants(whole))
    prefixes = {"", *(cast(str, test.value) for test in tests if test.op == "startsWith")}
    suffixes = {"", *(cast(str, test.value) for test in tests if test.op == "endsWith")}
    fresh = _fresh({letter for text in _constants(tests) for letter in cast(str, text)})
    for prefix in sorted(prefixes):
        for suffix in sorted(suffixes):
            yield prefix + fresh + suffix


def _fresh(used: set[str]) -> str:
    """Return a letter that no constant has; there are more letters than `implies` accepts."""
    return next(letter for letter in map(chr, chain(_BASIC, _BEYOND)) if letter not in used)


def _numbers(constants: Iterable[Value], declared: AttributeType) -> Iterator[Value]:
    numbers = sorted(cast("Iterable[int | float]", constants))
    previous: int | float | None = None
    for number in numbers:
        yield from _between(previous, number, declared)
        if declared.admits(number):
            yield number
        previous = number
    yield from _between(previous, None, declared)


def _between(
    low: float | None, high: float | None, declared: AttributeType
) -> Iterator[int | float]:
    """Visit one value of the domain strictly between two numbers, if there is one."""
    if declared.kind == "int":
        yield from _whole_between(cast("int | None", low), cast("int | None", high), declared)
        return
    least = _lowest(low, -sys.float_info.max, declared.minimum)
    greatest = -_lowest(_minus(high), -sys.float_info.max, _minus(declared.maximum))
    if least > greatest:
        return
    if declared.step is None:
        yield least
        return
    yield from _on_grid(least, greatest, declared)


def _whole_between(
    low: int | None, high: int | None, declared: AttributeType
) -> Iterator[int | float]:
    least = max(
        1 - MAX_INTEGER if low is None else low + 1,
        1 - MAX_INTEGER if declared.minimum is None else int(declared.minimum),
    )
    greatest = min(
        MAX_INTEGER - 1 if high is None else high - 1,
        MAX_INTEGER - 1 if declared.maximum is None else int(declared.maximum),
    )
    origin, step = int(declared.minimum or 0), int(declared.step or 1)
    first = origin + -(-(least - origin) // step) * step
    if first <= greatest:
        yield first


def _on_grid(least: float, greatest: float, declared: AttributeType) -> Iterator[float]:
    origin = Fraction(repr(declared.minimum)) if declared.minimum is not None else Fraction(0)
    step = Fraction(repr(declared.step))
    at = -((origin - Fraction(repr(least))) // step)  # the first point that is not below `least`
    for number in range(at, at + _TRIES):
        point = origin + number * step
        if point > Fraction(repr(greatest)):
            return
        value = float(point)
        # A float is on the grid when its shortest text is; it is then the float next to it
        if least <= value <= greatest and declared.admits(value):
            yield value
            return
    yield least


def _lowest(above: float | None, floor: float, minimum: float | None) -> float:
    """Return the least float that is above a number and not below two bounds."""
    bounds = [floor]
    if above is not None:
        bounds.append(math.nextafter(float(above), math.inf) + 0.0)
    if minimum is not None:
        bounds.append(float(minimum))
    return max(bounds)


def _minus(number: float | None) -> float | None:
    return None if number is None else -float(number)
