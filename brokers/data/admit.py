"""The first gate: may this publisher publish this, now, and which of its attributes?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from brokers.data.blind import admit_blind
from brokers.data.limits import Tally, TooOften, limit_key
from brokers.data.match import Grant, check_ended, grant, matched_rules, named_epoch
from brokers.data.ranges import admit_ranges
from brokers.data.reasons import (
    MALFORMED,
    NOT_AUTHORISED,
    POLICY_ENDED,
    REVOKED,
    STALE,
    UNKNOWN_PUBLISHER,
    UNKNOWN_TYPE,
    refuse,
)
from brokers.ports import Spend
from brokers.snapshot import LOWER, DomainSnapshot, EpochPolicy, Rule
from policyengine.attributes import Value
from policyengine.bundles import PublicationPart, SignedPart
from policyengine.errors import InputError
from policyengine.events import restrict

# How far a publisher's clock may be ahead of the control plane's, in seconds.
CLOCK_SKEW = 120.0


@dataclass(frozen=True)
class Admitted:
    """A part that may go on.

    Args:
        part: as its publisher signed it.
        values: the attributes that the publisher may write.
        dropped: the others, in the part's order.
        type: the event's type, the part's own or the super-type that it was lowered to.
        suppressed: those of `dropped` whose place is kept.
        blind: `blind.RoutedBlind` of the attributes that agents may not have.
        ordered: `ope.RangeValues` of those that agents compare without reading.
        spends: the limits that it counts against.
        policies: names of the policies that let it in.
    """

    part: PublicationPart
    values: Mapping[str, Value]
    dropped: tuple[str, ...]
    type: str
    suppressed: tuple[str, ...] = ()
    blind: bytes = b""
    ordered: bytes = b""
    spends: tuple[Spend, ...] = ()
    policies: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Granted:
    """What a part may be published as.

    Args:
        type: its own type or the super-type that it is lowered to.
        grant: what its publisher may do with it.
        rules: those that let it through.
    """

    type: str
    grant: Grant
    rules: tuple[Rule, ...]


def authenticate(snapshot: DomainSnapshot, signed: SignedPart) -> PublicationPart:
    """Check that the part is of this domain and that its publisher signed it.

    Raises:
        RejectedError: `malformed`, `unknown-publisher`, `signature`, `revoked`, or `policy-ended`
            where a newer policy must be waited for.
    """
    part = signed.part
    if (part.domain, part.overlay) != (snapshot.domain, snapshot.overlay):
        refuse(MALFORMED, "the part is for another domain or overlay")
    publisher = snapshot.clients.get(part.publisher)
    if publisher is None:
        refuse(UNKNOWN_PUBLISHER, "this agent is not the home of that publisher")
    signed.verify(publisher.verify_key)
    if part.publisher in snapshot.denied:
        refuse(REVOKED, "the publisher was revoked")
    if part.publisher in snapshot.held:
        refuse(POLICY_ENDED, "the publisher lost something; what it still may is on its way")
    return part


def admit(
    snapshot: DomainSnapshot,
    part: PublicationPart,
    *,
    now: float,
    oldest: float,
    tally: Tally | None,
) -> Admitted:
    """Decide about an authenticated part.

    Args:
        snapshot: the domain's policy in force.
        part: from `authenticate`.
        now: Unix time in seconds, by the lease's signed time.
        oldest: Unix time before which doubles could no longer be told; older is refused.
        tally: what publishers have used of their limits; nothing is counted here. None for a
            part that was admitted before.

    Raises:
        RejectedError: `unknown-type`, `stale`, `epoch-unknown`, `epoch-retired`,
            `malformed`, `not-authorised`, `policy-ended`, `no-share` or `too-often`, which is
            a `TooOften`.
    """
    if part.type not in snapshot.specs:
        refuse(UNKNOWN_TYPE, f"event type `{part.type}` does not exist in this domain")
    if not oldest <= part.issued <= now + CLOCK_SKEW:
        refuse(STALE, "the event was issued too long ago, or in the future")
    _check_parts(snapshot, part)
    policy = named_epoch(snapshot, part.epoch)
    found = _granted_now(snapshot, policy, part, now, tally)
    # Restriction instead of refusal: paper 002, section 4.2.
    kind, granted = found.type, found.grant
    known = {spec.name for spec in snapshot.specs[kind]}
    lowered = kind != part.type
    kept = [
        name
        for name in restrict(tuple(part.attributes), granted.attributes).kept
        if name in known or not lowered
    ]
    values = {name: part.attributes[name] for name in kept}
    _validate(snapshot, kind, values)
    dropped = tuple(name for name in part.attributes if name not in values)
    blind = admit_blind(snapshot, part, kind, granted.permits)
    ranges = admit_ranges(snapshot, part, kind, granted.permits)
    dropped = tuple(dict.fromkeys((*dropped, *blind.dropped, *ranges.dropped)))
    suppressed = tuple(name for name in dropped if name in granted.suppresses and name in known)
    spends = _spends(part, found.rules, now)
    return Admitted(
        part, values, dropped, kind, suppressed, blind.data, ranges.data, spends, granted.policies
    )


def _check_parts(snapshot: DomainSnapshot, part: PublicationPart) -> None:
    """Hold what a publisher calls a part of a split event against what is split.

    INVARIANT: nobody escapes the checks of whole events by calling one a part. A publisher that
    has not heard of a changed split yet makes its parts anew under its next bundle.
    """
    if part.parts == 1 or snapshot.splits is None:
        return
    carried = snapshot.splits.get(part.type)
    if carried is None or not carried.issuperset(part.attributes):
        refuse(STALE, "events of this type are split otherwise, by the policy in force here")


def _granted_now(
    snapshot: DomainSnapshot,
    policy: EpochPolicy,
    part: PublicationPart,
    now: float,
    tally: Tally | None,
) -> _Granted:
    """What the policies that still have room let the publisher publish the part as."""

    def room_from(rule: Rule) -> float:
        if rule.limit is None or tally is None:
            return 0.0
        return tally.room_from(limit_key(part.domain, part.publisher, rule.limit), rule.limit)

    found = _granted(snapshot, policy, part, now, lambda rule: room_from(rule) <= now)
    if found is not None:
        return found
    later = _granted(snapshot, policy, part, now, lambda _: True)
    if later is None:
        refuse(NOT_AUTHORISED, "no policy lets this publisher publish this event")
    used_up = [(room_from(rule), rule.limit) for rule in later.rules if rule.limit is not None]
    again, limit = min(
        ((moment, limit) for moment, limit in used_up if moment > now), key=lambda pair: pair[0]
    )
    raise TooOften(limit, math.ceil(again), now)


def _spends(part: PublicationPart, rules: Iterable[Rule], now: float) -> tuple[Spend, ...]:
    """An event counts against every policy that lets it through, once each."""
    limits = dict.fromkeys(rule.limit for rule in rules if rule.limit is not None)
    return tuple(
        Spend(limit_key(part.domain, part.publisher, limit), now, now + limit.seconds)
        for limit in limits
    )


def _granted(
    snapshot: DomainSnapshot,
    policy: EpochPolicy,
    part: PublicationPart,
    now: float,
    usable: Callable[[Rule], bool],
) -> _Granted | None:
    """What the publisher may publish the part as, and with what; None: as nothing.

    A whole event's values are held against what its tags claim. Parts of a split one show an
    agent only some values, so there its tags alone count, and no part is lowered: the agents
    of the other parts could not tell. Only rules that are `usable` count, and of them those that
    authorise the publisher.
    """
    position = policy.positions.get(part.publisher)
    if position is None:
        return None
    whole = part.parts == 1
    tags = frozenset(part.tags)
    proofs = policy.proofs(_canonical(snapshot, part)) if whole else None

    def at(action: str, event_type: str) -> list[Rule]:
        found = matched_rules(policy, action, event_type, tags, proofs)
        check_ended(found, policy, now=now, handle=part.publisher)
        return [rule for rule in found if rule.authorised[position] and usable(rule)]

    own = at("publish", part.type)
    granted = grant(own, policy, part.publisher)
    if granted is not None:
        return _Granted(part.type, granted, tuple(own))
    lowering = at(LOWER, part.type)
    for above in snapshot.types.ancestors(part.type) if whole else ():
        names = {spec.name for spec in snapshot.specs[above]}
        through = [rule for rule in lowering if names.isdisjoint(rule.lowers or ())]
        if through:
            wider = at("publish", above)
            granted = grant(wider, policy, part.publisher)
            if granted is not None:
                return _Granted(above, granted, (*wider, *through))
    # No super-type can be had: without the attributes then, unless it is about the event.
    left = [rule for rule in lowering if rule.attributes]
    settled = grant(left, policy, part.publisher)
    return None if settled is None else _Granted(part.type, settled, tuple(left))


def _canonical(snapshot: DomainSnapshot, part: PublicationPart) -> Mapping[str, Value]:
    """The values in their types' one form, as the publisher's client tagged them."""
    try:
        return snapshot.types.validate(part.type, part.attributes)
    except InputError:
        return part.attributes  # what is wrong with one of them is said where it is kept


def _validate(snapshot: DomainSnapshot, event_type: str, values: Mapping[str, Value]) -> None:
    try:
        snapshot.types.validate(event_type, values)
    except InputError as error:
        # The engine's message may quote a value: say only which attribute it was.
        where = f" (attribute `{error.where}`)" if error.where else ""
        refuse(MALFORMED, f"a value does not fit the event type{where}")
