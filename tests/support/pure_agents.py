"""Agents and clients as pure functions: bytes in, bytes out, no broker, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokers.client.policy import ClientPolicy, PlannedPart, build_policy
from brokers.client.wish import Wish, seal_wish
from brokers.control.sync import Identity, open_verified
from brokers.data.handle import Effects, Workbench, handle_client_message, handle_hop
from brokers.data.sessions import SessionKeys
from brokers.data.subscriptions import Subscription, SubscriptionIndex
from brokers.ports import ComparatorPort, Outgoing
from brokers.snapshot import DomainSnapshot, build_snapshot
from policyengine.blind import Context
from policyengine.bundles import (
    Delivery,
    PublicationPart,
    Reply,
    decode_framed,
    delivery_queue,
    encode_framed,
    open_delivery,
    open_reply,
    seal_publication,
)
from policyengine.ope import RangeIndex
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.support.data_plane import Organisation

NOW = 1_000_000.0


def agent_snapshot(organisation: Organisation, name: str) -> DomainSnapshot:
    """What is in force at an agent."""
    keys = organisation.agents[name].keys
    identity = Identity(f"agent:{name}", keys.sealing, organisation.authority.anchors())
    sealed = organisation.bundle(f"agent:{name}", 1)
    opened = open_verified(sealed.message, domain=organisation.domain, identity=identity)
    return build_snapshot(opened, sealing_key=keys.sealing)


def client_policy(organisation: Organisation, handle: str) -> ClientPolicy:
    """What is in force at a client."""
    keys = organisation.clients[handle].keys
    identity = Identity(f"client:{handle}", keys.sealing, organisation.authority.anchors())
    sealed = organisation.bundle(f"client:{handle}", 1)
    return build_policy(
        open_verified(sealed.message, domain=organisation.domain, identity=identity)
    )


@dataclass
class PureAgent:
    """One agent between two batches.

    Args:
        organisation: who is who.
        name: which agent.
        subscriptions: of its clients.
    """

    organisation: Organisation
    name: str
    subscriptions: list[Subscription] = field(default_factory=list)
    now: float = NOW
    oldest: float = NOW - 3600
    seen: set[bytes] = field(default_factory=set)
    comparator: ComparatorPort | None = None
    sessions: SessionKeys | None = None

    def __post_init__(self) -> None:
        self.snapshot = agent_snapshot(self.organisation, self.name)
        self.ranges = RangeIndex(self.comparator)

    def bench(self) -> Workbench:
        """The workbench of its next message."""
        keys = self.organisation.agents[self.name].keys
        return Workbench(
            snapshot=self.snapshot,
            subscriptions=SubscriptionIndex.build(
                self.snapshot, self.subscriptions, ranges=self.ranges
            ),
            sealing_key=keys.sealing,
            signing_key=keys.signing,
            now=self.now,
            oldest=self.oldest,
            seen=self.seen.__contains__,
            random=SYSTEM_RANDOM,
            sessions=self.sessions,
        )

    def client_message(self, body: bytes) -> Effects:
        """Handle a client's message and remember it."""
        return self._remember(handle_client_message(self.bench(), body))

    def hop(self, body: bytes) -> Effects:
        """Handle a hop and remember it."""
        return self._remember(handle_hop(self.bench(), body))

    def _remember(self, effects: Effects) -> Effects:
        self.seen.update(key for key, _ in effects.seen)
        return effects

    def subscribe(self, handle: str, event_type: str, text: str = "", reads: str = "") -> None:
        """A subscription that was accepted before."""
        name = f"s{len(self.subscriptions)}"
        domain = self.organisation.domain
        one = Subscription(domain, handle, name, event_type, text, reads=reads)
        self.subscriptions.append(one)


def publication(
    organisation: Organisation,
    handle: str,
    event_type: str,
    values: Mapping[str, Any],
    *,
    identifier: str = "0" * 32,
    part: int = 0,
    issued: float = NOW,
    signer: str | None = None,
    agent: str | None = None,
    **changes: Any,
) -> bytes:
    """What a publisher's client sends to the home agent of one part."""
    policy = client_policy(organisation, handle)
    planned: PlannedPart = policy.plan(event_type, values)[part]
    home = policy.homes[planned.overlay]
    epoch, tags = policy.tags(planned.overlay, values, event_type)
    hidden = policy.blind.hide(
        event_type, planned.values, values, Context(identifier, part), whole=planned.parts == 1
    )
    made: dict[str, Any] = {
        "domain": organisation.domain,
        "publication": identifier,
        "type": event_type,
        "publisher": handle,
        "part": planned.part,
        "parts": planned.parts,
        "overlay": planned.overlay,
        "epoch": epoch,
        "policy": policy.digest,
        "issued": int(issued),
        "tags": tags,
        "attributes": hidden.attributes,
        "blind": hidden.blind,
        "ordered": hidden.ordered,
    }
    target = organisation.agents[agent or home.agent]
    sealed = seal_publication(
        PublicationPart(**{**made, **changes}),
        signing_key=organisation.clients[signer or handle].keys.signing,
        recipient=target.keys.sealing.public,
        agent=target.name,
    )
    return encode_framed("publication", sealed)


def subscription(
    organisation: Organisation,
    handle: str,
    event_type: str,
    text: str,
    *,
    request: str = "1" * 32,
    issued: float = NOW,
    policy: ClientPolicy | None = None,
) -> bytes:
    """What a subscriber's client asks of its first home agent."""
    policy = policy or client_policy(organisation, handle)
    sealed = seal_wish(
        Wish.of(event_type, text),
        "subscribe",
        next(iter(policy.homes.values())),
        domain=organisation.domain,
        client=handle,
        request=request,
        issued=issued,
        signing_key=organisation.clients[handle].keys.signing,
        asked=policy.blind.ask(event_type, text),
    )
    return encode_framed("subscribe", sealed)


def deliveries(
    organisation: Organisation, outgoing: Iterable[Outgoing]
) -> dict[str, list[Delivery]]:
    """The deliveries among messages, opened by their clients: handle -> deliveries."""
    found: dict[str, list[Delivery]] = {}
    for handle, kind, payload in _to_clients(organisation, outgoing):
        if kind == "delivery":
            opened = open_delivery(
                payload,
                key=organisation.clients[handle].keys.sealing,
                handle=handle,
                verify=lambda name: organisation.agents[name].keys.signing.public,
            )
            found.setdefault(handle, []).append(opened)
    return found


def replies(organisation: Organisation, outgoing: Iterable[Outgoing]) -> dict[str, list[Reply]]:
    """The replies among messages, opened by their clients: handle -> replies."""
    found: dict[str, list[Reply]] = {}
    for handle, kind, payload in _to_clients(organisation, outgoing):
        if kind == "reply":
            opened = open_reply(
                payload,
                key=organisation.clients[handle].keys.sealing,
                handle=handle,
                verify=lambda name: organisation.agents[name].keys.signing.public,
            )
            found.setdefault(handle, []).append(opened)
    return found


def hops(outgoing: Iterable[Outgoing]) -> dict[str, bytes]:
    """The hops among messages: agent -> body."""
    return {
        message.queue.split(".")[2]: message.body
        for message in outgoing
        if message.queue.startswith("pc.hop.")
    }


def _to_clients(
    organisation: Organisation, outgoing: Iterable[Outgoing]
) -> list[tuple[str, str, bytes]]:
    queues = {delivery_queue(handle): handle for handle in organisation.clients}
    return [
        (queues[message.queue], *decode_framed(message.body))
        for message in outgoing
        if message.queue in queues
    ]
