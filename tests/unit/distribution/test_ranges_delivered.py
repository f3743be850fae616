"""From an organisation's file to a subscriber's value: prices that an agent only compares."""

from __future__ import annotations

import time
from typing import Any

from adminapp.identity.models import Domain
from brokers.client.parts import make_part
from brokers.client.policy import ClientPolicy, build_policy
from brokers.client.wish import Wish, seal_wish
from brokers.data.handle import Workbench, handle_client_message
from brokers.data.subscriptions import Subscription, SubscriptionIndex
from brokers.snapshot import build_snapshot
from policyengine.bundles import (
    Delivery,
    decode_framed,
    delivery_queue,
    encode_framed,
    open_delivery,
    seal_publication,
)
from policyengine.ope import RangeIndex
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.support.audiences import Audience, Plane
from tests.unit.distribution.stocks import QUOTE, handle, ordered

__all__ = ["ordered"]


def policy_of(held: Audience) -> ClientPolicy:
    return build_policy(held.bundles["stocks"])


def bench(agent: Audience, kept: tuple[Subscription, ...]) -> Workbench:
    snapshot = build_snapshot(agent.bundles["stocks"], sealing_key=agent.sealing)
    return Workbench(
        snapshot=snapshot,
        subscriptions=SubscriptionIndex.build(snapshot, kept, ranges=RangeIndex(None)),
        sealing_key=agent.sealing,
        signing_key=agent.signing,
        now=time.time(),
        oldest=0.0,
        seen=lambda key: False,
        random=SYSTEM_RANDOM,
    )


def subscribed(agent: Audience, client: Audience, name: str, text: str) -> tuple[Subscription, ...]:
    policy = policy_of(client)
    sealed = seal_wish(
        Wish.of("Quote", text), "subscribe", next(iter(policy.homes.values())),
        domain="stocks", client=name, request="1" * 32, issued=time.time(),
        signing_key=client.signing, asked=policy.blind.ask("Quote", text),
    )  # fmt: skip
    effects = handle_client_message(bench(agent, ()), encode_framed("subscribe", sealed))
    assert effects.refusal is None
    return effects.subscribed


def published(
    agent: Audience, client: Audience, name: str, kept: tuple[Subscription, ...], **values: Any
) -> dict[str, bytes]:
    policy, event = policy_of(client), {**QUOTE, **values}
    part = make_part(
        policy, policy.plan("Quote", event)[0], domain="stocks", publisher=name,
        publication="2" * 32, event_type="Quote", values=event, issued=time.time(),
    )  # fmt: skip
    assert part.attributes == {}
    home = next(iter(policy.homes.values()))
    sealed = seal_publication(
        part, signing_key=client.signing, recipient=home.sealing_key, agent=home.agent
    )
    effects = handle_client_message(bench(agent, kept), encode_framed("publication", sealed))
    assert effects.refusal is None
    return {one.queue: one.body for one in effects.outgoing}


def test_a_price_is_compared_by_the_agent_and_read_by_the_customer_alone(
    plane: Plane, ordered: Domain
) -> None:
    exchange, investor = handle("nasdaq"), handle("small-investor")
    seller, buyer = plane.audiences[f"client:{exchange}"], plane.audiences[f"client:{investor}"]
    agent = plane.audiences["agent:alpha"]
    kept = subscribed(agent, buyer, investor, "price > 10 && price <= 12")
    queue = delivery_queue(investor)
    assert queue not in published(agent, seller, exchange, kept, price=13)
    assert queue not in published(agent, seller, exchange, kept, price=10)
    kind, payload = decode_framed(published(agent, seller, exchange, kept, price=12)[queue])
    assert kind == "delivery"
    came: Delivery = open_delivery(
        payload, key=buyer.sealing, handle=investor, verify=lambda name: agent.signing.public
    )
    assert came.attributes == {}
    assert policy_of(buyer).blind.open(came).attributes["price"] == 12
