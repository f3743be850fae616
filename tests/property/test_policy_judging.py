"""Implications between ways to satisfy a policy, against trying every value of small universes."""

from __future__ import annotations

from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adminapp.policies.judging import contradict, implied
from adminapp.policies.language import PolicyConjunction
from policyengine.attributes import AttributeType, Join, Literal

NUMBER, WIDER = AttributeType("int", 0, 2), AttributeType("int", 1, 3)
LETTER = AttributeType("enum", values=("a", "b"))
SCHEMA = {
    "subject.n": NUMBER,
    "subject.l": LETTER,
    "subject.role.x": AttributeType("bool"),
    "event.n": NUMBER,
    "event.m": WIDER,
    "event.l": LETTER,
    "env.n": NUMBER,
}
VALUES: dict[str, list[Any]] = {
    "subject.n": [None, 0, 1, 2],
    "subject.l": [None, "a", "b"],
    "subject.role.x": [None, True, False],
    "event.n": [None, 0, 1, 2],
    "event.m": [None, 1, 2, 3],
    "event.l": [None, "a", "b"],
    "env.n": [None, 0, 1, 2],
}
JOINS = [
    Join("subject.n", "event.n"),
    Join("subject.n", "event.m"),
    Join("subject.l", "event.l"),
]
TIES = [Join("subject.n", "env.n"), Join("env.n", "event.n")]
STATES = [
    {name: value for name, value in zip(VALUES, each, strict=True) if value is not None}
    for each in product(*VALUES.values())
]


@st.composite
def literals(draw: st.DrawFn, side: str) -> Literal:
    name = draw(st.sampled_from([each for each in SCHEMA if each.startswith(side)]))
    ops = ["==", "!=", "in", "!in", "has", "!has"]
    ops += ["<", ">="] if SCHEMA[name].kind == "int" else []
    op: Any = draw(st.sampled_from(ops))
    known = [value for value in VALUES[name] if value is not None]
    if op in ("has", "!has"):
        return Literal(name, op)
    if op in ("in", "!in"):
        listed = draw(st.lists(st.sampled_from(known), min_size=2, unique=True))
        return Literal(name, op, tuple(sorted(listed)))
    return Literal(name, op, draw(st.sampled_from(known)))


def ways() -> st.SearchStrategy[PolicyConjunction]:
    def some(of: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[tuple[Any, ...]]:
        return st.lists(of, max_size=most, unique=True).map(tuple)

    return st.builds(
        PolicyConjunction,
        some(literals("subject."), 2),
        some(literals("event."), 2),
        some(st.sampled_from(JOINS), 2),
        some(literals("env."), 1),
        some(st.sampled_from(TIES), 1),
    )


def holding(way: PolicyConjunction) -> set[int]:
    parts = (*way.subject, *way.event, *way.joins, *way.environment, *way.ties)
    return {at for at, state in enumerate(STATES) if all(part.holds(state) for part in parts)}


@settings(max_examples=150, deadline=None)
@given(ways(), st.lists(ways(), max_size=3))
def test_no_answer_is_wrong(
    premise: PolicyConjunction, conclusions: list[PolicyConjunction]
) -> None:
    found = implied(premise, conclusions, SCHEMA)
    truth = holding(premise) <= set().union(*map(holding, conclusions))
    assert found in ("unknown", "yes" if truth else "no")


@settings(max_examples=150, deadline=None)
@given(ways(), ways())
def test_what_contradicts_never_holds_together(
    first: PolicyConjunction, second: PolicyConjunction
) -> None:
    if contradict(first, second, SCHEMA):
        assert not holding(first) & holding(second)


def without_joins(way: PolicyConjunction) -> PolicyConjunction:
    return PolicyConjunction(way.subject, way.event, (), way.environment)


@settings(max_examples=150, deadline=None)
@given(ways(), st.lists(ways(), max_size=3))
def test_without_joins_every_answer_is_known(
    premise: PolicyConjunction, conclusions: list[PolicyConjunction]
) -> None:
    given_, asked = without_joins(premise), [without_joins(each) for each in conclusions]
    truth = holding(given_) <= set().union(*map(holding, asked))
    assert implied(given_, asked, SCHEMA) == ("yes" if truth else "no")


def test_what_would_take_too_long_cannot_be_told() -> None:
    one = PolicyConjunction((Literal("subject.n", "!=", 1),), (), ())
    other = PolicyConjunction((), (Literal("event.n", "==", 1),), ())
    assert implied(one, [other], SCHEMA, work=10) == "unknown"
