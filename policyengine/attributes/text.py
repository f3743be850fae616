"""Writing an expression back as text."""

from __future__ import annotations

import json
from typing import Final

from policyengine.attributes.syntax import And, AtLeast, Equal, Expression, Not, Or, Test, walk
from policyengine.attributes.types import Value

_LONG: Final = 1e21  # from here on whole floats are written with an exponent


def to_text(expression: Expression) -> str:
    """Write an expression so that `parse` reads the same expression again.

    Raises:
        InputError: `too-large` for a tree that is too deep.
    """
    for _ in walk(expression):
        pass  # refuses trees that would exhaust the stack
    return _write(expression)


def value_text(value: Value) -> str:
    """Write one value as the language does; equal values give equal text.

    Numbers are written by value: 5 and 5.0 are both `5`.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and (not value.is_integer() or abs(value) >= _LONG):
        return repr(value)
    return str(int(value))


def _write(expression: Expression) -> str:
    match expression:
        case And(terms) | Or(terms):
            return _joined(expression, terms)
        case Not(term):
            return f"!{_negated(term)}"
        case AtLeast(count, terms):
            return f"atLeast({count}, [{', '.join(_write(term) for term in terms)}])"
        case Equal(left, right):
            return f"{left} == {right}"
        case _:
            return _test(expression)


def _joined(expression: And | Or, terms: tuple[Expression, ...]) -> str:
    word, empty = ("&&", "true") if isinstance(expression, And) else ("||", "false")
    written = [
        f"({_write(term)})" if isinstance(term, And | Or) and term.terms else _write(term)
        for term in terms
    ]
    return f" {word} ".join(written) if written else empty


def _negated(term: Expression) -> str:
    text = _write(term)
    if isinstance(term, AtLeast | Not) or (isinstance(term, And | Or) and not term.terms):
        return text
    # `!a == 1` would read as `(!a) == 1`: brackets around whatever is not a call or a name
    if isinstance(term, Test) and (text == term.attribute or text.endswith(")")):
        return text
    return f"({text})"


def _test(test: Test) -> str:
    if test.op == "has":
        return f"has({test.attribute})"
    if isinstance(test.value, tuple):
        return f"{test.attribute} in [{', '.join(value_text(value) for value in test.value)}]"
    if test.value is True and test.op == "==":
        return test.attribute
    literal = "" if test.value is None else value_text(test.value)
    if test.op in ("startsWith", "endsWith"):
        return f"{test.attribute}.{test.op}({literal})"
    return f"{test.attribute} {test.op} {literal}"
