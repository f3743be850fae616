"""What a home agent hands to a subscriber's client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from policyengine.bundles.contexts import DELIVERY
from policyengine.bundles.limits import BLIND, MAX_MESSAGE
from policyengine.bundles.publications import PART, PARTS, VALUES, Value
from policyengine.bundles.sealing import (
    check_signature,
    look_up,
    open_body,
    read_body,
    reject,
    seal_body,
    write_body,
)
from policyengine.bundles.sessions import (
    DeliverySession,
    OpenedSessions,
    SealedSession,
    is_in_session,
    open_body_in,
    seal_body_in,
)
from policyengine.errors import InputError
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.rand import RandomSource
from policyengine.primitives.records import (
    HEX_ID,
    IDENTIFIER,
    LABEL,
    SENTENCE,
    UINT,
    MapOf,
    Record,
    invalid,
)
from policyengine.primitives.signatures import SigningKey, sign


@dataclass(frozen=True)
class Delivery(Record):
    """A part of an event as one subscriber may see it.

    Args:
        domain: the domain.
        publication: 32 hexadecimal digits.
        type: event type.
        publisher: the publisher's handle.
        part: index of this part, from 0.
        parts: how many there are.
        agent: name of the delivering agent.
        revision: revision in force at the agent.
        epoch: encoding epoch in which the part was matched.
        attributes: name -> value that the subscriber may read.
        withheld: name -> why it may not.
        blind: `blind.BlindDelivery`, of the attributes that agents may not have.
    """

    domain: Annotated[str, IDENTIFIER]
    publication: Annotated[str, HEX_ID]
    type: Annotated[str, LABEL]
    publisher: Annotated[str, IDENTIFIER]
    part: Annotated[int, PART]
    parts: Annotated[int, PARTS]
    agent: Annotated[str, IDENTIFIER]
    revision: Annotated[int, UINT]
    epoch: Annotated[int, UINT]
    attributes: Annotated[Mapping[str, Value], VALUES]
    withheld: Annotated[Mapping[str, str], MapOf(LABEL, SENTENCE, 1024)]
    blind: Annotated[bytes, BLIND] = b""

    def _agree(self) -> None:
        if self.part >= self.parts:
            raise invalid("part", "must be below the number of parts")
        if set(self.attributes) & set(self.withheld):
            raise invalid("withheld", "must not name an attribute that is delivered")


def seal_delivery(
    delivery: Delivery, *, signing_key: SigningKey, recipient: bytes, handle: str
) -> bytes:
    """Sign a delivery as the agent and seal it to one client.

    Args:
        delivery: the delivery.
        signing_key: the agent's key.
        recipient: the client's public X25519 key, 32 bytes.
        handle: the client's handle.

    Raises:
        InputError: `too-large` over 8 MiB.
    """
    return seal_body(
        DELIVERY,
        write_body(delivery),
        address=handle,
        signer=delivery.agent,
        sign=partial(sign, signing_key),
        recipient=recipient,
        limit=MAX_MESSAGE,
    )


def seal_in_session(delivery: Delivery, held: SealedSession, *, random: RandomSource) -> bytes:
    """Encrypt a delivery for the client of a session.

    Args:
        delivery: the delivery.
        held: a session for its agent, domain and epoch.
        random: source of the nonce.

    Raises:
        InputError: `invalid` where the session is for other deliveries; `too-large` over 8 MiB.
    """
    if not _fits(delivery, held.session):
        raise InputError("invalid", "the session is for other deliveries")
    return seal_body_in(held, write_body(delivery), random=random)


def open_delivery(
    data: bytes,
    *,
    key: SealingKey,
    handle: str,
    verify: Callable[[str], bytes],
    sessions: OpenedSessions | None = None,
) -> Delivery:
    """Open a delivery, sealed for itself or in a session, and check it.

    Args:
        data: the sealed message.
        key: the client's own key.
        handle: the client's own handle.
        verify: agent's name -> its public Ed25519 key; raises KeyError if unknown.
        sessions: what the client opened before; None to open a session for this one alone.

    Raises:
        RejectedError: `malformed` or `signature`.
    """
    if is_in_session(data):
        opened = OpenedSessions(1) if sessions is None else sessions
        session, body = open_body_in(data, key=key, handle=handle, verify=verify, opened=opened)
        delivery = read_body(Delivery, body)
        if not _fits(delivery, session):
            reject("malformed", "the delivery is of another session")
        return delivery
    signed = open_body(DELIVERY, data, address=handle, key=key, limit=MAX_MESSAGE)
    check_signature(DELIVERY, signed, address=handle, public=look_up(verify, signed.signer))
    delivery = read_body(Delivery, signed.body)
    if delivery.agent != signed.signer:
        reject("malformed", "the delivery names two agents")
    return delivery


def _fits(delivery: Delivery, session: DeliverySession) -> bool:
    # INVARIANT: a session's key speaks for its own agent, domain and epoch only
    place = (session.agent, session.domain, session.epoch)
    return (delivery.agent, delivery.domain, delivery.epoch) == place
