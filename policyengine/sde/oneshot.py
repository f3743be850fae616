"""The whole scheme in one call."""

from __future__ import annotations

from policyengine.attributes import Expression, Ranges, Schema, Value, access_tree
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.sde.broker import Shares
from policyengine.sde.events import UserEvent, encrypt_event
from policyengine.sde.filters import UserFilter, encrypt_filter
from policyengine.sde.group import GroupName
from policyengine.sde.keys import init, keygen
from policyengine.sde.matching import matches


def sde_match(
    expression: Expression,
    values: dict[str, Value],
    schema: Schema,
    *,
    group: GroupName = "curve",
    ranges: Ranges = "dyadic",
    random: RandomSource = SYSTEM_RANDOM,
) -> bool:
    """Set a system up, encrypt a filter and an event in it, and match them.

    A publisher and a subscriber with keys of their own, and a broker with its shares of
    both; what they send travels as bytes.

    Args:
        expression: the subscriber's filter, typed.
        values: the event's checked values; attributes may be absent.
        schema: all attributes of the event's type.
        group: `curve` or `zp1024`.
        ranges: `dyadic` or `bits`.
        random: source of all keys and blinding.

    Raises:
        InputError: as `access_tree`, `elements_of` and `init`.
    """
    tree = access_tree(expression, schema, ranges=ranges)
    master, shares = init(group, random=random), Shares()
    publisher, of_publisher = keygen(master, "publisher", random=random)
    subscriber, of_subscriber = keygen(master, "subscriber", random=random)
    shares.add(of_publisher)
    shares.add(of_subscriber)
    asked = encrypt_filter(subscriber, tree, random=random).filter.encode()
    event = encrypt_event(publisher, values, schema, ranges=ranges, random=random).event.encode()
    stored = shares.filter(UserFilter.decode(asked))
    return matches(stored, shares.event(UserEvent.decode(event)))
