"""Where an admitted part goes next: to the rendezvous agent of its type, and from there only
to agents that may want it; to everybody where that cannot be told.

Source: paper 002, section 3.1. Flooding is the fallback, so that missing knowledge costs
messages and never an event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from brokers.data.interests import HeldInterest
from brokers.data.reasons import NO_KEY, refuse
from brokers.data.route import protection_context
from brokers.ports import Outgoing
from brokers.snapshot import DomainSnapshot, GroupKey
from policyengine.attributes import Value
from policyengine.bundles import (
    Announcement,
    Carriage,
    RoutedPart,
    hop_queue,
    seal_carried,
    seal_hop,
)
from policyengine.errors import PortcullisError
from policyengine.events import Protected, reveal
from policyengine.primitives.rand import RandomSource
from policyengine.primitives.signatures import SigningKey

FEWEST_PEERS = 2
"""Other agents below which events go to everybody: one costs one message either way."""


@dataclass(frozen=True)
class Forwarding:
    """What an agent knows of its overlay at this moment; both answers may change in a batch.

    Args:
        carrier: event type -> the rendezvous agent to use now, "" where none can be.
        interest: agent -> what it wants, None where that is not known.
    """

    carrier: Callable[[str], str]
    interest: Callable[[str], HeldInterest | None]


@dataclass(frozen=True)
class Waiting:
    """An event on its way to a rendezvous agent, kept until that agent has sent it on.

    Args:
        key: names the event.
        type: its type.
        hop: as it was sealed.
        carrier: the rendezvous agent.
    """

    key: bytes
    type: str
    hop: bytes
    carrier: str


@dataclass(frozen=True)
class RoutingEffects:
    """What a message changes for routing.

    Args:
        waiting: events that a rendezvous agent was asked to send on.
        taken: (home agent, key) of events that this agent sent on.
        confirmed: (rendezvous agent, key) of events that are known to be sent on.
        heard: announcements of other agents.
        doubted: agents of whom something came that is not theirs.
    """

    waiting: tuple[Waiting, ...] = ()
    taken: tuple[tuple[str, bytes], ...] = ()
    confirmed: tuple[tuple[str, bytes], ...] = ()
    heard: tuple[Announcement, ...] = ()
    doubted: tuple[str, ...] = ()


NOTHING = RoutingEffects()


@dataclass(frozen=True)
class Departure:
    """How a part leaves its home agent."""

    outgoing: tuple[Outgoing, ...] = ()
    waiting: tuple[Waiting, ...] = ()


def distribution_key(key: bytes) -> bytes:
    """Names the sending on of an event for the window against doubles.

    Args:
        key: the event's own.
    """
    return blake2b(b"distributed" + key, digest_size=16).digest()


def overlay_key(snapshot: DomainSnapshot) -> GroupKey:
    """The key that hops are sealed under.

    Raises:
        RejectedError: `no-key`.
    """
    key = snapshot.sealing_overlay_key()
    if key is None:
        refuse(NO_KEY, "this agent holds no key of its overlay, so the event could not go on")
    return key


def depart(
    snapshot: DomainSnapshot,
    routed: RoutedPart,
    *,
    key: bytes,
    forwarding: Forwarding | None,
    signing_key: SigningKey,
    random: RandomSource,
) -> Departure:
    """Send a part that was admitted here to the overlay.

    Args:
        snapshot: the domain's policy in force.
        routed: the part.
        key: names it.
        forwarding: what is known of the overlay; None sends to everybody.
        signing_key: the agent's own.
        random: source of nonces.

    Raises:
        RejectedError: `no-key`.
    """
    if not snapshot.peers:
        return Departure()
    held = overlay_key(snapshot)
    hop = seal_hop(
        routed, signing_key=signing_key, hop_key=held.key, epoch=held.epoch, random=random
    )
    return send_on(snapshot, hop, key, routed.type, forwarding=forwarding, random=random)


def send_on(
    snapshot: DomainSnapshot,
    hop: bytes,
    key: bytes,
    event_type: str,
    *,
    forwarding: Forwarding | None,
    random: RandomSource,
) -> Departure:
    """Send a sealed hop to a rendezvous agent of its type, or to everybody.

    Args:
        snapshot: the domain's policy in force.
        hop: from `seal_hop`.
        key: names the event.
        event_type: its type.
        forwarding: what is known of the overlay; None sends to everybody.
        random: source of nonces.

    Raises:
        RejectedError: `no-key`.
    """
    domain = snapshot.domain
    carrier = ""
    if forwarding is not None and len(snapshot.peers) >= FEWEST_PEERS:
        carrier = forwarding.carrier(event_type)
    if not carrier:
        return Departure(tuple(Outgoing(hop_queue(p.name, domain), hop) for p in snapshot.peers))
    orders = Carriage(domain, snapshot.overlay, (snapshot.agent,), (carrier,), distribute=True)
    held = overlay_key(snapshot)
    body = seal_carried(orders, hop, hop_key=held.key, epoch=held.epoch, random=random)
    outgoing = (Outgoing(hop_queue(carrier, domain), body),)
    # Our own queue is as lasting as we are: nothing to wait for.
    own = carrier == snapshot.agent
    return Departure(outgoing, () if own else (Waiting(key, event_type, hop, carrier),))


def destinations(
    snapshot: DomainSnapshot, routed: RoutedPart, forwarding: Forwarding
) -> tuple[str, ...]:
    """The agents to which a rendezvous agent sends a part on.

    Args:
        snapshot: the domain's policy in force.
        routed: the part.
        forwarding: what is known of the overlay.
    """
    read: list[Mapping[str, Value]] = []

    def values() -> Mapping[str, Value]:
        if not read:
            read.append(_readable(snapshot, routed))
        return read[0]

    found = []
    for peer in snapshot.peers:
        if peer.name == routed.origin:
            continue
        held = forwarding.interest(peer.name)
        if held is None or held.may_want(routed.type, values, whole=routed.parts == 1):
            found.append(peer.name)
    return tuple(found)


def _readable(snapshot: DomainSnapshot, routed: RoutedPart) -> Mapping[str, Value]:
    sealed = {name: dict(held) for name, held in routed.sealed.items()}
    context = protection_context(routed.domain, routed.publication, routed.part)
    try:
        return reveal(Protected(dict(routed.clear), sealed), snapshot.opening_keys(), aad=context)
    except PortcullisError:
        return routed.clear  # what does not open may be anything
