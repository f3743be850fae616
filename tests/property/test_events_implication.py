"""Implication is exact: the search agrees with trying every value there is."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.attributes import (
    And,
    AtLeast,
    AttributeType,
    Expression,
    Not,
    Or,
    Test,
    Value,
    evaluate,
)
from policyengine.events.implication import implies
from policyengine.events.regions import Regions, witnesses
from tests.support import policy_strategies as sample

SCHEMA = {
    "text": AttributeType("string"),
    "whole": AttributeType("int", 0, 5),
    "even": AttributeType("int", 1, 9, 2),
    "grid": AttributeType("float", 0, 1, 0.25),
    "word": AttributeType("enum", values=("x", "y", "z")),
    "on": AttributeType("bool"),
}
# Every string that tests with parts of at most two letters can tell apart
TEXTS = ["".join(letters) for size in range(6) for letters in product("abz", repeat=size)]
DOMAINS: dict[str, list[Value]] = {
    "text": list(TEXTS),
    "whole": [0, 1, 2, 3, 4, 5],
    "even": [1, 3, 5, 7, 9],
    "grid": [0.0, 0.25, 0.5, 0.75, 1.0],
    "word": ["x", "y", "z"],
    "on": [False, True],
}
PARTS = ["", "a", "b", "ab", "ba", "aa", "bb"]
CONSTANTS: dict[str, list[Any]] = {
    "text": [*PARTS, "aba", "abab"],
    "whole": [-1, 0, 1, 2, 3, 5, 6],
    "even": [0, 1, 2, 3, 4, 9, 10],
    "grid": [-0.5, 0.0, 0.1, 0.25, 0.3, 0.5, 1.0, 2.0],
    "word": ["x", "y", "z"],
    "on": [False, True],
}
PAIRS = [("text", "on"), ("whole", "even"), ("grid", "word"), ("text", "whole")]


@st.composite
def one_test(draw: st.DrawFn, names: tuple[str, ...]) -> Expression:
    name = draw(st.sampled_from(names))
    kind = SCHEMA[name].kind
    ops = ["==", "!=", "in", "has"]
    ops += ["<", "<=", ">", ">="] if kind in ("int", "float") else []
    ops += ["startsWith", "endsWith"] * 3 if kind == "string" else []
    op: Any = draw(st.sampled_from(ops))
    if op == "has":
        return Test(name, op)
    if op in ("startsWith", "endsWith"):
        return Test(name, op, draw(st.sampled_from(PARTS)))
    constants = st.sampled_from(CONSTANTS[name])
    if op == "in":
        return Test(name, op, tuple(draw(st.lists(constants, max_size=3))))
    return Test(name, op, draw(constants))


@st.composite
def combined(draw: st.DrawFn, inner: st.SearchStrategy[Expression]) -> Expression:
    shape = draw(st.sampled_from(["and", "or", "not", "atLeast"]))
    if shape == "not":
        return Not(draw(inner))
    terms = tuple(draw(st.lists(inner, min_size=1, max_size=3)))
    if shape == "atLeast":
        return AtLeast(draw(st.integers(1, len(terms))), terms)
    return And(terms) if shape == "and" else Or(terms)


def small_expressions(names: tuple[str, ...]) -> st.SearchStrategy[Expression]:
    constants = st.sampled_from([And(()), Or(())])
    leaves = st.one_of(one_test(names), one_test(names), one_test(names), constants)
    return st.recursive(leaves, combined, max_leaves=5)


@cache
def events(names: tuple[str, ...]) -> list[dict[str, Value]]:
    choices: list[list[Value | None]] = [[None, *DOMAINS[name]] for name in names]
    return [
        {name: value for name, value in zip(names, picked, strict=True) if value is not None}
        for picked in product(*choices)
    ]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_an_implication_is_what_every_value_says(data: st.DataObject) -> None:
    names = data.draw(st.sampled_from(PAIRS))
    premise = data.draw(small_expressions(names))
    conclusion = data.draw(small_expressions(names))
    every = all(evaluate(conclusion, event) for event in events(names) if evaluate(premise, event))
    assert implies([premise], conclusion, SCHEMA) == every


@settings(max_examples=80, deadline=None)
@given(sample.expressions(6), sample.expressions(6), st.lists(sample.values(), max_size=12))
def test_an_implication_is_never_a_false_yes(
    premise: Expression, conclusion: Expression, some: list[dict[str, Value]]
) -> None:
    joined = And((premise, conclusion))
    assert implies([joined], conclusion, sample.SCHEMA)
    assert implies([premise], Or((conclusion, premise)), sample.SCHEMA)
    assert implies([premise], premise, sample.SCHEMA, work=0)
    if implies([premise], conclusion, sample.SCHEMA):
        assert all(evaluate(conclusion, event) for event in some if evaluate(premise, event))
    if implies([premise], conclusion, sample.SCHEMA, work=40):  # a tighter bound is no bolder
        assert implies([premise], conclusion, sample.SCHEMA)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_the_masks_of_regions_say_what_evaluation_says(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(sample.SCHEMA)))
    declared = sample.SCHEMA[name]
    tests = data.draw(st.lists(st.sampled_from(pool_of(name)), max_size=5))
    found = list(witnesses(tests, declared))
    assert len(set(map(repr, found))) == len(found)
    assert all(value is None or declared.check(value, name) == value for value in found)
    regions = Regions(tests, declared)
    assert regions.all == (1 << len(found)) - 1
    for test in tests:
        expected = sum(
            1 << number
            for number, value in enumerate(found)
            if evaluate(test, {} if value is None else {name: value})
        )
        assert regions.mask(test) == expected


def pool_of(name: str) -> list[Test]:
    kind = sample.SCHEMA[name].kind
    pool: list[Any] = {"string": sample.TEXTS, "enum": ["a", "b"], "bool": [True, False]}.get(
        kind, [*sample.INTS.get(name, []), *sample.FLOATS.get(name, []), -7, 4000]
    )
    if kind == "float":
        pool = [float(value) for value in pool]
    ops: list[Any] = ["==", "!="]
    ops += ["<", "<=", ">", ">="] if kind in ("int", "float") else []
    ops += ["startsWith", "endsWith"] if kind == "string" else []
    tests = [Test(name, op, value) for op in ops for value in pool]
    return [*tests, Test(name, "has"), Test(name, "in", tuple(pool[:2])), Test(name, "in", ())]
