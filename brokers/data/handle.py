"""One message of the data plane from its bytes to everything it causes. No I/O.

The agent's loop feeds messages in and carries the effects out: sends them, records the
keys, and only then acknowledges.
"""

from __future__ import annotations

from dataclasses import replace

from brokers.data import decisions
from brokers.data.admit import admit, authenticate
from brokers.data.backlog import share_out, take_out
from brokers.data.bench import Effects, Refusal, Workbench, event_key, request_key
from brokers.data.confirm import confirmed
from brokers.data.decisions import Denials
from brokers.data.deliver import Addressed, deliver
from brokers.data.forward import Departure, RoutingEffects, depart
from brokers.data.limits import TooOften
from brokers.data.match import named_epoch
from brokers.data.reasons import (
    COMPARATOR_AWAY,
    EPOCH_UNKNOWN,
    MALFORMED,
    POLICY_ENDED,
    STALE,
    UNKNOWN_AGENT,
    UNKNOWN_TYPE,
    refuse,
)
from brokers.data.route import accept_hop, route
from brokers.data.sealing import sealed_deliveries, sealed_reply
from brokers.data.subscriptions import (
    check_room,
    judge_subscribe,
    subscription_of,
)
from brokers.ports import ComparatorAway, Outgoing
from brokers.snapshot import DomainSnapshot
from policyengine.bundles import (
    PublicationPart,
    Reply,
    RoutedPart,
    SubscribeRequest,
    decode_framed,
    open_hop,
    open_publication,
    open_subscribe,
)
from policyengine.errors import DecodeError, RejectedError

__all__ = [
    "Effects",
    "Refusal",
    "Workbench",
    "accepted_hop",
    "event_key",
    "handle_backlog",
    "handle_client_message",
    "handle_hop",
    "opened_hop",
    "request_key",
]


def handle_client_message(bench: Workbench, body: bytes) -> Effects:
    """Handle a message from a client: a publication's part or a subscription.

    Args:
        bench: see `Workbench`.
        body: as it came from the publish queue.
    """
    try:
        kind, payload = decode_framed(body)
        if kind == "publication":
            return _publication(bench, payload)
        if kind == "subscribe":
            return _subscribe(bench, payload)
        if kind == "confirm":
            return confirmed(bench, payload)
    except (DecodeError, RejectedError):
        return Effects(refusal=Refusal("message", MALFORMED))
    return Effects(refusal=Refusal("message", MALFORMED))


# publications


def _publication(bench: Workbench, payload: bytes) -> Effects:
    signed = open_publication(payload, key=bench.sealing_key, agent=bench.snapshot.agent)
    part = signed.part
    try:
        authenticate(bench.snapshot, signed)
        return _authenticated(bench, part)
    except ComparatorAway:
        return Effects(hold=COMPARATOR_AWAY)
    except RejectedError as error:
        if error.reason == POLICY_ENDED:
            return Effects(hold=POLICY_ENDED)
        return _refuse_publication(bench, part, error)


def _authenticated(bench: Workbench, part: PublicationPart) -> Effects:
    key = event_key(part.publisher, part.publication, part.part)
    if bench.seen(key):
        # The first one was handled; the publisher may have missed our reply.
        return _reply_again(bench, part)
    admitted = admit(bench.snapshot, part, now=bench.now, oldest=bench.oldest, tally=bench.tally)
    routed = route(bench.snapshot, admitted, random=bench.random)
    hops = _hops(bench, routed.part, key)
    denials = Denials()
    deliveries = deliver(
        bench.snapshot, routed.part, bench.subscriptions, now=bench.now, denials=denials
    )
    sent, waiting = share_out(bench, routed.part, deliveries)
    outgoing = [*_sealed(bench, sent), *waiting, *hops.outgoing]
    dropped = (*admitted.dropped, *routed.unprotectable)
    outgoing += _reply(bench, part.publisher, _accepted(bench, part, dropped))
    bench.tally.add(admitted.spends)  # not before: what must wait, or fails, comes again
    return Effects(
        outgoing=tuple(outgoing),
        seen=((key, part.issued),),
        counts=(
            ("admitted", 1),
            ("delivered", len(sent)),
            ("backlogged", len(waiting)),
            ("forwarded", len(hops.outgoing)),
            ("attributes_dropped", len(dropped)),
        ),
        routing=RoutingEffects(waiting=hops.waiting),
        spent=admitted.spends,
        decisions=(
            decisions.admitted(
                part.publisher, routed.part.type, part.epoch, admitted.policies,
                dropped=bool(dropped),
            ),
            *(one.decision for one in sent),
            *denials.revoked,
        ),
        unserved=denials.unserved,
    )  # fmt: skip


