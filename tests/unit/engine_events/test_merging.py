"""Routing tables and mergers."""

from __future__ import annotations

import pytest

from policyengine.errors import InputError
from policyengine.events import (
    Change,
    RoutingTable,
    Subscription,
    covers,
    equivalent,
    merge,
    merge_exactly,
    merger,
)
from tests.unit.engine_events.city_types import BOTH, city, subscription

TYPES = city()


def severity(text: str) -> Subscription:
    return subscription("PoliceEvent", (text, []))


def test_only_what_nothing_covers_travels_on() -> None:
    table = merge(
        TYPES,
        {
            "narrow": severity("severity == 3"),
            "other": subscription("FireEvent"),
            "wide": severity("severity > 1"),
            "again": severity("severity >= 2"),
        },
    )
    assert list(table.kept) == ["other", "wide"]
    assert table.represented("wide") == ("narrow", "again")
    assert table.represented("other") == ()


def test_what_a_general_one_stood_for_comes_back() -> None:
    table: RoutingTable[int] = RoutingTable(TYPES)
    assert table.insert(1, severity("severity == 3")) == Change((1,))
    assert table.insert(2, severity("severity > 2")) == Change((2,), (1,))
    assert table.insert(3, severity("severity > 3")) == Change()
    assert table.insert(4, severity("severity > 1")) == Change((4,), (2,))
    assert table.represented(4) == (1, 2, 3)
    assert table.insert(0, subscription("FireEvent")) == Change((0,))
    assert table.remove(3) == Change()
    assert table.remove(0) == Change((), (0,))
    assert table.insert(3, severity("severity == 9")) == Change()
    assert table.insert(0, subscription("FireEvent")) == Change((0,))
    assert table.insert(7, subscription("FireEvent")) == Change()
    assert table.remove(7) == Change()
    assert table.remove(3) == Change()
    assert table.remove(0) == Change((), (0,))
    assert table.remove(4) == Change((2,), (4,))
    assert table.represented(2) == (1,)
    assert table.insert(5, severity("severity > 3")) == Change()
    assert table.remove(2) == Change((1, 5), (2,))
    assert list(table.kept) == [1, 5]
    assert table.kept[1] == severity("severity == 3")


def test_among_equivalent_ones_the_first_travels_on() -> None:
    table = merge(TYPES, {1: severity("severity > 2"), 2: severity("severity >= 3")})
    assert list(table.kept) == [1]
    assert table.remove(1) == Change((2,), (1,))


def test_what_a_table_refuses() -> None:
    table = merge(TYPES, {1: severity("severity > 2"), 2: severity("severity > 3")})
    for step, kind in (
        (lambda: table.insert(1, severity("true")), "invalid"),
        (lambda: table.insert(9, Subscription("Nothing")), "unknown"),
        (lambda: table.remove(9), "unknown"),
        (lambda: table.represented(2), "unknown"),
    ):
        with pytest.raises(InputError) as caught:
            step()
        assert caught.value.kind == kind
    assert list(table.kept) == [1]


@pytest.mark.parametrize(
    ("first", "second", "merged", "exact"),
    [
        ("severity >= 1 && severity <= 3", "severity >= 4 && severity <= 6",
         "severity >= 1 && severity <= 6", True),
        ("severity > 0 && severity < 4", "severity >= 2 && severity <= 6",
         "severity > 0 && severity <= 6", True),
        ("severity >= 1 && severity <= 3", "severity >= 5 && severity <= 6",
         "severity >= 1 && severity <= 6", False),
        ("severity == 1", "severity == 4", "severity in [1, 4]", True),
        ("severity in [1, 2]", "severity == 4", "severity in [1, 2, 4]", True),
        ("severity == 1", "severity > 1 && severity < 5", "severity >= 1 && severity < 5", True),
        ("severity > 1 && severity > 2 && severity < 4", "severity == 4",
         "severity > 2 && severity <= 4", True),
        ("severity > 4", "severity < 6", "has(severity)", True),
        ("severity > 6", "severity < 4", "has(severity)", False),
        ('zone == "a" && severity < 3', 'zone == "a" && severity == 3',
         'zone == "a" && severity <= 3', True),
        ("severity > 2", "severity > 5", "severity > 2", True),
        ("severity > 5", "severity > 2", "severity > 2", True),
    ],
)  # fmt: skip
def test_two_become_one(first: str, second: str, merged: str, *, exact: bool) -> None:
    found = merger(TYPES, severity(first), severity(second))
    assert found is not None
    assert equivalent(TYPES, found.subscription, severity(merged))
    assert found.exact is exact
    for one in (first, second):
        assert covers(TYPES, found.subscription, severity(one))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (severity("severity == 1"), severity('zone == "a"')),
        (severity("severity == 1"), severity("severity == 2 || severity == 5")),
        (severity("severity == 1"), severity("severity != 1")),
        (severity('zone == "a"'), severity('zone.startsWith("b")')),
        (severity('zone == "a" && severity == 1'), severity('zone == "b" && severity == 2')),
        (severity("severity == 1"), subscription("PoliceEvent", ("severity == 2", ["fire"]))),
        (severity("severity == 1"), subscription("FireEvent")),
        (subscription("PoliceEvent", ("severity == 1", []), ('zone == "a"', [])),
         subscription("PoliceEvent", ("severity == 2", []), ('zone == "b"', []))),
        (severity('zone == "a" && severity == 1'), severity('zone == "b"')),
        (severity('severity == 2 && zone == "b"'), severity('zone == "b" && severity != 2')),
    ],
)  # fmt: skip
def test_what_has_no_common_form(first: Subscription, second: Subscription) -> None:
    assert merger(TYPES, first, second) is None


def test_other_filters_and_keys_stay() -> None:
    first = subscription("BurglaryEvent", ("severity > 1", []), ("polCode == 1", BOTH))
    second = subscription("BurglaryEvent", ("polCode == 2", BOTH), ("severity > 1", []))
    found = merger(TYPES, first, second)
    wanted = subscription("BurglaryEvent", ("severity > 1", []), ("polCode in [1, 2]", BOTH))
    assert found is not None
    assert found.exact
    assert equivalent(TYPES, found.subscription, wanted)


def test_exact_mergers_are_made_until_none_is_left() -> None:
    parts = [severity(f"severity == {number}") for number in (1, 5)]
    parts += [severity("severity >= 2 && severity <= 4"), severity("severity > 8")]
    left = merge_exactly(TYPES, [*parts, subscription("FireEvent")])
    assert len(left) == 3
    assert any(equivalent(TYPES, one, severity("severity >= 1 && severity <= 5")) for one in left)
    with pytest.raises(InputError):
        merge_exactly(TYPES, [Subscription("Nothing")])
