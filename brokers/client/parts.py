"""One part of an event, sealed for the agent that is to take it."""

from __future__ import annotations

from collections.abc import Mapping

from brokers.client.dispatch import Shipment
from brokers.client.policy import ClientPolicy, PlannedPart
from brokers.client.profile import Profile
from brokers.ports import Outgoing
from policyengine.attributes import Value
from policyengine.blind import Context
from policyengine.bundles import PublicationPart, encode_framed, publish_queue, seal_publication


def make_part(
    policy: ClientPolicy,
    part: PlannedPart,
    *,
    domain: str,
    publisher: str,
    publication: str,
    event_type: str,
    values: Mapping[str, Value],
    issued: float,
) -> PublicationPart:
    """One part of an event as its publisher signs it.

    Args:
        policy: in force at the publisher.
        part: from `ClientPolicy.plan`.
        domain: where it is published.
        publisher: its handle.
        publication: the event's identifier.
        event_type: its type.
        values: of the whole event.
        issued: Unix time in seconds.

    Raises:
        NotReady: `not-ready`, where no tag key of the overlay is current, or no key to hide
            attributes with.
        InputError: a value that no message can carry, or that does not fit what is hidden.
    """
    epoch, tags = policy.tags(part.overlay, values, event_type)
    context = Context(publication, part.part)
    hidden = policy.blind.hide(event_type, part.values, values, context, whole=part.parts == 1)
    return PublicationPart(
        domain=domain,
        publication=publication,
        type=event_type,
        publisher=publisher,
        part=part.part,
        parts=part.parts,
        overlay=part.overlay,
        epoch=epoch,
        policy=policy.digest,
        issued=int(issued),
        tags=tags,
        attributes=hidden.attributes,
        blind=hidden.blind,
        ordered=hidden.ordered,
    )


def seal_part(profile: Profile, shipment: Shipment, issued: float) -> Outgoing:
    """The message that carries a shipment.

    Raises:
        NotReady: no tag key of the overlay is current.
        InputError: a value that no message can carry, or too much of them.
    """
    parcel = shipment.parcel
    part = make_part(
        shipment.policy, shipment.part,
        domain=parcel.domain, publisher=profile.handle, publication=parcel.id,
        event_type=parcel.type, values=parcel.values, issued=issued,
    )  # fmt: skip
    sealed = seal_publication(
        part,
        signing_key=profile.keys.signing,
        recipient=shipment.agent.sealing_key,
        agent=shipment.agent.agent,
    )
    queue = publish_queue(shipment.agent.agent, parcel.domain)
    return Outgoing(queue, encode_framed("publication", sealed))
