"""What crash tests play on: an organisation, its events by number, and what the plain text says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokers.simulation.chance import Chance
from policyengine.attributes import AttributeType
from policyengine.events import TypeSpec
from tests.support.data_plane import Agent, Client, Organisation, Policy, spec

SECRET = "TAIL-NUMBER-NOBODY-LOGS"
PUBLISHER = "p-airport"
REVOKED = "p-faa"
LASTING = ("p-ua", "p-dl")
SUBSCRIPTIONS = {
    "p-ua": (("Flight", "delay > 60"), ("Boarding", "")),
    "p-dl": (("Flight", ""), ("Boarding", "")),
    REVOKED: (("Flight", ""),),
}
_SPLIT = [
    {"overlay": "a", "attributes": ["carrier", "number", "delay"]},
    {"overlay": "b", "attributes": ["tail"]},
]


def organisation(*, suffix: str = "") -> Organisation:
    """Two overlays, three agents; flights travel in two parts, boardings in one."""
    text, number = AttributeType("string"), AttributeType("int", minimum=0, maximum=10**9)
    carrier, counted = spec("carrier", text), spec("number", number)
    types = (
        TypeSpec(
            "Flight",
            None,
            (carrier, counted, spec("delay", number), spec("tail", text, "tail-key")),
        ),
        TypeSpec("Boarding", None, (carrier, counted)),
    )
    airline = 'subject.role == "airline" && subject.company == "{}"'
    ua, dl = airline.format("UA"), airline.format("DL")
    airport, authority = 'subject.role == "airport"', 'subject.role == "authority"'
    policies = (
        Policy("publish-flights", "publish", "Flight", airport),
        Policy("publish-boardings", "publish", "Boarding", airport),
        Policy("ua-flights", "subscribe", "Flight", ua, 'event.carrier == "UA"'),
        Policy("ua-boardings", "subscribe", "Boarding", ua, 'event.carrier == "UA"'),
        Policy(
            "dl-flights", "subscribe", "Flight", dl, 'event.carrier == "DL"',
            ("carrier", "number", "delay"),
        ),
        Policy("late", "subscribe", "Flight", authority, "event.delay > 120"),
    )  # fmt: skip
    alpha, beta, gamma = (name + suffix for name in ("alpha", "beta", "gamma"))
    at_alpha, at_beta = {"a": alpha, "b": gamma}, {"a": beta, "b": gamma}
    clients = (
        Client(PUBLISHER + suffix, {"role": "airport"}, at_alpha),
        Client("p-ua" + suffix, {"role": "airline", "company": "UA"}, at_alpha),
        Client("p-dl" + suffix, {"role": "airline", "company": "DL"}, at_beta),
        Client(REVOKED + suffix, {"role": "authority"}, at_beta),
    )
    return Organisation(
        domain="flights",
        types=types,
        policies=policies,
        agents={name: Agent(name, "b" if name == gamma else "a") for name in (alpha, beta, gamma)},
        clients={client.handle: client for client in clients},
        key_holders={"tail-key": (alpha, beta, gamma)},
        splits={"Flight": _SPLIT},
        # A part may wait for the other as long as a broker is away.
        window_seconds=600,
    )


@dataclass(frozen=True)
class Numbered:
    """The event of a number."""

    type: str
    values: Mapping[str, Any]


def event(seed: str, number: int) -> Numbered:
    """The event of a number: the same for who publishes it and who checks it."""
    chance = Chance(f"{seed}/event/{number}")
    values: dict[str, Any] = {"carrier": chance.pick(("UA", "DL", "AA")), "number": number}
    if chance.below(3) == 0:
        return Numbered("Boarding", values)
    return Numbered("Flight", {**values, "delay": chance.below(300), "tail": f"{SECRET}-{number}"})


def wanted(
    organised: Organisation, handle: str, short: str, numbered: Numbered
) -> dict[str, Any] | None:
    """What a subscriber must be shown of an event, by the plain text; None: nothing at all."""
    readable = organised.readable(handle, numbered.type, numbered.values)
    if readable is None or numbered.type not in dict(SUBSCRIPTIONS[short]):
        return None
    if short == "p-ua" and numbered.type == "Flight" and not numbered.values["delay"] > 60:
        return None
    return {name: numbered.values[name] for name in readable}
