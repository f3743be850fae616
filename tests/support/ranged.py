"""Flights whose delays and tails agents compare without reading them."""

from __future__ import annotations

from collections.abc import Mapping

from policyengine.attributes import AttributeType
from policyengine.events import AttributeSpec, TypeSpec
from policyengine.ope.keys import OrderScheme
from tests.support.data_plane import Agent, Client, Organisation, Policy, spec

NUMBER = AttributeType("int", minimum=-1000, maximum=10_000)
TEXT = AttributeType("string")
CURRENT: Mapping[int, tuple[str, OrderScheme]] = {1: ("current", "sbm1")}


def ordered(name: str, kind: AttributeType) -> AttributeSpec:
    """An attribute that clients hide and agents compare."""
    return AttributeSpec(name, kind, (), "confidential", "order-preserving")


def ranged(
    epochs: Mapping[int, tuple[str, OrderScheme]] = CURRENT, *, suffix: str = ""
) -> Organisation:
    """Two agents on one overlay; publishers at alpha, subscribers at both.

    Airlines read everything, the public carrier and delay; a kiosk writes carrier and delay.

    Args:
        epochs: of the order-preserving keys: number -> state and scheme.
        suffix: appended to all names of agents and clients.
    """
    types = (
        TypeSpec(
            "Flight",
            None,
            (spec("carrier", TEXT), ordered("delay", NUMBER), ordered("tail", TEXT)),
        ),
        TypeSpec("Departure", "Flight", (spec("gate", TEXT), ordered("wait", NUMBER))),
    )
    policies = (
        Policy("airports-publish", "publish", "Flight", 'subject.role == "airport"'),
        Policy(
            "kiosk-publish",
            "publish",
            "Flight",
            'subject.role == "kiosk"',
            attributes=("carrier", "delay"),
        ),
        Policy("airlines", "subscribe", "Flight", 'subject.role == "airline"'),
        Policy(
            "public",
            "subscribe",
            "Flight",
            'subject.role == "public"',
            attributes=("carrier", "delay"),
        ),
    )
    alpha, beta = "alpha" + suffix, "beta" + suffix
    clients = [
        Client("p-airport" + suffix, {"role": "airport"}, {"a": alpha}),
        Client("p-kiosk" + suffix, {"role": "kiosk"}, {"a": alpha}),
        Client("p-near" + suffix, {"role": "airline"}, {"a": alpha}),
        Client("p-far" + suffix, {"role": "airline"}, {"a": beta}),
        Client("p-public" + suffix, {"role": "public"}, {"a": beta}),
        Client("p-nobody" + suffix, {"role": "guest"}, {"a": beta}),
    ]
    return Organisation(
        domain="flights",
        types=types,
        policies=policies,
        agents={name: Agent(name, "a") for name in (alpha, beta)},
        clients={client.handle: client for client in clients},
        order_epochs=dict(epochs),
    )
