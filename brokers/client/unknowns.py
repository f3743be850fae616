"""Filters over attributes that agents match on and nobody reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from policyengine.attributes import (
    And,
    AtLeast,
    Equal,
    Expression,
    Not,
    Or,
    Test,
    Value,
    evaluate,
    names,
)


def may_be_met(
    expression: Expression, values: Mapping[str, Value], unknown: Collection[str]
) -> bool:
    """Whether an event may meet a filter, given what its subscriber cannot know of it.

    For what the home agent has matched and nobody can read: there its word counts.

    Args:
        expression: a typed filter.
        values: what the subscriber reads.
        unknown: attributes that agents match on and nobody reads.
    """
    return _outcomes(expression, values, frozenset(unknown))[0]


def _outcomes(
    expression: Expression, values: Mapping[str, Value], unknown: frozenset[str]
) -> tuple[bool, bool]:
    """Whether it may be true, and whether it may be false."""
    match expression:
        case And(terms):
            found = [_outcomes(term, values, unknown) for term in terms]
            return all(one for one, _ in found), any(other for _, other in found)
        case Or(terms):
            found = [_outcomes(term, values, unknown) for term in terms]
            return any(one for one, _ in found), all(other for _, other in found)
        case AtLeast(count, terms):
            found = [_outcomes(term, values, unknown) for term in terms]
            surely = sum(not other for _, other in found)
            return sum(one for one, _ in found) >= count, surely < count
        case Not(term):
            one, other = _outcomes(term, values, unknown)
            return other, one
        case Test() | Equal():
            if not unknown.isdisjoint(names(expression)):
                return True, True
            holds = evaluate(expression, values)
            return holds, not holds
