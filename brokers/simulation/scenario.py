"""Scenarios: a document that says how many agents, clients and events, and what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from brokers.simulation.chance import Chance
from brokers.simulation.network import Weather
from brokers.simulation.plan import AgentSite, ClientSite, Plan, Rule
from brokers.simulation.trouble import Trouble, arrange
from brokers.simulation.world import Conditions, World
from policyengine.attributes import AttributeType, Value
from policyengine.events import AttributeSpec, TypeSpec

Progress = Callable[[str, float], None]
"""Called with what is going on and how much of it is done, from 0 to 1."""

_SEVERITIES: Final = 10
_PLACES: Final = 20
_ROLES: Final = ("public", "police", "trainer")


class ScenarioError(Exception):
    """A scenario that cannot be played; the text says what is wrong, for a person."""


@dataclass(frozen=True)
class Scenario:
    """A scenario of incidents that police officers, trainers and the public subscribe to.

    Args:
        agents: how many.
        publishers: how many clients publish.
        subscribers: how many clients subscribe, each with one filter.
        events: how many are published.
        seconds: virtual time over which they are published.
        keyless: agents (the last ones) that hold no attribute key.
        loss: probability that a connection breaks while something is sent.
        shortest_delay: seconds on the way between a node and a broker, at least.
        longest_delay: the same, at most.
        clock_error: most seconds by which a wall clock is wrong.
        agent_crashes: times that some agent falls while events are published.
        client_crashes: times that some client falls.
        broker_crashes: times that some broker falls.
        partitions: times that half of the nodes lose a broker.
        longest_outage: most seconds that something stays away.
    """

    agents: int = 10
    publishers: int = 5
    subscribers: int = 100
    events: int = 100
    seconds: float = 60.0
    keyless: int = 0
    loss: float = 0.0
    shortest_delay: float = 0.001
    longest_delay: float = 0.02
    clock_error: float = 0.0
    agent_crashes: int = 0
    client_crashes: int = 0
    broker_crashes: int = 0
    partitions: int = 0
    longest_outage: float = 20.0

    @classmethod
    def from_json(cls, document: object) -> Scenario:
        """Read a scenario.

        Raises:
            ScenarioError: an unknown name, a value of the wrong kind or out of range.
        """
        if not isinstance(document, dict):
            raise ScenarioError("a scenario is an object of names and numbers")
        known = {one.name: type(one.default) for one in fields(cls)}
        for name, value in document.items():
            if name not in known:
                raise ScenarioError(f"`{name}` is no setting of a scenario")
            whole = known[name] is int
            right = isinstance(value, int if whole else int | float)
            if isinstance(value, bool) or not right or value < 0:
                kind = "a whole number" if whole else "a number"
                raise ScenarioError(f"`{name}` must be {kind} from 0, not `{value}`")
        return cls(**document)._checked()

    def _checked(self) -> Scenario:
        for name in ("agents", "publishers"):
            if getattr(self, name) < 1:
                raise ScenarioError(f"`{name}` must be at least 1")
        if self.keyless >= self.agents:
            raise ScenarioError("`keyless` must be fewer than `agents`")
        if self.loss > 1:
            raise ScenarioError("`loss` is a probability, at most 1")
        if self.shortest_delay > self.longest_delay:
            raise ScenarioError("`shortest_delay` must not be above `longest_delay`")
        return self

    def to_json(self) -> dict[str, Any]:
        """All settings."""
        return asdict(self)


NAMED: Final[Mapping[str, Scenario]] = {
    "calm": Scenario(),
    "storm": Scenario(
        loss=0.01, longest_delay=0.2, clock_error=30.0, agent_crashes=10, client_crashes=20,
        broker_crashes=2, partitions=4,
    ),
    "city": Scenario(
        agents=200, publishers=20, subscribers=2000, events=100, keyless=20, agent_crashes=20,
        partitions=2,
    ),
}  # fmt: skip
"""Scenarios by name."""


def load(name: str) -> Scenario:
    """A named scenario, or one from a JSON file.

    Raises:
        ScenarioError: there is none of that name, or the file holds no scenario.
    """
    if name in NAMED:
        return NAMED[name]
    path = Path(name)
    if not path.is_file():
        known = ", ".join(f"`{one}`" for one in NAMED)
        raise ScenarioError(f"`{name}` is neither a file nor one of {known}")
    try:
        return Scenario.from_json(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ScenarioError(f"`{name}` is not JSON: {error}") from None


def make_plan(scenario: Scenario, chance: Chance) -> Plan:
    """The domain of a scenario."""
    text = AttributeType("string")
    severity = AttributeType("int", minimum=1, maximum=_SEVERITIES)
    agents = tuple(AgentSite(f"agent-{n}", "city") for n in range(scenario.agents))
    trusted = tuple(site.name for site in agents[: scenario.agents - scenario.keyless])

    def client(handle: str, role: str) -> ClientSite:
        home = agents[chance.below(len(agents))].name
        return ClientSite(handle, {"subject.role": role}, {"city": home})

    public, police = ("severity",), ("severity", "location")
    return Plan(
        domain="incidents",
        types=(
            TypeSpec(
                "Incident",
                None,
                (
                    AttributeSpec("severity", severity, ()),
                    AttributeSpec("location", text, ("police",)),
                    AttributeSpec("drill", AttributeType("bool"), ("training",)),
                ),
            ),
        ),
        schema={"subject.role": text},
        rules=(
            Rule("report", "publish", "Incident", 'subject.role == "desk"'),
            Rule("public", "subscribe", "Incident", 'subject.role == "public"', public),
            Rule("police", "subscribe", "Incident", 'subject.role == "police"', police),
            Rule("training", "subscribe", "Incident", 'subject.role == "trainer"'),
        ),
        agents=agents,
        clients=(
            *(client(f"desk-{n}", "desk") for n in range(scenario.publishers)),
            *(client(f"reader-{n}", chance.pick(_ROLES)) for n in range(scenario.subscribers)),
        ),
        key_holders={"police": trusted, "training": trusted},
    )


def play(scenario: Scenario, seed: str, progress: Progress | None = None) -> World:
    """Play a scenario to its end: everything published, healed and settled.

    Args:
        scenario: what to play.
        seed: the same seed gives the same history.
        progress: told how far it is.

    Raises:
        TimeoutError: something stays open, which no scenario should bring about.
    """
    tell = progress or (lambda _what, _done: None)
    chance = Chance(seed).child("scenario")
    weather = Weather((scenario.shortest_delay, scenario.longest_delay), scenario.loss)
    conditions = Conditions(weather=weather, clock_error=scenario.clock_error)
    world = World(make_plan(scenario, chance), seed, conditions)
    tell("starting", 0.0)
    world.start_and_settle()
    tell("subscribing", 0.0)
    for number in range(scenario.subscribers):
        world.subscribe(f"reader-{number}", "Incident", _filter(world, number, chance))
    world.settle(600.0)
    quiet = world.timeline.now + arrange(world, _trouble(scenario))
    for number in range(scenario.events):
        tell("publishing", number / scenario.events)
        world.publish(f"desk-{chance.below(scenario.publishers)}", "Incident", _incident(chance))
        world.run(scenario.seconds / scenario.events)
    tell("settling", 0.0)
    world.run(max(0.0, quiet - world.timeline.now))
    world.settle(600.0)
    tell("done", 1.0)
    return world


def _trouble(scenario: Scenario) -> Trouble:
    return Trouble(
        agents=scenario.agent_crashes,
        clients=scenario.client_crashes,
        brokers=scenario.broker_crashes,
        partitions=scenario.partitions,
        seconds=scenario.seconds,
        longest=max(0.1, scenario.longest_outage),
    )


def _incident(chance: Chance) -> dict[str, Value]:
    return {
        "severity": 1 + chance.below(_SEVERITIES),
        "location": f"place-{chance.below(_PLACES)}",
        "drill": chance.happens(0.2),
    }


def _filter(world: World, number: int, chance: Chance) -> str:
    role = world.organisation.clients[f"reader-{number}"].subject["subject.role"]
    if role == "public":
        return f"severity >= {1 + chance.below(_SEVERITIES)}"
    place = f'location == "place-{chance.below(_PLACES)}"'
    return place if role == "police" else f"{place} && drill"


def smaller(scenario: Scenario, **changes: Any) -> Scenario:
    """A scenario with some settings changed.

    Raises:
        ScenarioError: as `Scenario.from_json`.
    """
    return Scenario.from_json(replace(scenario, **changes).to_json())