def _accepted(bench: Workbench, part: PublicationPart, dropped: tuple[str, ...]) -> Reply:
    return Reply(
        request=part.publication, part=part.part, ok=True, reason="", message="",
        dropped=dropped, agent=bench.snapshot.agent,
    )  # fmt: skip


def _reply_again(bench: Workbench, part: PublicationPart) -> Effects:
    try:
        dropped = admit(
            bench.snapshot, part, now=bench.now, oldest=bench.oldest, tally=None
        ).dropped
    except RejectedError:
        dropped = ()
    return Effects(
        outgoing=_reply(bench, part.publisher, _accepted(bench, part, dropped)),
        counts=(("duplicates", 1),),
    )


def _hops(bench: Workbench, routed: RoutedPart, key: bytes) -> Departure:
    return depart(
        bench.snapshot,
        routed,
        key=key,
        forwarding=bench.forwarding,
        signing_key=bench.signing_key,
        random=bench.random,
    )


def _refuse_publication(bench: Workbench, part: PublicationPart, error: RejectedError) -> Effects:
    reply = Reply(
        request=part.publication, part=part.part, ok=False, reason=error.reason,
        message=error.message, dropped=(), agent=bench.snapshot.agent,
        again=error.again if isinstance(error, TooOften) else 0,
    )  # fmt: skip
    outgoing = _reply(bench, part.publisher, reply)
    refusal = Refusal(
        "publication", error.reason, part.publisher, part.type, part.publication,
        answered=bool(outgoing),
    )  # fmt: skip
    noted = decisions.refused("publication", part.publisher, part.type, error.reason)
    return Effects(outgoing=outgoing, refusal=refusal, decisions=noted)


# subscriptions


def _subscribe(bench: Workbench, payload: bytes) -> Effects:
    signed = open_subscribe(payload, key=bench.sealing_key, agent=bench.snapshot.agent)
    request = signed.request
    try:
        judge_subscribe(bench.snapshot, signed, now=bench.now, oldest=bench.oldest)
    except RejectedError as error:
        return _refuse_subscribe(bench, request, error)
    if bench.windows is not None:
        bench.windows.subscribed((request.domain, request.client), bench.now)
    key = request_key(request.client, request.request)
    outgoing = _reply(bench, request.client, _subscribe_reply(bench, request))
    if bench.seen(key):
        return Effects(outgoing=outgoing, counts=(("duplicates", 1),))
    seen = ((key, request.issued),)
    held = bench.begun.get(request.client)
    if held is None:
        held = dict(bench.subscriptions.held.get(request.client, {}))
    if request.action == "subscribe":
        one = subscription_of(request)
        try:
            check_room(held, one)
        except RejectedError as error:
            return _refuse_subscribe(bench, request, error)
        bench.begun[request.client] = {**held, one.identifier: one.size}
        noted = (decisions.subscribed(request),)
        return Effects(outgoing, seen, subscribed=(one,), decisions=noted)
    held.pop(request.subscription, None)
    bench.begun[request.client] = held
    place = (request.domain, request.client, request.subscription)
    return Effects(outgoing, seen, unsubscribed=(place,))


def _subscribe_reply(bench: Workbench, request: SubscribeRequest) -> Reply:
    return Reply(
        request=request.request, part=0, ok=True, reason="",
        message="", dropped=(), agent=bench.snapshot.agent,
    )  # fmt: skip


def _refuse_subscribe(bench: Workbench, request: SubscribeRequest, error: RejectedError) -> Effects:
    reply = Reply(
        request=request.request, part=0, ok=False, reason=error.reason,
        message=error.message, dropped=(), agent=bench.snapshot.agent,
    )  # fmt: skip
    outgoing = _reply(bench, request.client, reply)
    refusal = Refusal(
        "subscribe", error.reason, request.client, request.type, request.request,
        answered=bool(outgoing),
    )  # fmt: skip
    noted = decisions.refused("subscribe", request.client, request.type, error.reason)
    return Effects(outgoing=outgoing, refusal=refusal, decisions=noted)


# parts from other agents

