"""Literals, tokens and joins with a known side."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from policyengine.attributes import (
    AttributeType,
    Join,
    Literal,
    bind_joins,
    conjunction_holds,
    conjunction_tokens,
    literal_token,
    normalise,
    parse,
    predicates_of,
    token_attribute,
    tokens_of,
)
from policyengine.attributes.literals import OPPOSITE, OPS, holds_for
from policyengine.errors import DecodeError, InputError

LITERALS = [
    Literal("carrier", "==", "UA"),
    Literal("carrier", "!=", "UA"),
    Literal("carrier", "in", ("AA", "UA")),
    Literal("carrier", "!in", ("AA", "UA")),
    Literal("carrier", "startsWith", "U"),
    Literal("carrier", "!startsWith", "U"),
    Literal("carrier", "endsWith", "U"),
    Literal("carrier", "!endsWith", "U"),
    Literal("carrier", "has"),
    Literal("carrier", "!has"),
    Literal("carrier", "==", "has(carrier)"),
    Literal("delay", "<", 5),
    Literal("delay", "<=", 5),
    Literal("delay", ">", 5),
    Literal("delay", ">=", 5.5),
    Literal("on", "==", True),
    Literal("on", "==", False),
]


def test_different_literals_have_different_tokens() -> None:
    assert len({literal_token(literal) for literal in LITERALS}) == len(LITERALS)
    assert literal_token(LITERALS[0]) == 'carrier=="UA"'
    assert literal_token(LITERALS[2]) == 'carrier in ["AA","UA"]'
    assert literal_token(Literal("t", "==", 5.0)) == literal_token(Literal("t", "==", 5))


@pytest.mark.parametrize("literal", [*LITERALS, Literal("subject.zone", "==", "a(b) = c")])
def test_a_token_tells_its_attribute(literal: Literal) -> None:
    assert token_attribute(literal_token(literal)) == literal.attribute


@pytest.mark.parametrize("text", ["", "carrier", "1==2", "has(carrier", '"carrier"==1'])
def test_what_is_no_token_has_no_attribute(text: str) -> None:
    with pytest.raises(InputError):
        token_attribute(text)


@pytest.mark.parametrize("literal", LITERALS)
def test_literals_travel_as_json(literal: Literal) -> None:
    assert Literal.from_json(literal.to_json()) == literal


@pytest.mark.parametrize("literal", LITERALS)
def test_the_opposite_holds_exactly_when_the_literal_does_not(literal: Literal) -> None:
    opposite = Literal(literal.attribute, OPPOSITE[literal.op], literal.value)
    given: dict[str, list[Any]] = {
        "carrier": ["UA", "AA", "U", "xU", ""], "delay": [4, 5, 6, 5.5], "on": [True, False],
    }  # fmt: skip
    for value in given[literal.attribute]:
        values = {literal.attribute: value}
        assert literal.holds(values) != opposite.holds(values)
    assert literal.holds({}) == (literal.op == "!has")
    assert set(OPPOSITE) == set(OPS)


def test_presence_holds_for_whatever_is_there() -> None:
    assert holds_for(Literal("a", "has"), "x")
    assert not holds_for(Literal("a", "!has"), "x")


@pytest.mark.parametrize(
    "obj",
    [
        None, [], {}, {"attribute": "a"}, {"op": "has"},
        {"attribute": "a", "op": "like", "value": "x"}, {"attribute": "a", "op": "=="},
        {"attribute": "a", "op": "has", "value": 1}, {"attribute": "a", "op": "==", "value": None},
        {"attribute": "a", "op": "==", "value": 1, "more": 1},
        {"attribute": "a b", "op": "==", "value": 1}, {"attribute": 5, "op": "==", "value": 1},
        {"attribute": "a", "op": "==", "value": [1]}, {"attribute": "a", "op": "in", "value": 1},
        {"attribute": "a", "op": "in", "value": [[1]]},
        {"attribute": "a", "op": "startsWith", "value": 1},
        {"attribute": "a", "op": "<", "value": "1"}, {"attribute": "a", "op": "<", "value": True},
        {"attribute": "a", "op": "==", "value": float("nan")},
        {"attribute": "a", "op": ["=="], "value": 1},
    ],
)  # fmt: skip
def test_predicates_are_read_strictly(obj: Any) -> None:
    with pytest.raises(DecodeError):
        Literal.from_json(obj)


def test_predicates_are_those_of_the_prefix_and_once() -> None:
    schema = {
        "event.delay": AttributeType("int"),
        "event.carrier": AttributeType("string"),
        "subject.level": AttributeType("int"),
        "subject.carrier": AttributeType("string"),
    }
    first = normalise(
        parse("event.delay > 120 && subject.level >= 2 && has(event.carrier)", schema), schema
    )
    second = normalise(
        parse(
            "event.delay > 120 || event.carrier == 'UA' || subject.carrier == event.carrier",
            schema,
            joins=True,
        ),
        schema,
    )
    found = predicates_of([*first, *second], "event.")
    assert [literal_token(predicate) for predicate in found] == ["event.delay > 120"]
    assert tokens_of({"event.delay": 130}, found) == (
        "event.delay > 120",
        "event.delay==130",
        "has(event.delay)",
    )
    assert tokens_of({"event.delay": 1}, found) == ("event.delay==1", "has(event.delay)")


def test_absence_is_a_token_only_where_a_predicate_asks() -> None:
    predicate = Literal("event.tail", "!has")
    assert tokens_of({}, []) == ()
    assert tokens_of({}, [predicate]) == ("!has(event.tail)",)
    assert "!has(event.tail)" not in tokens_of({"event.tail": "N1"}, [predicate])


def test_a_join_has_no_token_until_one_side_is_known() -> None:
    join = Join("subject.carrier", "event.carrier")
    assert join.to_json() == {"left": "subject.carrier", "right": "event.carrier"}
    with pytest.raises(InputError) as caught:
        literal_token(join)
    assert caught.value.kind == "unsupported"
    other = Literal("subject.role", "==", "airline")
    bound = bind_joins((other, join), {"subject.carrier": "UA"})
    assert bound == (other, Literal("event.carrier", "==", "UA"))
    assert conjunction_tokens(bound) == ('event.carrier=="UA"', 'subject.role=="airline"')
    assert bind_joins((join,), {"event.carrier": "UA"}) == (Literal("subject.carrier", "==", "UA"),)
    assert bind_joins((join,), {}) is None
    assert bind_joins((join,), {"subject.carrier": "UA", "event.carrier": "AA"}) is None
    assert bind_joins((join,), {"subject.carrier": "UA", "event.carrier": "UA"}) == ()


def test_bound_joins_decide_as_unbound_ones() -> None:
    join, role = Join("subject.c", "event.c"), Literal("subject.r", "==", "x")
    sides: list[dict[str, Any]] = [{}, {"c": "1"}, {"c": "2", "r": "x"}, {"c": "1", "r": "x"}]
    for subject, event in itertools.product(sides, repeat=2):
        known = {f"subject.{name}": value for name, value in subject.items()}
        values = known | {f"event.{name}": value for name, value in event.items()}
        bound = bind_joins((join, role), known)
        expected = conjunction_holds((join, role), values)
        assert (bound is not None and conjunction_holds(bound, values)) == expected
