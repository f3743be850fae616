"""Whether an event may meet a filter, for somebody who does not see all of it."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policyengine.attributes import (
    And,
    AtLeast,
    AttributeType,
    Equal,
    Not,
    Or,
    Test,
    evaluate,
    parse,
)
from policyengine.events import may_hold

SCHEMA = {
    "a": AttributeType("int"),
    "b": AttributeType("int"),
    "c": AttributeType("string"),
}


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("a == 1", True),
        ("a == 2", False),
        ("b == 2", True),
        ("a == 2 || b == 2", True),
        ("a == 2 && b == 2", False),
        ("a == 1 && b == 2", True),
        ("!(a == 1)", True),
        ("a != 1", False),
    ],
)
def test_what_is_not_seen_may_be_anything(text: str, *, may: bool) -> None:
    assert may_hold(parse(text, SCHEMA), {"a": 1}) is may


def test_a_threshold_counts_what_may_hold() -> None:
    terms = tuple(parse(text, SCHEMA) for text in ("a == 1", "a == 2", "b == 2"))
    assert may_hold(AtLeast(2, terms), {"a": 1})
    assert not may_hold(AtLeast(3, terms), {"a": 1})


TESTS = [
    parse(text, SCHEMA) for text in ("a == 1", "a != 1", "a < 2", "b >= 1", 'c == "x"', 'c != "x"')
]
EXPRESSIONS = st.recursive(
    st.sampled_from([*TESTS, Equal("a", "b"), Test("c", "has")]),
    lambda inner: st.one_of(
        inner.map(Not),
        st.tuples(inner, inner).map(And),
        st.tuples(inner, inner).map(Or),
        st.tuples(inner, inner, inner).map(lambda terms: AtLeast(2, terms)),
    ),
    max_leaves=5,
)
VALUES = st.fixed_dictionaries(
    {}, optional={"a": st.integers(0, 2), "b": st.integers(0, 2), "c": st.sampled_from("xy")}
)


@given(EXPRESSIONS, VALUES, st.sets(st.sampled_from("abc")))
def test_never_a_no_where_any_part_of_the_event_meets_the_filter(expression, values, seen) -> None:
    parts = (
        {name: values[name] for name in names}
        for count in range(len(values) + 1)
        for names in combinations(values, count)
    )
    if any(evaluate(expression, part) for part in parts):
        known = {name: value for name, value in values.items() if name in seen}
        assert may_hold(expression, known)
