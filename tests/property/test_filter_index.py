"""Filters by index: whatever is met is found, however much of an event may be shown."""

from __future__ import annotations

from typing import Any

from bitarray import bitarray
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.data import filterindex
from brokers.data.filterindex import FilterIndex, ordered
from brokers.data.wishes import TypeWishes
from brokers.matching import EpochPolicy
from policyengine.attributes import AttributeType, Expression, Value, evaluate, parse

SCHEMA = {
    "n": AttributeType("int", minimum=-5, maximum=5),
    "f": AttributeType("float"),
    "s": AttributeType("string"),
    "t": AttributeType("string"),
    "b": AttributeType("bool"),
}
TEXTS = ("", "a", "ab", "abc", "b", "ba", "ü")
NUMBERS = st.integers(-5, 5)


def conditions() -> st.SearchStrategy[str]:
    compare = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    text = st.sampled_from(TEXTS).map(lambda one: f'"{one}"')
    part = st.sampled_from(["startsWith", "endsWith"])
    name = st.sampled_from("st")
    return st.one_of(
        st.builds(lambda op, n: f"n {op} {n}", compare, NUMBERS),
        st.builds(lambda op, n: f"f {op} {n}.5", compare, st.integers(0, 5)),
        st.builds(lambda v, t: f"{v} == {t}", name, text),
        st.builds(lambda v, how, t: f"{v}.{how}({t})", name, part, text),
        st.lists(text, min_size=1, max_size=3).map(lambda found: f"s in [{', '.join(found)}]"),
        st.sampled_from(["b", "!b", "has(n)", "!has(s)", "true", "false"]),
    )


def expressions() -> st.SearchStrategy[str]:
    return st.recursive(
        conditions(),
        lambda inner: st.one_of(
            st.builds(
                lambda x, op, y: f"({x}) {op} ({y})", inner, st.sampled_from(["&&", "||"]), inner
            ),
            inner.map(lambda x: f"!({x})"),
        ),
        max_leaves=5,
    )


def events() -> st.SearchStrategy[dict[str, Value]]:
    text = st.sampled_from(TEXTS)
    return st.fixed_dictionaries(
        {},
        optional={
            "n": NUMBERS,
            "f": st.integers(0, 5).map(lambda n: n + 0.5),
            "s": text,
            "t": text,
            "b": st.booleans(),
        },
    )


@settings(max_examples=120, deadline=None)
@given(
    st.lists(expressions(), max_size=12),
    st.lists(st.tuples(events(), st.sets(st.sampled_from(list(SCHEMA)))), min_size=1, max_size=4),
    st.sets(st.integers(0, 11)),
    st.sampled_from([0, 1, 64]),
)
def test_what_is_met_is_found(
    texts: list[str],
    seen: list[tuple[dict[str, Value], set[str]]],
    removed: set[int],
    crowd: int,
) -> None:
    found: dict[Any, Any] = {key: parse(text, SCHEMA) for key, text in enumerate(texts)}
    kept = filterindex._CROWD
    filterindex._CROWD = crowd
    try:
        index = FilterIndex(SCHEMA)
        tried = set(index.add(found))
    finally:
        filterindex._CROWD = kept
    for key in removed & set(found):
        index.remove(key)
        del found[key]
        tried.discard(key)
    assert len(index) == len(found) - len(tried)
    for values, hidden in seen:
        candidates = index.candidates(values)
        assert candidates <= set(found) - tried
        # Its subscriber may read only a part of the event.
        shown = {name: value for name, value in values.items() if name not in hidden}
        for each in (values, shown):
            met = {key for key, expression in found.items() if evaluate(expression, each)}
            assert met <= candidates | tried


@given(st.floats(allow_nan=False) | st.integers(), st.floats(allow_nan=False) | st.integers())
def test_bytes_are_in_the_order_of_numbers(one: float, other: float) -> None:
    assert (ordered(one) <= ordered(other)) or one > other
    assert one != other or ordered(one) == ordered(other)


HANDLES = ("p-a", "p-b", "p-c", "p-d", "p-e")
Wanted = dict[str, tuple[Expression | None, ...]]


@st.composite
def wanted(draw: st.DrawFn) -> Wanted:
    texts = st.lists(st.one_of(st.just(""), expressions()), min_size=1, max_size=3)
    clients = draw(st.dictionaries(st.sampled_from(HANDLES), texts))
    return {
        handle: tuple(parse(text, SCHEMA) if text else None for text in listed)
        for handle, listed in clients.items()
    }


def held(number: int, handles: list[str]) -> EpochPolicy:
    positions = {handle: position for position, handle in enumerate(handles)}
    return EpochPolicy(number, "current", positions, {})


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(wanted(), events(), st.integers(0, 31)), min_size=1, max_size=4),
    st.permutations(HANDLES),
)
def test_wishes_follow_every_change(
    steps: list[tuple[Wanted, dict[str, Value], int]], order: list[str]
) -> None:
    wishes = TypeWishes(SCHEMA)
    # Two epochs number the same clients differently, and one does not know the last of them.
    policies = (held(1, list(HANDLES)), held(2, order[:-1]))
    for asked, values, mask in steps:
        wishes.take(asked.items())
        for policy in policies:
            authorised = bitarray([mask >> HANDLES.index(handle) & 1 for handle in policy.handles])
            permitted = {h for h in policy.handles if authorised[policy.positions[h]]}
            everyone = wishes.everyone(policy, authorised)
            assert everyone == [h for h in policy.handles if h in asked and h in permitted]
            found = dict(wishes.candidates(policy, authorised, values))
            assert set(found) <= permitted & set(asked)
            for handle in permitted & set(asked):
                met = {
                    number
                    for number, expression in enumerate(asked[handle])
                    if expression is None or evaluate(expression, values)
                }
                assert met <= set(found.get(handle, ()))
