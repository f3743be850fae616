"""What a seed has killed in a fault test, and when: strikes in lanes that go on side by side."""

from __future__ import annotations

from dataclasses import dataclass

from brokers.simulation.chance import Chance
from tests.support.fault_domain import AGENTS, Cast
from tests.support.fault_site import ANSWERING

LANES = {
    "servers": ("postgresql", "redis", "activemq"),
    "processes": ("worker", "relay", "beat", "serve", "authority"),
    "agents": ("agent",),
}
DRIVER = "driver"
SPARE = 2
"""Tenants for runs of Spark that are over before anybody kills their driver."""
KINDS = (*(kind for kinds in LANES.values() for kind in kinds), DRIVER)
_PARTS = {"serve": ANSWERING, "agent": tuple(sorted(AGENTS))}
_PAUSES = {"servers": (0.5, 4.0), "processes": (0.3, 2.5), "agents": (3.0, 12.0)}


@dataclass(frozen=True)
class Strike:
    """One kill.

    Args:
        kind: one of `KINDS`.
        part: its name at the site.
        pause: seconds before it.
        away: seconds until the part is started again.
        at_work: whether everything that was killed before is waited for first.
    """

    kind: str
    part: str
    pause: float
    away: float
    at_work: bool


def lanes(seed: str, each: int) -> list[list[Strike]]:
    """So many kills of each kind, the drivers of Spark apart, as each lane has them in turn."""
    found = []
    for lane, kinds in LANES.items():
        chance = Chance(f"{seed}/{lane}")
        drawn = [kind for kind in kinds for _ in range(each)]
        found.append([_strike(kind, lane, chance) for kind in chance.sample(drawn, len(drawn))])
    return found


def _strike(kind: str, lane: str, chance: Chance) -> Strike:
    return Strike(
        kind,
        chance.pick(_PARTS.get(kind, (kind,))),
        pause=chance.between(*_PAUSES[lane]),
        away=chance.between(0.0, 2.0),
        at_work=not chance.happens(0.3),
    )


def cast(each: int) -> Cast:
    """Enough of everybody: for every killed driver a tenant or a meter goes."""
    return Cast(meters=3, tenants=4 + each + SPARE, guards=3, late=1)
