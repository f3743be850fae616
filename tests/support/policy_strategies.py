"""Hypothesis strategies for expressions, values and conjunctions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
)

SCHEMA = {
    "zone": AttributeType("string"),
    "event.tail": AttributeType("string"),
    "level": AttributeType("int", 0, 1023),
    "small": AttributeType("int", 0, 3),
    "free": AttributeType("int"),
    "t": AttributeType("float", 0, 100, 0.5),
    "wide": AttributeType("float"),
    "unit": AttributeType("enum", values=("a", "b", "c")),
    "on": AttributeType("bool"),
}

# A small pool, so that literals and values meet often; the odd ones are there on purpose.
TEXTS = ["", "a", "ab", "abc", "b", "bc", 'q"\\\n', "é", "😀", "a == 1", "a" * 40]
INTS = {
    "level": [0, 1, 2, 5, 1022, 1023],
    "small": [0, 1, 2, 3],
    "free": [-(10**30), -1, 0, 1, 2, 10**30],
}
FLOATS = {"t": [0.0, 0.5, 1.0, 50.0, 99.5, 100.0], "wide": [-1e300, -0.5, 0.0, 0.1, 1.0, 1e22]}


def literal_values(name: str) -> st.SearchStrategy[Value]:
    """Values that a text may compare with, some of them outside the declared domain."""
    kind = SCHEMA[name].kind
    if kind == "string":
        return st.sampled_from(TEXTS)
    if kind == "int":
        return st.sampled_from([*INTS[name], -7, 4000])
    if kind == "float":
        return st.sampled_from([*FLOATS[name], -7.25, 4000.0])
    return st.sampled_from(SCHEMA[name].values) if kind == "enum" else st.booleans()


def domain_values(name: str) -> st.SearchStrategy[Value]:
    """Values of the declared domain."""
    kind = SCHEMA[name].kind
    if kind == "int":
        return st.sampled_from(INTS[name])
    return st.sampled_from(FLOATS[name]) if kind == "float" else literal_values(name)


def values() -> st.SearchStrategy[dict[str, Value]]:
    """Values of some attributes; the others are absent."""
    return st.fixed_dictionaries({}, optional={name: domain_values(name) for name in SCHEMA})


@st.composite
def tests(draw: st.DrawFn) -> Expression:
    """One test of one attribute, every operator that its type has."""
    name = draw(st.sampled_from(sorted(SCHEMA)))
    kind = SCHEMA[name].kind
    ops = ["==", "!=", "in", "has"]
    ops += ["<", "<=", ">", ">="] if kind in ("int", "float") else []
    ops += ["startsWith", "endsWith"] if kind == "string" else []
    op: Any = draw(st.sampled_from(ops))
    if op == "has":
        return Test(name, op)
    if op == "in":
        return Test(name, op, tuple(draw(st.lists(literal_values(name), max_size=4))))
    return Test(name, op, draw(literal_values(name)))


@st.composite
def _combined(draw: st.DrawFn, inner: st.SearchStrategy[Expression]) -> Expression:
    shape = draw(st.sampled_from(["and", "or", "not", "atLeast"]))
    if shape == "not":
        return Not(draw(inner))
    terms = tuple(draw(st.lists(inner, min_size=1, max_size=4)))
    if shape == "atLeast":
        return AtLeast(draw(st.integers(1, len(terms))), terms)
    return And(terms) if shape == "and" else Or(terms)


def expressions(leaves: int = 10) -> st.SearchStrategy[Expression]:
    """Expressions over all operators."""
    constants = st.sampled_from([And(()), Or(())])
    return st.recursive(st.one_of(tests(), tests(), constants), _combined, max_leaves=leaves)


def token_sets(size: int = 4) -> st.SearchStrategy[list[str]]:
    """Conjunctions over a universe in which subsets are frequent."""
    universe = [f"attribute{number}=={number}" for number in range(8)]
    return st.lists(st.sampled_from(universe), max_size=size, unique=True)


def described(expression: Expression, given: Mapping[str, Value]) -> str:
    """Say what failed, for hypothesis notes."""
    return f"{expression!r} with {given!r}"
