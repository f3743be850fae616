"""The last gate: what each own client with a subscription may see of an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bitarray import bitarray

from brokers.data.blind import BlindEvent
from brokers.data.decisions import Denials, delivered
from brokers.data.match import Grant, authorised, check_ended, grant, matched_rules, named_epoch
from brokers.data.ranges import RangeEvent
from brokers.data.reasons import CONDITION, NO_KEY, NOT_PERMITTED
from brokers.data.route import protection_context
from brokers.data.subscriptions import MOST_NAMED, Hidden, Interest, SubscriptionIndex
from brokers.ports import Decision
from brokers.snapshot import DomainSnapshot, EpochPolicy, Rule
from policyengine.attributes import Value
from policyengine.bundles import Delivery, RoutedPart
from policyengine.events import Protected, reveal


@dataclass(frozen=True)
class Addressed:
    """One delivery, the client that it is for, and what the decision log says of it."""

    handle: str
    delivery: Delivery
    decision: Decision


def deliver(
    snapshot: DomainSnapshot,
    routed: RoutedPart,
    subscriptions: SubscriptionIndex,
    *,
    now: float,
    only: str | None = None,
    denials: Denials | None = None,
) -> list[Addressed]:
    """Decide what every own subscriber receives of a part.

    A client receives a part when it has a subscription that covers the event's type, some
    subscribe rule that the event meets authorises it, it is not denied, and (where the
    event came whole) a filter of it is met by what it may read. Filters of split events
    are for the client, which alone sees all parts.

    Args:
        snapshot: the domain's policy in force.
        routed: the part, protected attributes encrypted.
        subscriptions: of this domain.
        now: Unix time in seconds, by the lease's signed time.
        only: the one client that is asked about; None for all.
        denials: takes who wants the event and may not have it, once all is decided.

    Raises:
        RejectedError: `epoch-unknown` or `epoch-retired`, of the encoding or of what is blind,
            or `policy-ended`.
        DecryptionError: a ciphertext that one of our keys should open does not open.
        ComparatorAway: a comparator would have to be asked, and cannot be.
    """
    policy = named_epoch(snapshot, routed.epoch)
    if routed.type not in subscriptions.by_type:
        return []
    rules = matched_rules(policy, "subscribe", routed.type, frozenset(routed.tags))
    check_ended(rules, policy, now=now)
    permitted = authorised(rules, policy)
    met = _Met(policy, rules, permitted)
    found = _deliveries(snapshot, routed, subscriptions, met, only)
    if denials is not None:
        denials.note(snapshot, policy, routed.type, permitted, subscriptions)
    return found


@dataclass(frozen=True)
class _Met:
    """What an event meets of an epoch's rules, and whom that authorises."""

    policy: EpochPolicy
    rules: list[Rule]
    permitted: bitarray


def _deliveries(
    snapshot: DomainSnapshot,
    routed: RoutedPart,
    subscriptions: SubscriptionIndex,
    met: _Met,
    only: str | None,
) -> list[Addressed]:
    policy, permitted = met.policy, met.permitted
    if not permitted.any():
        return []
    known = _known_values(snapshot, routed)
    granted = [
        (interest, found)
        for interest in subscriptions.may_want(
            routed.type, policy, permitted, known if routed.parts == 1 else None
        )
        if only in (None, interest.handle)
        and _served(snapshot, interest)
        and (found := grant(met.rules, policy, interest.handle))
    ]
    if not granted:
        return []
    blind = BlindEvent(snapshot, routed, subscriptions.store)
    ranges = RangeEvent(snapshot, routed, subscriptions.ranges)
    event = _Event(routed, known, blind, ranges)
    deliveries = (_delivery(snapshot, event, one, found) for one, found in granted)
    return [addressed for addressed in deliveries if addressed is not None]


def _served(snapshot: DomainSnapshot, interest: Interest) -> bool:
    return interest.handle in snapshot.clients and interest.handle not in snapshot.denied


def _known_values(snapshot: DomainSnapshot, routed: RoutedPart) -> dict[str, Value]:
    revealed = reveal(
        Protected(dict(routed.clear), {name: dict(held) for name, held in routed.sealed.items()}),
        snapshot.opening_keys(),
        aad=protection_context(routed.domain, routed.publication, routed.part),
    )
    return {**routed.clear, **revealed}


def _why(routed: RoutedPart, granted: Grant, name: str) -> str:
    """Why an attribute is not delivered: its condition fails, no rule has it, or no key."""
    if granted.permits(name):
        return CONDITION if name in routed.suppressed else NO_KEY
    return CONDITION if name in granted.suppresses else NOT_PERMITTED


@dataclass(frozen=True)
class _Event:
    """A part with what this agent reads of it, and what it does not."""

    routed: RoutedPart
    known: Mapping[str, Value]
    blind: BlindEvent
    ranges: RangeEvent


def _delivery(
    snapshot: DomainSnapshot, event: _Event, interest: Interest, granted: Grant
) -> Addressed | None:
    routed, blind, ranges = event.routed, event.blind, event.ranges
    attributes = {name: value for name, value in event.known.items() if granted.permits(name)}
    matched = Hidden(blind.matched(granted.permits), ranges, granted.permits)
    if routed.parts == 1:
        names = interest.met(attributes, matched)
    else:
        names = tuple(one.identifier for one in interest.filters[:MOST_NAMED])
    if not names:
        return None
    sealed, hidden = blind.delivery(interest.handle, granted.permits)
    withheld = {
        name: _why(routed, granted, name)
        for name in (*routed.clear, *routed.sealed, *routed.suppressed)
        if name not in attributes
    }
    withheld |= ranges.withheld(granted.permits) | hidden
    return Addressed(
        interest.handle,
        Delivery(
            domain=routed.domain,
            publication=routed.publication,
            type=routed.type,
            publisher=routed.publisher,
            part=routed.part,
            parts=routed.parts,
            agent=snapshot.agent,
            revision=snapshot.revision,
            epoch=routed.epoch,
            attributes=attributes,
            withheld=withheld,
            blind=sealed,
        ),
        delivered(routed, interest.handle, granted, names, withheld),
    )