_WAIT_FOR_POLICY = frozenset({EPOCH_UNKNOWN, POLICY_ENDED, UNKNOWN_TYPE, UNKNOWN_AGENT, "epoch"})
"""Refusals of a hop that a newer policy on its way to us would lift."""


def handle_hop(bench: Workbench, body: bytes) -> Effects:
    """Handle a part that another agent of the overlay admitted.

    A part that needs a newer policy than the one in force is held, not lost: its origin
    may have switched a moment before us.

    Args:
        bench: see `Workbench`.
        body: as it came from the hop queue.
    """
    routed, failed = opened_hop(bench, body)
    return failed if routed is None else accepted_hop(bench, routed)


def opened_hop(bench: Workbench, body: bytes) -> tuple[RoutedPart | None, Effects]:
    """Open a part from another agent and check its signature.

    Args:
        bench: see `Workbench`.
        body: from `seal_hop`.

    Returns:
        The part; or None, and what comes of that.
    """
    try:
        return _open_hop(bench.snapshot, body), Effects()
    except RejectedError as error:
        return None, _hop_failed(None, error)


def accepted_hop(bench: Workbench, routed: RoutedPart) -> Effects:
    """Handle an opened part of another agent: what own clients get of it.

    Args:
        bench: see `Workbench`.
        routed: from `opened_hop`.
    """
    try:
        return _accepted_hop(bench, routed)
    except ComparatorAway:
        return Effects(hold=COMPARATOR_AWAY)
    except RejectedError as error:
        return _hop_failed(routed, error)


def _hop_failed(routed: RoutedPart | None, error: RejectedError) -> Effects:
    if error.reason in _WAIT_FOR_POLICY:
        return Effects(hold=error.reason)
    return Effects(refusal=_hop_refusal(routed, error))


def _open_hop(snapshot: DomainSnapshot, body: bytes) -> RoutedPart:
    unknown: list[str] = []

    def verify_key(name: str) -> bytes:
        if name not in snapshot.agents:
            unknown.append(name)
        return snapshot.agents[name].verify_key

    try:
        return open_hop(body, hop_keys=snapshot.opening_overlay_keys(), verify=verify_key)
    except RejectedError:
        if unknown:
            refuse(UNKNOWN_AGENT, "the part comes from an agent that is not known here yet")
        raise


def _accepted_hop(bench: Workbench, routed: RoutedPart) -> Effects:
    accept_hop(bench.snapshot, routed)
    key = event_key(routed.publisher, routed.publication, routed.part)
    if bench.seen(key):
        return Effects(counts=(("duplicates", 1),))
    if routed.issued < bench.oldest:
        refuse(STALE, "the part was issued too long ago")
    named_epoch(bench.snapshot, routed.epoch)
    denials = Denials()
    deliveries = deliver(
        bench.snapshot, routed, bench.subscriptions, now=bench.now, denials=denials
    )
    sent, waiting = share_out(bench, routed, deliveries)
    return Effects(
        outgoing=(*_sealed(bench, sent), *waiting),
        seen=((key, routed.issued),),
        counts=(("hops", 1), ("delivered", len(sent)), ("backlogged", len(waiting))),
        decisions=(*(one.decision for one in sent), *denials.revoked),
        unserved=denials.unserved,
    )


def _hop_refusal(routed: RoutedPart | None, error: RejectedError) -> Refusal:
    if routed is None:
        return Refusal("hop", error.reason)
    return Refusal("hop", error.reason, routed.origin, routed.type, routed.publication)


# what waited for a client


def handle_backlog(bench: Workbench, handle: str, body: bytes) -> Effects:
    """Handle what was put away for a client that had no room.

    Args:
        bench: see `Workbench`.
        handle: the client.
        body: as it came from its backlog queue.
    """
    effects, found = take_out(bench, handle, body)
    return replace(effects, outgoing=tuple(_sealed(bench, found))) if found else effects


# sealing to clients


def _sealed(bench: Workbench, deliveries: list[Addressed]) -> list[Outgoing]:
    return sealed_deliveries(
        bench.snapshot,
        bench.subscriptions,
        deliveries,
        sessions=bench.sessions,
        signing_key=bench.signing_key,
        now=bench.now,
        random=bench.random,
    )


def _reply(bench: Workbench, handle: str, reply: Reply) -> tuple[Outgoing, ...]:
    return sealed_reply(bench.snapshot, handle, reply, signing_key=bench.signing_key)
