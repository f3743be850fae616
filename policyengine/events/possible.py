"""Whether an event may meet a filter, for somebody who does not see all of it.

A broker between publisher and subscriber sees some attributes; others it cannot read, and
some that it can read the subscriber may not. It must forward whatever the subscriber's own
agent might deliver (paper 002, section 4.3: who cannot evaluate a filter forwards).
"""

from __future__ import annotations

from collections.abc import Mapping

from policyengine.attributes import And, AtLeast, Equal, Expression, Or, Test, Value, evaluate
from policyengine.attributes.syntax import names


def may_hold(expression: Expression, values: Mapping[str, Value]) -> bool:
    """Tell whether an expression may hold for an event of which these values are known.

    False only when it holds neither for the whole event nor for any part of it that is
    shown to a subscriber: so an attribute that is not among the values may have any, and a
    negation may always hold, since it does where the attribute is hidden.

    Args:
        expression: a typed expression.
        values: what is known of the event.
    """
    match expression:
        case Test() | Equal():
            known = all(name in values for name in names(expression))
            return not known or evaluate(expression, values)
        case And(terms):
            return all(may_hold(term, values) for term in terms)
        case Or(terms):
            return any(may_hold(term, values) for term in terms)
        case AtLeast(count, terms):
            return sum(may_hold(term, values) for term in terms) >= count
        case _:  # a negation
            return True
