"""The plain-text oracle, checked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.attributes import (
    And,
    AttributeType,
    Expression,
    Not,
    Or,
    Test,
    evaluate,
    names,
    normalise,
    parse,
    to_text,
)
from policyengine.errors import InputError

SCHEMA = {
    "a": AttributeType("int"),
    "s": AttributeType("string"),
    "on": AttributeType("bool"),
    "x": AttributeType("string"),
}


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("a == 1", {"a": 1}, True),
        ("a == 1", {"a": 2}, False),
        ("a == 1", {}, False),
        ("a != 1", {"a": 2}, True),
        ("a != 1", {}, False),
        ("!(a == 1)", {}, True),
        ("!(a != 1)", {}, True),
        ("!(a == 1)", {"a": 1}, False),
        ("a < 1", {"a": 0}, True),
        ("a < 1", {"a": 1}, False),
        ("a <= 1", {"a": 1}, True),
        ("a > 1", {"a": 1}, False),
        ("a > 1", {"a": 2}, True),
        ("a >= 1", {"a": 1}, True),
        ("a in [1, 2]", {"a": 2}, True),
        ("a in [1, 2]", {"a": 3}, False),
        ("a in []", {"a": 3}, False),
        ("!(a in [])", {}, True),
        ("s.startsWith('ab')", {"s": "abc"}, True),
        ("s.startsWith('ab')", {"s": "ba"}, False),
        ("s.endsWith('bc')", {"s": "abc"}, True),
        ("s.endsWith('')", {"s": ""}, True),
        ("s.endsWith('')", {}, False),
        ("has(a)", {"a": 0}, True),
        ("has(a)", {}, False),
        ("!has(a)", {}, True),
        ("on", {"on": True}, True),
        ("on", {"on": False}, False),
        ("!on", {}, True),
        ("on == false", {}, False),
        ("true", {}, True),
        ("false", {}, False),
        ("atLeast(2, [on, a == 1, s == 'x'])", {"on": True, "s": "x"}, True),
        ("atLeast(2, [on, a == 1, s == 'x'])", {"s": "x"}, False),
        ("s == x", {"s": "p", "x": "p"}, True),
        ("s == x", {"s": "p", "x": "q"}, False),
        ("s == x", {"s": "p"}, False),
        ("s == x", {}, False),
    ],
)
def test_meaning(text: str, values: Any, expected: bool) -> None:
    assert evaluate(parse(text, SCHEMA, joins=True), values) is expected


def deep(depth: int) -> Expression:
    expression: Expression = Test("on", "==", True)
    for number in range(depth):
        expression = Not(expression) if number % 2 else And((expression, Or(())))
    return expression


def test_trees_that_no_text_makes_do_not_exhaust_the_stack() -> None:
    assert evaluate(deep(200), {"on": True}) in (True, False)
    for operation in (
        lambda: evaluate(deep(100_000), {}),
        lambda: to_text(deep(100_000)),
        lambda: names(deep(100_000)),
        lambda: normalise(deep(100_000), SCHEMA),
    ):
        with pytest.raises(InputError) as caught:
            operation()
        assert caught.value.kind == "too-large"
