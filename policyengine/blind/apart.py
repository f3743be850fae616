"""Taking a filter apart by how agents match its attributes.

A filter over clear and searchable attributes becomes alternatives, any of which is enough,
and of each alternative one expression for every way of matching, all of which must hold: a
conjunction falls into its terms, a disjunction into alternatives. Where both are tied
together more tightly (negation, thresholds), it is written out, up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import Final, TypeAlias

from policyengine.attributes import And, AtLeast, Equal, Expression, Not, Or, names, shown
from policyengine.attributes.syntax import children
from policyengine.errors import InputError

LIMIT: Final = 64
"""Most alternatives of a filter."""

Alternative: TypeAlias = Mapping[str, Expression]
"""Way of matching -> what must hold of the attributes that are matched so."""


def take_apart(expression: Expression, way_of: Callable[[str], str]) -> tuple[Alternative, ...]:
    """Take a filter apart.

    Args:
        expression: a typed filter.
        way_of: attribute -> how agents match it, any word.

    Returns:
        Alternatives: the filter holds where one of them does, and that holds where all its
        expressions do. An alternative without an expression always holds; none, never.

    Raises:
        InputError: `unsupported` where two attributes are compared that are matched in
            different ways, `too-large` for over `LIMIT` alternatives.
    """
    return tuple(_apart(expression, way_of))


def _apart(expression: Expression, way_of: Callable[[str], str]) -> list[Alternative]:
    ways = sorted({way_of(name) for name in names(expression)})
    if len(ways) == 1:
        return [{ways[0]: expression}]
    match expression:
        case Or(terms):
            return _limited(found for term in terms for found in _apart(term, way_of))
        case AtLeast(count, terms):
            chosen = (And(some) for some in combinations(terms, count))
            return _limited(found for each in chosen for found in _apart(each, way_of))
        case Not(term):
            return _apart(_opposite(term), way_of)
        case Equal():
            raise _compared(expression)
        case _:  # a test has one way: this is a conjunction
            return _all_of([_apart(term, way_of) for term in children(expression)])


def _compared(pair: Equal) -> InputError:
    return InputError(
        "unsupported",
        f"{shown(pair.left)} and {shown(pair.right)} cannot be compared, because agents match"
        " them in different ways",
        at=pair.at,
    )


def _all_of(parts: list[list[Alternative]]) -> list[Alternative]:
    found: list[Alternative] = [{}]
    for part in parts:
        found = _limited(_both(one, other) for one in found for other in part)
    return found


def _both(one: Alternative, other: Alternative) -> Alternative:
    shared = {way: And((one[way], other[way])) for way in one.keys() & other.keys()}
    return {**one, **other, **shared}


def _limited(alternatives: Iterable[Alternative]) -> list[Alternative]:
    found: list[Alternative] = []
    for alternative in alternatives:
        found.append(alternative)
        if len(found) > LIMIT:
            raise InputError(
                "too-large",
                f"the filter ties attributes that agents can read to others in over {LIMIT} ways;"
                " ask for them by several subscriptions",
            )
    return found


def _opposite(expression: Expression) -> Expression:
    """Return the opposite of an expression of several ways, its negations further down."""
    opposites = tuple(Not(term) for term in children(expression))
    match expression:
        case And():
            return Or(opposites)
        case AtLeast(count, terms):
            return AtLeast(len(terms) - count + 1, opposites)
        case Not(term):
            return term
        case Equal():
            raise _compared(expression)
        case _:  # a test has one way: this is a disjunction
            return And(opposites)
