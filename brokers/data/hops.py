"""One message of a hop queue: an event, or what agents tell each other about routing."""

from __future__ import annotations

from dataclasses import replace

from brokers.data.forward import RoutingEffects, destinations, distribution_key
from brokers.data.handle import (
    Effects,
    Refusal,
    Workbench,
    accepted_hop,
    event_key,
    handle_hop,
    opened_hop,
)
from brokers.data.reasons import MALFORMED, REVOKED
from brokers.ports import Outgoing
from policyengine.bundles import (
    Carriage,
    RoutedPart,
    hop_kind,
    hop_queue,
    open_announcement,
    open_carried,
    open_taken,
)
from policyengine.errors import RejectedError

_EPOCH = "epoch"
_CLOCK_SKEW = 120.0


def handle_hop_message(bench: Workbench, body: bytes) -> Effects:
    """Handle a message from another agent of the overlay.

    Args:
        bench: see `Workbench`; without `forwarding` it distributes nothing.
        body: as it came from the hop queue.
    """
    kind = hop_kind(body)
    if kind == "event":
        return handle_hop(bench, body)
    try:
        if kind == "interest":
            return _interest(bench, body)
        if kind == "taken":
            return _taken(bench, body)
        return _carried(bench, body)
    except RejectedError as error:
        # A key of the overlay may be on its way to us, and the order of messages counts.
        if error.reason == _EPOCH:
            return Effects(hold=_EPOCH)
        return Effects(refusal=Refusal("hop", error.reason))


def _interest(bench: Workbench, body: bytes) -> Effects:
    snapshot = bench.snapshot
    claimed: list[str] = []

    def verify_key(name: str) -> bytes:
        claimed.append(name)
        return snapshot.agents[name].verify_key

    keys = snapshot.opening_overlay_keys()
    try:
        told = open_announcement(body, hop_keys=keys, verify_key=verify_key)
    except RejectedError as error:
        if error.reason != "signature":
            raise
        # An agent with other keys than we know: until it is told apart, it may want all.
        doubted = RoutingEffects(doubted=tuple(claimed))
        return Effects(counts=(("interests_refused", 1),), routing=doubted)
    place = (told.domain, told.overlay, told.to)
    if place != (snapshot.domain, snapshot.overlay, snapshot.agent):
        return Effects(refusal=Refusal("hop", MALFORMED, told.agent))
    if told.issued > bench.now + _CLOCK_SKEW:
        return Effects(counts=(("interests_refused", 1),))
    return Effects(counts=(("interests", 1),), routing=RoutingEffects(heard=(told,)))


def _taken(bench: Workbench, body: bytes) -> Effects:
    taken = open_taken(body, hop_keys=bench.snapshot.opening_overlay_keys())
    if (taken.domain, taken.to) != (bench.snapshot.domain, bench.snapshot.agent):
        return Effects(refusal=Refusal("hop", MALFORMED, taken.agent))
    confirmed = tuple((taken.agent, key) for key in taken.keys)
    return Effects(routing=RoutingEffects(confirmed=confirmed))


def _carried(bench: Workbench, body: bytes) -> Effects:
    snapshot = bench.snapshot
    orders, hop = open_carried(body, hop_keys=snapshot.opening_overlay_keys())
    if not _for_us(bench, orders):
        return Effects(refusal=Refusal("hop", MALFORMED, orders.path[0]))
    routed, failed = opened_hop(bench, hop)
    if routed is None:
        return failed
    own = routed.origin == snapshot.agent  # delivered here when it was admitted
    delivered = Effects() if own else accepted_hop(bench, routed)
    if delivered.refusal is not None and delivered.refusal.reason == REVOKED:
        dropped = replace(delivered.refusal, kind="carried")
        return replace(delivered, refusal=dropped, routing=_receipt(bench, routed))
    if delivered.hold or delivered.refusal is not None:
        return delivered  # its home hears nothing of it and finds another way
    return _distributed(bench, routed, hop, delivered)


def _for_us(bench: Workbench, orders: Carriage) -> bool:
    snapshot = bench.snapshot
    here = (orders.domain, orders.overlay) == (snapshot.domain, snapshot.overlay)
    return here and orders.distribute and orders.to == (snapshot.agent,)


def _distributed(bench: Workbench, routed: RoutedPart, hop: bytes, delivered: Effects) -> Effects:
    snapshot, forwarding = bench.snapshot, bench.forwarding
    key = distribution_key(event_key(routed.publisher, routed.publication, routed.part))
    if forwarding is None or bench.seen(key):
        return replace(delivered, routing=_receipt(bench, routed))
    names = destinations(snapshot, routed, forwarding)
    sent = tuple(Outgoing(hop_queue(name, snapshot.domain), hop) for name in names)
    others = sum(peer.name != routed.origin for peer in snapshot.peers)
    return replace(
        delivered,
        outgoing=(*delivered.outgoing, *sent),
        seen=(*delivered.seen, (key, routed.issued)),
        counts=(
            *delivered.counts,
            ("distributed", 1),
            ("forwarded", len(sent)),
            ("saved", others - len(sent)),
        ),
        routing=_receipt(bench, routed),
    )


def _receipt(bench: Workbench, routed: RoutedPart) -> RoutingEffects:
    if routed.origin == bench.snapshot.agent:
        return RoutingEffects()
    key = event_key(routed.publisher, routed.publication, routed.part)
    return RoutingEffects(taken=((routed.origin, key),))
