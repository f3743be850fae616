"""The first gate: may this publisher publish this, now, and which of its attributes?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokers.data.match import grant, matched_rules, named_epoch
from brokers.data.reasons import (
    MALFORMED,
    NOT_AUTHORISED,
    REVOKED,
    STALE,
    UNKNOWN_PUBLISHER,
    UNKNOWN_TYPE,
    refuse,
)
from brokers.snapshot import DomainSnapshot
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
    """

    part: PublicationPart
    values: Mapping[str, Value]
    dropped: tuple[str, ...]


def authenticate(snapshot: DomainSnapshot, signed: SignedPart) -> PublicationPart:
    """Check that the part is of this domain and that its publisher signed it.

    Raises:
        RejectedError: `malformed`, `unknown-publisher`, `signature` or `revoked`.
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
    return part


def admit(
    snapshot: DomainSnapshot, part: PublicationPart, *, now: float, oldest: float
) -> Admitted:
    """Decide about an authenticated part.

    Args:
        snapshot: the domain's policy in force.
        part: from `authenticate`.
        now: Unix time in seconds, by the lease's signed time.
        oldest: Unix time before which doubles could no longer be told; older is refused.

    Raises:
        RejectedError: `unknown-type`, `stale`, `epoch-unknown`, `epoch-retired`,
            `malformed` or `not-authorised`.
    """
    if part.type not in snapshot.specs:
        refuse(UNKNOWN_TYPE, f"event type `{part.type}` does not exist in this domain")
    if not oldest <= part.issued <= now + CLOCK_SKEW:
        refuse(STALE, "the event was issued too long ago, or in the future")
    policy = named_epoch(snapshot, part.epoch)
    rules = matched_rules(policy, "publish", part.type, frozenset(part.tags))
    granted = grant(rules, policy, part.publisher)
    if granted is None:
        refuse(NOT_AUTHORISED, "no policy lets this publisher publish this event")
    # Restriction instead of refusal: OASIS (paper 002), section 3.
    kept = restrict(tuple(part.attributes), granted.attributes).kept
    values = {name: part.attributes[name] for name in kept}
    _validate(snapshot, part.type, values)
    dropped = tuple(name for name in part.attributes if name not in values)
    return Admitted(part, values, dropped)


def _validate(snapshot: DomainSnapshot, event_type: str, values: Mapping[str, Value]) -> None:
    try:
        snapshot.types.validate(event_type, values)
    except InputError as error:
        # The engine's message may quote a value: say only which attribute it was.
        where = f" (attribute `{error.where}`)" if error.where else ""
        refuse(MALFORMED, f"a value does not fit the event type{where}")
