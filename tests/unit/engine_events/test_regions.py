"""Regions: a witness in every gap that holds a value of the domain, and in no other."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

from policyengine.attributes import AttributeType, Test
from policyengine.events.regions import witnesses

LAST = 10**100 - 1


def found(declared: AttributeType, *constants: Any) -> list[Any]:
    return list(witnesses([Test("a", "==", value) for value in constants], declared))[1:]


@pytest.mark.parametrize(
    ("declared", "constants", "expected"),
    [
        (AttributeType("int", 0, 5), [2], [0, 2, 3]),
        (AttributeType("int", 0, 5), [0, 5], [0, 1, 5]),
        (AttributeType("int", 0, 5), [2, 3], [0, 2, 3, 4]),
        (AttributeType("int", 0, 5), [-4, 9], [0]),
        (AttributeType("int", 1, 9, 4), [2], [1, 5]),
        (AttributeType("int", 1, 9, 4), [5, 8], [1, 5, 9]),
        (AttributeType("int", None, None, 10), [3, 9], [-LAST // 10 * 10 + 10, 10]),
        (AttributeType("int"), [LAST], [-LAST, LAST]),
        (AttributeType("int"), [-LAST, 0], [-LAST, 1 - LAST, 0, 1]),
        (AttributeType("float", 0, 1, 0.5), [0.2], [0.0, 0.5]),
        (AttributeType("float", 0, 1, 0.1), [0.3, 0.4], [0.0, 0.3, 0.4, 0.5]),
        (AttributeType("float", 0, 1, 0.5), [0.1, 0.4], [0.0, 0.5]),
        (AttributeType("float", None, 1, 0.5), [1.0], [-sys.float_info.max, 1.0]),
        (AttributeType("float", 0, 1), [0.0, 1.0], [0.0, math.nextafter(0.0, 1.0), 1.0]),
        (AttributeType("float", 0, 1), [0.5, math.nextafter(0.5, 1)],
         [0.0, 0.5, math.nextafter(0.5, 1), math.nextafter(math.nextafter(0.5, 1), 1)]),
        (AttributeType("float"), [sys.float_info.max],
         [-sys.float_info.max, sys.float_info.max]),
    ],
)  # fmt: skip
def test_numbers(declared: AttributeType, constants: list[Any], expected: list[Any]) -> None:
    assert found(declared, *constants) == expected


def test_a_grid_too_fine_for_floats_may_have_a_witness_too_many() -> None:
    low, high = 1.0, math.nextafter(1.0, 2.0)
    fine = AttributeType("float", 1, 2, 1e-20)
    assert found(fine, low, high)[:2] == [low, high]  # no float between them
    wide = found(AttributeType("float", 1, 2, 3e-20), low, 1.5)
    assert wide[0] == low
    assert low < wide[1] < 1.5


def test_strings_have_every_pair_of_ends_and_a_letter_of_their_own() -> None:
    tests = [
        Test("a", "startsWith", "ab"),
        Test("a", "endsWith", "c"),
        Test("a", "in", ("abc", "d")),
        Test("a", "has"),
    ]
    every = list(witnesses(tests, AttributeType("string")))
    assert every[0] is None
    assert sorted(every[1:3]) == ["abc", "d"]
    assert every[3:] == ["e", "ec", "abe", "abec"]


def test_few_values_are_all_witnesses() -> None:
    assert found(AttributeType("bool")) == [False, True]
    assert found(AttributeType("enum", values=("b", "a"))) == ["b", "a"]
