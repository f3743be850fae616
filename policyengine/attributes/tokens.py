"""Predicate tokens: a conjunction as a set, and everything that is true of values as a set.

A conjunction holds for values exactly when the tokens of its literals are among
the tokens of the values. That is what anonymous sets and routing tags match on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from policyengine.attributes.literals import Conjunction, Join, Literal
from policyengine.attributes.text import value_text
from policyengine.attributes.types import Value
from policyengine.errors import InputError

Predicate: TypeAlias = Literal
"""A literal that values are tested for, beside plain equality and presence."""

# Presence stands in front of its attribute, every other operator behind it.
_ABOUT: Final = re.compile(r"(?:!?[a-z]+\()?([A-Za-z_][A-Za-z0-9_.]*)(?=[ =)])")


def literal_token(literal: Literal | Join) -> str:
    """Write a literal as its token, such as `carrier=="UA"`; equal literals, equal tokens.

    Args:
        literal: a literal of a normal form.

    Raises:
        InputError: `unsupported` for a join; `bind_joins` turns it into a literal.
    """
    if isinstance(literal, Join):
        raise InputError(
            "unsupported", "a join has no token; one side of it must be known", where=literal.left
        )
    if literal.value is None:
        return f"{literal.op}({literal.attribute})"
    if isinstance(literal.value, tuple):
        return f"{literal.attribute} {literal.op} [{','.join(map(value_text, literal.value))}]"
    if literal.op == "==":
        return f"{literal.attribute}=={value_text(literal.value)}"
    return f"{literal.attribute} {literal.op} {value_text(literal.value)}"


def token_attribute(token: str) -> str:
    """Give the attribute that a token is about.

    Args:
        token: what `literal_token` wrote.

    Raises:
        InputError: `invalid` for a text that is no token.
    """
    found = _ABOUT.match(token)
    if found is None:
        raise InputError("invalid", "this is no predicate token")
    return found.group(1)


def conjunction_tokens(conjunction: Conjunction) -> tuple[str, ...]:
    """Return the tokens of a conjunction's literals, sorted, without doubles.

    Raises:
        InputError: `unsupported` for a join.
    """
    return tuple(sorted({literal_token(literal) for literal in conjunction}))


def predicates_of(conjunctions: Iterable[Conjunction], prefix: str) -> tuple[Predicate, ...]:
    """Collect the predicates that values must be tested for.

    Args:
        conjunctions: normal forms of all policies concerned.
        prefix: beginning of the attributes' names (`subject.`, `event.`, or `""`).

    Returns:
        Every literal but equality and presence (those need no list), sorted by
        token, without doubles. Joins are passed over: bind them first.
    """
    found = {
        literal_token(literal): literal
        for conjunction in conjunctions
        for literal in conjunction
        if isinstance(literal, Literal)
        and literal.op not in ("==", "has")
        and literal.attribute.startswith(prefix)
    }
    return tuple(found[token] for token in sorted(found))


def tokens_of(values: Mapping[str, Value], predicates: Iterable[Predicate]) -> tuple[str, ...]:
    """Return every token that is true of values.

    Args:
        values: the attributes that are there, by full name.
        predicates: what else to test; `predicates_of` makes the list.

    Returns:
        For each attribute its equality and its presence, and each predicate that
        holds; sorted, without doubles.
    """
    tokens = {literal_token(Literal(name, "==", value)) for name, value in values.items()}
    tokens.update(literal_token(Literal(name, "has")) for name in values)
    tokens.update(literal_token(predicate) for predicate in predicates if predicate.holds(values))
    return tuple(sorted(tokens))
