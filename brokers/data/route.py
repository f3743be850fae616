"""From an admitted part to what travels: protected attributes under their keys."""

from __future__ import annotations

from dataclasses import dataclass

from brokers.data.admit import Admitted
from brokers.data.ranges import accept_ranges
from brokers.data.reasons import MALFORMED, OWN_EVENT, REVOKED, UNKNOWN_TYPE, refuse
from brokers.snapshot import DomainSnapshot
from policyengine.bundles import RoutedPart
from policyengine.events import protect
from policyengine.primitives.canonical import pack
from policyengine.primitives.rand import RandomSource


@dataclass(frozen=True)
class Routed:
    """What goes to subscribers and to the other agents.

    Args:
        part: the event's part with protected attributes encrypted.
        unprotectable: protected attributes for which this agent holds no key; they are
            left out rather than carried in clear.
    """

    part: RoutedPart
    unprotectable: tuple[str, ...]


def protection_context(domain: str, publication: str, part: int) -> bytes:
    """What an attribute's ciphertext is bound to: it opens in no other event."""
    return pack(b"portcullis/attribute/v1", domain.encode(), publication.encode(), b"%d" % part)


def route(snapshot: DomainSnapshot, admitted: Admitted, *, random: RandomSource) -> Routed:
    """Encrypt the protected attributes of an admitted part.

    Args:
        snapshot: the domain's policy in force.
        admitted: from `admit`.
        random: source of nonces.
    """
    part = admitted.part
    # Lowered or not, what is left travels under the keys of the type that was asked for: a
    # super-type may name more of them.
    protected = protect(
        admitted.values,
        snapshot.specs[part.type],
        snapshot.sealing_keys(),
        aad=protection_context(part.domain, part.publication, part.part),
        random=random,
    )
    routed = RoutedPart(
        domain=part.domain,
        publication=part.publication,
        type=admitted.type,
        publisher=part.publisher,
        part=part.part,
        parts=part.parts,
        overlay=part.overlay,
        epoch=part.epoch,
        policy=part.policy,
        issued=part.issued,
        tags=part.tags,
        origin=snapshot.agent,
        clear=protected.clear,
        sealed=protected.sealed,
        suppressed=admitted.suppressed,
        blind=admitted.blind,
        ordered=admitted.ordered,
    )
    return Routed(routed, protected.dropped)


def accept_hop(snapshot: DomainSnapshot, routed: RoutedPart) -> None:
    """Check a part that another agent of the overlay sent; its signature is verified already.

    Raises:
        RejectedError: `malformed` (another domain or overlay), `own-event`, `revoked` or
            `unknown-type`.
    """
    if (routed.domain, routed.overlay) != (snapshot.domain, snapshot.overlay):
        refuse(MALFORMED, "the part is for another domain or overlay")
    if routed.origin == snapshot.agent:
        refuse(OWN_EVENT, "the part came from this agent itself")
    if routed.publisher in snapshot.denied:
        refuse(REVOKED, "the publisher was revoked")
    if routed.type not in snapshot.specs:
        refuse(UNKNOWN_TYPE, "the event's type does not exist in this domain")
    accept_ranges(snapshot, routed)
