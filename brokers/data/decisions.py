"""What the decision log says: of publications, deliveries, denials and subscriptions. No I/O.

Rows name clients by handle, policies by number and reasons by one word; no value of an event
and no filter stands in any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from bitarray import bitarray, frozenbitarray

from brokers.data.match import Grant
from brokers.data.reasons import (
    MALFORMED,
    NOT_AUTHORISED,
    NOT_PERMITTED,
    REVOKED,
    SIGNATURE,
    UNKNOWN_CLIENT,
    UNKNOWN_PUBLISHER,
)
from brokers.data.subscriptions import SubscriptionIndex
from brokers.ports import Decision
from brokers.snapshot import DomainSnapshot, EpochPolicy
from policyengine.bundles import RoutedPart, SubscribeRequest
from policyengine.bundles.decisions import (
    DELIVER,
    GRANTED,
    PUBLISH,
    REFUSED,
    SUBSCRIBE,
    SUPPRESSED,
)

MOST_NAMED = 256
"""Clients that are named one by one among those that an event of a batch was denied to; further
ones are counted together, so that a type that everybody asks for in vain costs next to nothing."""

_DOUBTFUL = frozenset({MALFORMED, SIGNATURE, UNKNOWN_PUBLISHER, UNKNOWN_CLIENT})
_ACTIONS = {"publication": PUBLISH, "subscribe": SUBSCRIBE}


@dataclass(frozen=True)
class Unserved:
    """Clients that want an event and whom no rule authorises.

    Args:
        type: the event's type.
        epoch: the encoding epoch that it names.
        clients: bit i is set for client i of the epoch.
        handles: the clients in the order of their bits.
    """

    type: str
    epoch: int
    clients: frozenbitarray
    handles: tuple[str, ...] = field(repr=False, compare=False)


@dataclass
class Denials:
    """Who wants an event and does not get it."""

    revoked: list[Decision] = field(default_factory=list)
    unserved: Unserved | None = None

    def note(
        self,
        snapshot: DomainSnapshot,
        policy: EpochPolicy,
        event_type: str,
        permitted: bitarray,
        subscriptions: SubscriptionIndex,
    ) -> None:
        """Take what was decided about one event.

        Args:
            snapshot: the domain's policy in force.
            policy: the epoch that the event names.
            event_type: the event's type.
            permitted: bit i is set where some rule authorises client i.
            subscriptions: of this domain.
        """
        for handle in sorted(snapshot.denied & subscriptions.by_type[event_type].keys()):
            self.revoked.append(Decision(DELIVER, handle, event_type, REFUSED, REVOKED,
                                         policy.epoch))  # fmt: skip
        clients = subscriptions.wishes[event_type].unserved(policy, permitted)
        if clients.any():
            self.unserved = Unserved(
                event_type, policy.epoch, frozenbitarray(clients), policy.handles
            )


def delivered(
    routed: RoutedPart,
    handle: str,
    granted: Grant,
    names: tuple[str, ...],
    withheld: Mapping[str, str],
) -> Decision:
    """A delivery to a client.

    Args:
        routed: the event's part.
        handle: the client.
        granted: what it may do with the event.
        names: its subscriptions that the event meets.
        withheld: what it does not get, with the reason.
    """
    reason = min(withheld.values(), default="")
    outcome = SUPPRESSED if withheld else GRANTED
    return Decision(
        DELIVER, handle, routed.type, outcome, reason, routed.epoch, granted.policies, names
    )


def admitted(
    publisher: str, event_type: str, epoch: int, policies: tuple[str, ...], *, dropped: bool
) -> Decision:
    """A publication that was let in, whole or without what its publisher may not write."""
    outcome, reason = (SUPPRESSED, NOT_PERMITTED) if dropped else (GRANTED, "")
    return Decision(PUBLISH, publisher, event_type, outcome, reason, epoch, policies)


def refused(kind: str, sender: str, event_type: str, reason: str) -> tuple[Decision, ...]:
    """A publication or a subscription that was refused; nothing for other messages.

    INVARIANT: whoever sends rubbish in somebody's name puts nothing on that one's account.

    Args:
        kind: as of `bench.Refusal`.
        sender: who says that it sent it.
        event_type: as the sender wrote it.
        reason: one word.
    """
    action = _ACTIONS.get(kind)
    if action is None:
        return ()
    doubtful = reason in _DOUBTFUL
    client, name = ("", "") if doubtful else (sender, event_type)
    return (Decision(action, client, name, REFUSED, reason),)


def subscribed(request: SubscribeRequest) -> Decision:
    """A subscription that begins."""
    return Decision(
        SUBSCRIBE, request.client, request.type, GRANTED, subscriptions=(request.subscription,)
    )


def taken_out(handle: str, event_type: str, reason: str) -> Decision:
    """What waited for a client that may not have it any more."""
    return Decision(DELIVER, handle, event_type, REFUSED, reason)


def summed(decisions: Iterable[Decision], unserved: Iterable[Unserved]) -> list[Decision]:
    """What a batch decided about one domain: equal decisions once, with their number.

    Args:
        decisions: of all of its messages.
        unserved: the same.
    """
    counted = Counter(decisions)
    room = MOST_NAMED
    for one, number in Counter(unserved).items():
        named = [one.handles[bit] for bit in islice(one.clients.search(bitarray("1")), room)]
        room -= len(named)
        for handle in named:
            counted[_denied(handle, one)] += number
        others = one.clients.count() - len(named)
        if others:
            counted[_denied("", one)] += number * others
    return [_times(one, number) for one, number in counted.items()]


def _denied(handle: str, one: Unserved) -> Decision:
    return Decision(DELIVER, handle, one.type, REFUSED, NOT_AUTHORISED, one.epoch)


def _times(one: Decision, number: int) -> Decision:
    if number == 1:
        return one
    return Decision(
        one.action, one.client, one.type, one.outcome, one.reason, one.epoch, one.policies,
        one.subscriptions, one.count * number,
    )  # fmt: skip
