"""Who takes part in fault tests, what they may do, and the same said plainly for the judge.

Meters publish readings of zones. A tenant reads those of its own zone, a guard all of them as
long as it is appointed. Some of each are there to be revoked; the others stay to the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from brokers.simulation.chance import Chance

DOMAIN = "plant"
TYPE = "Reading"
ALARM = "Alarm"
"""A reading, too: it may travel on another overlay."""
AGENTS = {"alpha": "a", "beta": "a", "gamma": "a"}
LEASE_SECONDS = 10
_ATTRIBUTES = ("id", "zone", "value")


@dataclass(frozen=True)
class Cast:
    """How many of each kind take part.

    Args:
        meters: publishers.
        tenants: readers of a zone, each of its own.
        guards: readers of everything, by appointment.
        late: guards that are appointed only while the play is on.
        homes: agents by overlay, for one after the other in turn.
        alarms: the overlay on which alarms travel; "" where there are none.
    """

    meters: int = 3
    tenants: int = 6
    guards: int = 3
    late: int = 1
    homes: tuple[Mapping[str, str], ...] = tuple({AGENTS[name]: name} for name in sorted(AGENTS))
    alarms: str = ""

    def names(self, kind: str) -> list[str]:
        """The principals of a kind: `meter`, `tenant`, `guard` or `late`."""
        return [f"{kind}-{number}" for number in range(getattr(self, _FIELDS[kind]))]

    @property
    def subscribers(self) -> list[str]:
        """Everybody who reads."""
        return [name for kind in ("tenant", "guard", "late") for name in self.names(kind)]

    def homes_of(self, who: str) -> frozenset[str]:
        """The agents where a principal is at home."""
        return frozenset(self._home(int(who.rpartition("-")[2])).values())

    def _home(self, number: int) -> Mapping[str, str]:
        return self.homes[number % len(self.homes)]

    def may_read(self, who: str, event_type: str, values: Mapping[str, Any]) -> set[str] | None:
        """The plain policy: what a subscriber reads of an event, or None."""
        if event_type not in (TYPE, ALARM):
            return None
        mine = who.startswith(("guard", "late")) or values["zone"] == _zone(who)
        return set(_ATTRIBUTES) if mine else None

    def reading(self, seed: str, meter: str, number: int) -> dict[str, Any]:
        """The values of a meter's reading of this number."""
        chance = Chance(f"{seed}/{meter}/{number}")
        zone = _zone(chance.pick(self.names("tenant")))
        return {"id": f"{meter}/{number}", "zone": zone, "value": chance.below(1000)}

    def write(self, path: Path) -> Path:
        """The domain as a file that the control plane loads; returns where."""
        documents = [*self._catalog(), *self._people(), *_policies()]
        path.write_text(
            yaml.safe_dump_all([{"object": kind, **more} for kind, more in documents]),
            encoding="utf-8",
        )
        return path

    def _catalog(self) -> list[tuple[str, dict[str, Any]]]:
        agents = sorted({name for home in self.homes for name in home.values()})
        group = {"domain": DOMAIN, "name": "places", "members": agents, "keys": ["place"]}
        found = [*_catalog(), ("trust-group", group)]
        if self.alarms:
            named = {"domain": DOMAIN, "name": ALARM, "title": "An alarm", "parent": TYPE}
            groups = [{"overlay": self.alarms, "attributes": list(_ATTRIBUTES)}]
            found.append(("event-type", named))
            found.append(("split", {"domain": DOMAIN, "event_type": ALARM, "groups": groups}))
        return found

    def _people(self) -> list[tuple[str, dict[str, Any]]]:
        found: list[tuple[str, dict[str, Any]]] = []
        for kind in _FIELDS:
            for number, name in enumerate(self.names(kind)):
                about = {"type": "guard" if kind == "late" else kind}
                if kind == "tenant":
                    about["zone"] = _zone(name)
                found.append(
                    (
                        "principal",
                        {
                            "domain": DOMAIN,
                            "name": name,
                            "kind": "publisher" if kind == "meter" else "subscriber",
                            "attributes": about,
                            "agents": dict(self._home(number)),
                        },
                    )
                )
        for name in self.names("guard"):
            appointed = {"domain": DOMAIN, "principal": name, "name": "on_guard"}
            found.append(("appointment", {**appointed, "starts": "2026-01-01T00:00:00Z"}))
        return found


_FIELDS = {"meter": "meters", "tenant": "tenants", "guard": "guards", "late": "late"}


def _zone(name: str) -> str:
    return name.replace("tenant", "zone")


def _catalog() -> list[tuple[str, dict[str, Any]]]:
    kinds = {"type": "enum", "values": ["meter", "tenant", "guard"]}
    return [
        ("domain", {"name": DOMAIN, "title": "A plant", "lease_seconds": LEASE_SECONDS}),
        ("attribute-key", {"domain": DOMAIN, "name": "place", "title": "Where it was read"}),
        ("subject-attribute", {"domain": DOMAIN, "name": "type", "type": kinds}),
        ("subject-attribute", {"domain": DOMAIN, "name": "zone", "type": {"type": "string"}}),
        (
            "event-type",
            {
                "domain": DOMAIN,
                "name": TYPE,
                "title": "A reading",
                "attributes": [
                    {"name": "id", "type": {"type": "string"}},
                    {"name": "zone", "type": {"type": "string"}, "keys": ["place"]},
                    {"name": "value", "type": {"type": "int", "min": 0, "max": 1000}},
                ],
            },
        ),
        (
            "role",
            {
                "domain": DOMAIN,
                "name": "watch",
                "title": "Watch",
                "rules": [
                    {"role": "watch", "appointments": ["on_guard"], "membership": ["on_guard"]}
                ],
            },
        ),
    ]


def _policies() -> list[tuple[str, dict[str, Any]]]:
    rules = {
        "meters publish": ("publish", 'subject.type == "meter"'),
        "own zone": ("subscribe", 'subject.type == "tenant" && subject.zone == event.zone'),
        "watch": ("subscribe", 'subject.role == "watch"'),
    }
    return [
        (
            "policy",
            {
                "domain": DOMAIN,
                "name": name,
                "title": name.capitalize(),
                "action": action,
                "event_type": TYPE,
                "expression": expression,
            },
        )
        for name, (action, expression) in rules.items()
    ]
