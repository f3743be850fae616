"""What leaves for clients, sealed so that each alone reads its own."""

from __future__ import annotations

from collections.abc import Iterable

from brokers.data.deliver import Addressed
from brokers.data.sessions import SessionKeys
from brokers.data.subscriptions import SubscriptionIndex
from brokers.ports import Outgoing
from brokers.snapshot import DomainSnapshot
from policyengine.bundles import (
    Reply,
    delivery_queue,
    encode_framed,
    seal_delivery,
    seal_in_session,
    seal_reply,
)
from policyengine.primitives.rand import RandomSource
from policyengine.primitives.signatures import SigningKey


def sealed_deliveries(
    snapshot: DomainSnapshot,
    subscriptions: SubscriptionIndex,
    deliveries: Iterable[Addressed],
    *,
    sessions: SessionKeys | None,
    signing_key: SigningKey,
    now: float,
    random: RandomSource,
) -> list[Outgoing]:
    """Seal deliveries: in a session for a client that reads them, else each for itself.

    Args:
        snapshot: the domain's policy in force.
        subscriptions: of this domain; they say what their clients read.
        deliveries: from `deliver`.
        sessions: the agent's; None seals each for itself.
        signing_key: the agent's own.
        now: Unix time in seconds, by the lease's signed time.
        random: source of keys and nonces.
    """

    def payload(one: Addressed) -> bytes:
        if sessions is None or one.handle not in subscriptions.in_sessions:
            recipient = snapshot.clients[one.handle].sealing_key
            return seal_delivery(
                one.delivery, signing_key=signing_key, recipient=recipient, handle=one.handle
            )
        held = sessions.of(
            snapshot, one.handle, one.delivery.epoch,
            signing_key=signing_key, now=now, random=random,
        )  # fmt: skip
        return seal_in_session(one.delivery, held, random=random)

    return [
        Outgoing(delivery_queue(one.handle), encode_framed("delivery", payload(one)))
        for one in deliveries
    ]


def sealed_reply(
    snapshot: DomainSnapshot, handle: str, reply: Reply, *, signing_key: SigningKey
) -> tuple[Outgoing, ...]:
    """Seal a reply; nothing for a client that is not known here.

    Args:
        snapshot: the domain's policy in force.
        handle: the client.
        reply: what it is told.
        signing_key: the agent's own.
    """
    client = snapshot.clients.get(handle)
    if client is None:
        return ()
    sealed = seal_reply(reply, signing_key=signing_key, recipient=client.sealing_key, handle=handle)
    return (Outgoing(delivery_queue(handle), encode_framed("reply", sealed)),)
