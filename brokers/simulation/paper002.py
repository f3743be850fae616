"""The simulation of paper 002, section 6: attribute encryption against whole-event encryption.

The case study's events go through the agents' own code twice. Under *attributes*, an event
is one publication whose attributes are under keys of their own. Under *whole events*, it is
one publication for each of the three security domains, as the paper compares with. What is
counted is messages with events between agents ("event hops").

The paper does not say how its values are distributed. Ours are ten severities and
twenty-five places, equally likely: of such round figures those which come near the paper's
totals at 1,000 subscribers. Delays do not change the counts, so its network of 1,000 IP
routers is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from brokers.simulation.chance import Chance
from brokers.simulation.network import Weather
from brokers.simulation.plan import AgentSite, ClientSite, Plan, Rule
from brokers.simulation.world import Conditions, World
from policyengine.attributes import AttributeType, Value
from policyengine.bundles import delivery_queue
from policyengine.events import AttributeSpec, TypeSpec

OVERLAY: Final = "city"
GROUPS: Final = ("S0", "S1", "S2")
SHARES: Final = (0.60, 0.35, 0.05)
"""Of the subscriptions: public information services, police officers, police trainers."""
_SEVERITIES: Final = 10
_PLACES: Final = 25
_SEEN: Final = (("severity",), ("severity", "location"), ("severity", "location", "isDrill"))
_KEYS: Final = {"location": "police", "isDrill": "training"}
_SLICE: Final = 0.05
_PATIENCE: Final = 600


@dataclass(frozen=True)
class Study:
    """The size of the study; the paper's by default.

    Args:
        agents: event brokers.
        publishers: clients that publish.
        events: how many they publish.
        runs: how often each point is simulated, on seeds of its own.
    """

    agents: int = 50
    publishers: int = 10
    events: int = 1000
    runs: int = 1


@dataclass(frozen=True)
class Subscriber:
    """One subscription of the study.

    Args:
        handle: of its client.
        home: its agent.
        group: 0, 1 or 2, as in `GROUPS`.
        wants: attribute name -> the value that it filters on.
    """

    handle: str
    home: str
    group: int
    wants: Mapping[str, Value]

    def meets(self, values: Mapping[str, Value]) -> bool:
        """Whether an event has the values that it filters on."""
        return all(values[name] == value for name, value in self.wants.items())

    @property
    def filter(self) -> str:
        """Its filter in the policy language."""
        return " && ".join(f"{name} == {_literal(value)}" for name, value in self.wants.items())


@dataclass(frozen=True)
class Setting:
    """Who is there and what happens in one run; the same for both ways of encrypting.

    Args:
        agents: names.
        publishers: handle -> home agent.
        subscribers: see `Subscriber`.
        events: (publisher, values).
    """

    agents: tuple[str, ...]
    publishers: Mapping[str, str]
    subscribers: tuple[Subscriber, ...]
    events: tuple[tuple[str, Mapping[str, Value]], ...]

    @classmethod
    def draw(cls, study: Study, subscribers: int, chance: Chance) -> Setting:
        """Draw a setting with so many subscribers."""
        agents = tuple(f"agent-{number}" for number in range(study.agents))
        publishers = {f"desk-{n}": chance.pick(agents) for n in range(study.publishers)}
        groups = _groups(subscribers)
        found = tuple(
            Subscriber(f"reader-{n}", chance.pick(agents), group, _wants(group, chance))
            for n, group in enumerate(groups)
        )
        names = sorted(publishers)
        events = tuple((chance.pick(names), _event(chance)) for _ in range(study.events))
        return cls(agents, publishers, found, events)


@dataclass(frozen=True)
class Tally:
    """What one way of encrypting costs.

    Args:
        hops: group -> messages with events between agents. Under attributes, the group
            says what the receiving agent must decrypt for its own subscribers: nothing
            (S0), the police attribute (S1), that and the training one (S2). Under whole
            events it is the instance's.
        deliveries: messages with events to subscribers.
    """

    hops: Mapping[str, float]
    deliveries: float

    @property
    def total(self) -> float:
        """All hops."""
        return sum(self.hops.values())


@dataclass(frozen=True)
class Found:
    """One point: so many subscribers, averaged over the runs."""

    subscribers: int
    attributes: Tally
    whole: Tally

    @property
    def saved(self) -> float:
        """By how many per cent attribute encryption needs fewer messages."""
        return 100 * (1 - self.attributes.total / self.whole.total) if self.whole.total else 0.0


def simulate(study: Study, subscribers: int, seed: str) -> Found:
    """Simulate one point both ways.

    Args:
        study: its size.
        subscribers: how many.
        seed: the same seed gives the same counts.

    Raises:
        TimeoutError: something stays open, which must not happen.
        RuntimeError: the agents delivered something else than the filters say.
    """
    tallies: dict[bool, list[Tally]] = {True: [], False: []}
    for number in range(study.runs):
        name = f"{seed}/{subscribers}/{number}"
        setting = Setting.draw(study, subscribers, Chance(name).child("setting"))
        for whole in (False, True):
            tallies[whole].append(_run(setting, name, whole=whole))
    return Found(subscribers, _mean(tallies[False]), _mean(tallies[True]))


# drawing


def _groups(subscribers: int) -> list[int]:
    """S0, S1 and S2 in their shares; what rounding leaves over is S0."""
    trainers = round(SHARES[2] * subscribers)
    officers = round(SHARES[1] * subscribers)
    return [2] * trainers + [1] * officers + [0] * (subscribers - trainers - officers)


def _wants(group: int, chance: Chance) -> dict[str, Value]:
    event = _event(chance)
    tested = (("severity",), ("location",), ("isDrill", "location"))[group]
    return {name: event[name] for name in tested}


def _event(chance: Chance) -> dict[str, Value]:
    return {
        "severity": 1 + chance.below(_SEVERITIES),
        "location": f"place-{chance.below(_PLACES)}",
        "isDrill": chance.happens(0.5),
    }


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


# the domain


def _kind(group: int, *, whole: bool) -> str:
    return f"PoliceEvent{GROUPS[group]}" if whole else "PoliceEvent"


def plan_of(setting: Setting, *, whole: bool) -> Plan:
    """The domain of a setting.

    Args:
        setting: who is there.
        whole: for whole-event encryption, a type for each security domain.
    """
    kinds: dict[str, AttributeType] = {
        "severity": AttributeType("int", minimum=1, maximum=_SEVERITIES),
        "location": AttributeType("string"),
        "isDrill": AttributeType("bool"),
    }

    def spec(name: str, group: int) -> AttributeSpec:
        # A whole event is under the one key of its security domain.
        own = ((), ("police",), ("training",))[group]
        keys = own if whole else tuple(key for at, key in _KEYS.items() if at == name)
        return AttributeSpec(name, kinds[name], keys)

    types = tuple(
        TypeSpec(_kind(group, whole=whole), None, tuple(spec(name, group) for name in _SEEN[group]))
        for group in (range(len(GROUPS)) if whole else (2,))
    )
    return Plan(
        domain="police",
        types=types,
        schema={"subject.role": AttributeType("string")},
        rules=(
            *(
                Rule(f"publish-{n}", "publish", one.name, 'subject.role == "desk"')
                for n, one in enumerate(types)
            ),
            *(
                Rule(
                    f"read-{name}".lower(),
                    "subscribe",
                    _kind(group, whole=whole),
                    f'subject.role == "{name}"',
                    _SEEN[group],
                )
                for group, name in enumerate(GROUPS)
            ),
        ),
        agents=tuple(AgentSite(name, OVERLAY) for name in setting.agents),
        clients=(
            *(
                ClientSite(handle, {"subject.role": "desk"}, {OVERLAY: home})
                for handle, home in setting.publishers.items()
            ),
            *(
                ClientSite(one.handle, {"subject.role": GROUPS[one.group]}, {OVERLAY: one.home})
                for one in setting.subscribers
            ),
        ),
        key_holders=dict.fromkeys(_KEYS.values(), setting.agents),
    )


# running


class _Count:
    """Counts messages between agents, and to subscribers, for the event under way."""

    def __init__(self, setting: Setting, *, whole: bool) -> None:
        self._whole = whole
        self._local: dict[str, list[Subscriber]] = {}
        for one in setting.subscribers:
            self._local.setdefault(one.home, []).append(one)
        self._readers = {delivery_queue(one.handle): one for one in setting.subscribers}
        self.hops: Counter[str] = Counter()
        self.deliveries = 0
        self.wrong = 0
        self._values: Mapping[str, Value] = {}
        self._instance = 0

    def begin(self, values: Mapping[str, Value], instance: int) -> None:
        """The next event, or the next instance of it."""
        self._values, self._instance = values, instance

    def watch(self, sender: str, kind: str, queue: str) -> None:
        """A message came to the broker."""
        if kind == "hop":
            receiver = queue.split(".")[2]
            if receiver != sender:
                self.hops[GROUPS[self._group(receiver)]] += 1
        elif kind == "deliver" and queue in self._readers:
            reader = self._readers[queue]
            self.deliveries += 1
            here = not self._whole or reader.group == self._instance
            self.wrong += not (here and reader.meets(self._values))

    def _group(self, agent: str) -> int:
        if self._whole:
            return self._instance
        local = self._local.get(agent, ())
        return max((one.group for one in local if one.meets(self._values)), default=0)


def _run(setting: Setting, seed: str, *, whole: bool) -> Tally:
    weather = Weather(delay=(0.0005, 0.002))
    conditions = Conditions(weather=weather, keep_history=False)
    world = World(plan_of(setting, whole=whole), f"{seed}/{whole}", conditions)
    world.start_and_settle()
    for one in setting.subscribers:
        world.subscribe(one.handle, _kind(one.group, whole=whole), one.filter)
    world.settle()
    count = _Count(setting, whole=whole)
    broker = world.brokers[OVERLAY]
    broker.watch(count.watch)
    # Subscribers are away from here on; what is for them is counted and thrown away.
    readers = {delivery_queue(one.handle) for one in setting.subscribers}
    broker.discard(readers.__contains__)
    for one in setting.subscribers:
        world.clients[one.handle].crash()
    for publisher, values in setting.events:
        for group in range(len(GROUPS)) if whole else (2,):
            count.begin(values, group)
            seen = {name: values[name] for name in _SEEN[group]}
            _publish(world, publisher, _kind(group, whole=whole), seen)
    expected = sum(one.meets(values) for _, values in setting.events for one in setting.subscribers)
    if count.wrong or count.deliveries != expected:
        raise RuntimeError(f"{count.deliveries} deliveries instead of {expected}")
    return Tally({name: count.hops[name] for name in GROUPS}, count.deliveries)


def _publish(world: World, publisher: str, kind: str, values: Mapping[str, Value]) -> None:
    """Publish an event and wait until it is wherever it goes."""
    publication = world.publish(publisher, kind, values)
    broker = world.brokers[OVERLAY]
    for _ in range(_PATIENCE):
        world.run(_SLICE)
        if publication.state == "accepted" and broker.idle:
            return
    raise TimeoutError(f"an event stayed `{publication.state}`")


def _mean(tallies: list[Tally]) -> Tally:
    runs = len(tallies)
    hops = {name: sum(one.hops[name] for one in tallies) / runs for name in GROUPS}
    return Tally(hops, sum(one.deliveries for one in tallies) / runs)
