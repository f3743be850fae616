"""Coverage is sound and a partial order; routing tables and mergers lose nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.attributes import parse
from policyengine.events import (
    Filter,
    RoutingTable,
    Subscription,
    covers,
    equivalent,
    merge,
    merge_exactly,
    merger,
    types_from_json,
    views,
)
from tests.property.test_events_implication import small_expressions

KEYS = ["k", "l", "m"]
TYPES = types_from_json(
    {
        "Top": {
            "attributes": {
                "whole": {"type": "int", "min": 0, "max": 5},
                "on": {"type": "bool", "keys": KEYS},
                "word": {"type": "enum", "values": ["x", "y", "z"], "keys": ["k", "l"]},
            }
        },
        "Middle": {
            "parent": "Top",
            "attributes": {
                "on": {"type": "bool", "keys": ["k"]},
                "even": {"type": "int", "min": 1, "max": 9, "step": 2, "keys": ["l"]},
            },
        },
        "Other": {"parent": "Top"},
    }
)
NAMES = ("whole", "on", "word")
DOMAINS: dict[str, list[Any]] = {
    "whole": [0, 1, 2, 3, 4, 5],
    "on": [False, True],
    "word": ["x", "y", "z"],
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    keys = draw(st.sampled_from([[], [], ["k"], ["l"], ["k", "l"], KEYS]))
    return Filter(draw(small_expressions(NAMES)), frozenset(keys))


@st.composite
def subscriptions(draw: st.DrawFn) -> Subscription:
    name = draw(st.sampled_from(["Top", "Top", "Middle", "Other"]))
    return Subscription(name, tuple(draw(st.lists(filters(), max_size=3))))


@st.composite
def related(draw: st.DrawFn) -> Subscription:
    """One of few filters, so that subscriptions meet often."""
    pool = [
        Filter(expression, frozenset(keys))
        for expression in EXPRESSIONS
        for keys in ([], ["k"], ["k", "l"])
    ]
    name = draw(st.sampled_from(["Top", "Top", "Middle"]))
    return Subscription(name, tuple(draw(st.lists(st.sampled_from(pool), max_size=2))))


def _expressions() -> list[Any]:
    texts = ["whole > 1", "whole > 3", "whole <= 3", "whole == 3", "on", "on || whole > 3"]
    return [parse(text, TYPES.schema("Top")) for text in texts]


EXPRESSIONS = _expressions()
events = st.tuples(
    st.sampled_from(TYPES.names),
    st.fixed_dictionaries({}, optional={name: st.sampled_from(DOMAINS[name]) for name in NAMES}),
)


def matched(subscription: Subscription, event: tuple[str, dict[str, Any]]) -> bool:
    name, values = event
    return subscription.matches(TYPES, name, views(TYPES, name, values))


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(subscriptions(), related()),
    st.one_of(subscriptions(), related()),
    st.lists(events, max_size=10),
)
def test_what_the_covered_one_matches_the_covering_one_matches(
    first: Subscription, second: Subscription, some: list[tuple[str, dict[str, Any]]]
) -> None:
    narrower = Subscription(second.type, (*first.filters, *second.filters))
    if TYPES.is_a(second.type, first.type):
        assert covers(TYPES, first, narrower)
    for special in (second, narrower):
        if covers(TYPES, first, special):
            assert all(matched(first, event) for event in some if matched(special, event))
    if equivalent(TYPES, first, second):  # antisymmetric, up to what is asked for
        assert all(matched(first, event) == matched(second, event) for event in some)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(related(), subscriptions()), min_size=3, max_size=3))
def test_coverage_is_reflexive_and_transitive(three: list[Subscription]) -> None:
    for one in three:
        assert covers(TYPES, one, one)
        assert covers(TYPES, one, one, work=0)
    for first in three:
        for second in three:
            for third in three:
                if covers(TYPES, first, second) and covers(TYPES, second, third):
                    assert covers(TYPES, first, third)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(related(), min_size=1, max_size=7),
    st.lists(st.integers(0, 6), unique=True, max_size=5),
)
def test_a_table_is_minimal_complete_and_the_same_as_a_fresh_one(
    all_of_them: list[Subscription], leaving: list[int]
) -> None:
    table: RoutingTable[int] = RoutingTable(TYPES)
    travelling: set[int] = set()
    steps = [(table.insert, (each, one)) for each, one in enumerate(all_of_them)]
    steps += [(table.remove, (each,)) for each in leaving if each < len(all_of_them)]  # type: ignore[list-item]
    for step, arguments in steps:
        change = step(*arguments)
        assert not set(change.forwarded) & travelling
        assert set(change.withdrawn) <= travelling
        travelling = (travelling | set(change.forwarded)) - set(change.withdrawn)
        assert travelling == set(table.kept)
    left = {each: one for each, one in enumerate(all_of_them) if each not in leaving}
    kept = table.kept
    for each in kept:
        assert not any(covers(TYPES, kept[other], kept[each]) for other in kept if other != each)
        for below in table.represented(each):
            assert covers(TYPES, kept[each], left[below])
    stood_for = [each for one in kept for each in (one, *table.represented(one))]
    assert sorted(stood_for) == sorted(left)
    fresh = merge(TYPES, left).kept
    assert len(fresh) == len(kept)
    for one in fresh.values():
        assert any(equivalent(TYPES, one, other) for other in kept.values())


@settings(max_examples=100, deadline=None)
@given(st.lists(related(), min_size=2, max_size=5), st.lists(events, max_size=12))
def test_a_merger_covers_both_and_an_exact_one_no_more(
    some: list[Subscription], happened: list[tuple[str, dict[str, Any]]]
) -> None:
    found = merger(TYPES, some[0], some[1])
    if found is not None:
        assert all(covers(TYPES, found.subscription, one) for one in some[:2])
    merged = merge_exactly(TYPES, some)
    assert len(merged) <= len(some)
    for event in happened:
        asked = any(matched(one, event) for one in some)
        assert any(matched(one, event) for one in merged) == asked
        if found is not None and found.exact:
            two = matched(some[0], event) or matched(some[1], event)
            assert matched(found.subscription, event) == two
