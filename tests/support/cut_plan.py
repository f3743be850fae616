"""Who takes part in a play of partitions, what they may do, and what a seed has cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokers.simulation.chance import Chance
from policyengine.attributes import AttributeType
from policyengine.events import TypeSpec
from tests.support.data_plane import Agent, Client, Organisation, Policy, spec

DOMAIN, TYPE = "plant", "Reading"
AGENTS = ("alpha", "beta", "gamma")
METERS = ("p-meter-0", "p-meter-1")
KINDS = ("there", "back", "both", "half-open")
CLIENTS = "clients"
LEASE_SECONDS = 10


@dataclass(frozen=True)
class Cut:
    """A partition.

    Args:
        number: its place in the plan.
        victim: who is cut off: an agent, or all clients.
        kind: one of `KINDS`; `there` and `back` as the victim sees it.
        pause: seconds before it.
        seconds: how long it lasts.
        reset: whether its connections are reset afterwards, and what they held is lost.
        revokes: whether somebody at home at the victim is revoked meanwhile.
    """

    number: int
    victim: str
    kind: str
    pause: float
    seconds: float
    reset: bool
    revokes: bool


def plan(seed: str, count: int) -> list[Cut]:
    """What is cut, and when: the same for the same seed."""
    chance = Chance(f"{seed}/cuts")
    cuts: list[Cut] = []
    so_far = {True: 0, False: 0}
    for number in range(count):
        one = chance.child(str(number))
        # Three of four cuts are an agent's, and every second one of these outlasts its lease.
        turn, place = divmod(number, 4)
        victim = CLIENTS if place == 3 else AGENTS[place]
        outlasts = victim != CLIENTS and (turn + place) % 2 == 0
        cuts.append(
            Cut(
                number,
                victim,
                # Long ones and short ones go through all kinds, each for themselves.
                KINDS[so_far[outlasts] % len(KINDS)],
                pause=one.between(0.2, 1.5),
                seconds=one.between(2.0, 3.5) + (LEASE_SECONDS if outlasts else 0),
                reset=one.happens(0.5),
                revokes=outlasts,
            )
        )
        so_far[outlasts] += 1
    return cuts


def lanes(cuts: list[Cut]) -> list[list[Cut]]:
    """Cuts that may be at the same time: those of one victim are in one lane, one by one."""
    found: dict[str, list[Cut]] = {name: [] for name in (*AGENTS, CLIENTS)}
    for cut in cuts:
        found[cut.victim].append(cut)
    return [lane for lane in found.values() if lane]


def organisation(readers: int, *, suffix: str = "") -> Organisation:
    """Meters publish readings of zones; so many readers at every agent read their own zone."""
    text = AttributeType("string")
    number = AttributeType("int", minimum=0, maximum=10**9)
    names = reader_names(readers)
    policies = [Policy("meters", "publish", TYPE, 'subject.role == "meter"')]
    policies += [
        Policy(
            f"zone-{zone}", "subscribe", TYPE,
            f'subject.role == "reader" && subject.company == "{zone}"', f'event.zone == "{zone}"',
        )
        for zone in names
    ]  # fmt: skip
    homes = [*zip(METERS, AGENTS, strict=False), *((n, a) for n, a in names.items())]
    clients = [
        Client(
            name + suffix,
            {"role": "meter"} if name in METERS else {"role": "reader", "company": name},
            {"a": home + suffix},
        )
        for name, home in homes
    ]
    agents = tuple(name + suffix for name in AGENTS)
    return Organisation(
        domain=DOMAIN,
        types=(
            TypeSpec(
                TYPE, None, (spec("id", text), spec("zone", text, "place"), spec("value", number))
            ),
        ),
        policies=tuple(policies),
        agents={name: Agent(name, "a") for name in agents},
        clients={client.handle: client for client in clients},
        key_holders={"place": agents},
        lease_seconds=LEASE_SECONDS,
        window_seconds=600,
    )


def reader_names(each: int) -> dict[str, str]:
    """Reader -> the agent where it is at home; the first of each agent is never revoked."""
    return {f"p-reader-{n}-{agent}": agent for n in range(each) for agent in AGENTS}


def may_read(who: str, event_type: str, values: Mapping[str, Any]) -> set[str] | None:
    """The plain policy."""
    return set(values) if event_type == TYPE and values["zone"] == who else None
