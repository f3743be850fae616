"""Direct evaluation of an expression: the plain-text oracle.

Written apart from the normal form on purpose, so that one can be tested
against the other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from policyengine.attributes.syntax import And, AtLeast, Equal, Expression, Not, Or, Test, walk
from policyengine.attributes.types import Value

_PARTS: Final = ("startsWith", "endsWith")  # Python's methods in lower case
_COMPARE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(expression: Expression, values: Mapping[str, Value]) -> bool:
    """Tell whether an expression holds.

    A test of an absent attribute is false, `!=` included; `!` negates a truth value.

    Args:
        expression: a typed expression, as `parse` returns it.
        values: the attributes that are there, of the declared types.

    Raises:
        InputError: `too-large` for a tree that is too deep.
    """
    for _ in walk(expression):
        pass  # refuses trees that would exhaust the stack
    return _evaluate(expression, values)


def _evaluate(expression: Expression, values: Mapping[str, Value]) -> bool:
    match expression:
        case And(terms):
            return all(_evaluate(term, values) for term in terms)
        case Or(terms):
            return any(_evaluate(term, values) for term in terms)
        case Not(term):
            return not _evaluate(term, values)
        case AtLeast(count, terms):
            return sum(_evaluate(term, values) for term in terms) >= count
        case Equal(left, right):
            return left in values and right in values and values[left] == values[right]
        case _:
            there = expression.attribute in values
            return there and _test(expression, values[expression.attribute])


def _test(test: Test, actual: Any) -> bool:
    op, wanted = test.op, cast(Any, test.value)
    if op in _PARTS:
        return bool(getattr(actual, op.lower())(wanted))
    if op == "in":
        return actual in wanted
    return op == "has" or bool(_COMPARE[op](actual, wanted))
