"""A whole simulation: one domain, its brokers, agents and clients on one virtual clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from brokers.simulation.agent import SimulatedAgent
from brokers.simulation.chance import Chance
from brokers.simulation.client import Publication, SimulatedClient
from brokers.simulation.control import ControlPlane
from brokers.simulation.history import History
from brokers.simulation.network import MemoryBroker, Weather
from brokers.simulation.node import Node, Surroundings
from brokers.simulation.organisation import Organisation
from brokers.simulation.plan import Plan
from brokers.simulation.timeline import Timeline
from policyengine.attributes import Value

CONTROL = "control"
_SLICE = 5.0


@dataclass(frozen=True)
class Conditions:
    """How the world of a simulation is.

    Args:
        weather: of the network.
        clock_error: most seconds by which a node's wall clock is wrong, either way.
        client_lease_interval: seconds between two requests of a client for the signed time.
        keep_history: whether the history's lines are kept.
    """

    weather: Weather = field(default_factory=Weather)
    clock_error: float = 0.0
    client_lease_interval: float = 60.0
    keep_history: bool = True


class World:
    """A simulation. Two worlds of one plan, seed and conditions have the same history.

    Args:
        plan: the domain in plain.
        seed: any text.
        conditions: how the world is.
    """

    def __init__(self, plan: Plan, seed: str, conditions: Conditions | None = None) -> None:
        conditions = conditions or Conditions()
        self.chance = Chance(seed)
        self.timeline = Timeline()
        self.history = History(self.timeline, keep=conditions.keep_history)
        self.organisation = Organisation(plan, self.chance.child("organisation"))
        names = (CONTROL, *self.organisation.overlays)
        self.brokers = {name: MemoryBroker(name, self.timeline) for name in names}
        around = Surroundings(
            self.timeline, self.history, self.brokers, conditions.weather, self.chance
        )
        clocks = self.chance.child("clocks")
        error = conditions.clock_error

        def wrong() -> float:
            return clocks.between(-error, error) if error else 0.0

        self.control = ControlPlane(self.organisation, around)
        self.agents = {
            site.name: SimulatedAgent(site, self.organisation, around, wrong())
            for site in plan.agents
        }
        self.clients = {
            site.handle: SimulatedClient(
                site,
                self.organisation,
                around,
                lease_interval=conditions.client_lease_interval,
                clock_error=wrong(),
            )
            for site in plan.clients
        }
        self.publications: list[Publication] = []

    @property
    def nodes(self) -> dict[str, Node]:
        """Every agent and client by name."""
        return {**self.agents, **self.clients}

    # what happens

    def start(self) -> None:
        """Start everybody, within a second."""
        starting = self.chance.child("starting")
        self.control.start()
        for node in self.nodes.values():
            self.timeline.after(starting.fraction(), node.start)

    def start_and_settle(self, seconds: float = 120.0) -> None:
        """Start everybody and wait until every agent serves and every client has its policy.

        Raises:
            TimeoutError: they do not, in so many virtual seconds.
        """
        self.start()
        self.wait(self.ready, "everybody to be ready", seconds)

    def ready(self) -> bool:
        """Whether every agent serves and every client has its policy."""
        domain = self.organisation.domain
        return all(
            agent.alive and agent.link.standing(domain) == "serving"
            for agent in self.agents.values()
        ) and all(
            client.alive and client.policy.current is not None for client in self.clients.values()
        )

    def publish(self, handle: str, event_type: str, values: Mapping[str, Value]) -> Publication:
        """A client's application publishes an event now."""
        publication = self.clients[handle].publish(event_type, values)
        self.publications.append(publication)
        return publication

    def subscribe(self, handle: str, event_type: str, text: str = "") -> str:
        """A client's application subscribes now."""
        return self.clients[handle].subscribe(event_type, text)

    def crash_broker(self, name: str) -> None:
        """A broker falls: connections end, what was not persistent is lost."""
        self.history.note(name, "crashed")
        broker = self.brokers[name]
        everybody = [self.control, *self.nodes.values()]
        lines = [line for node in everybody for line in node.lines if line.broker is broker]
        broker.crash(lines)

    def restart_broker(self, name: str) -> None:
        """A broker comes back."""
        self.history.note(name, "restarted")
        self.brokers[name].restart()

    # letting time pass

    def run(self, seconds: float) -> None:
        """Let so many virtual seconds pass."""
        self.timeline.run(self.timeline.now + seconds)

    def wait(self, true: Callable[[], bool], what: str, seconds: float = 300.0) -> None:
        """Let time pass until something is true; asked every virtual second.

        Raises:
            TimeoutError: it is not, in time.
        """
        end = self.timeline.now + seconds
        while not true():
            if self.timeline.now >= end:
                raise TimeoutError(f"waited {seconds:.0f} virtual seconds in vain for {what}")
            self.timeline.run(min(end, self.timeline.now + 1.0))

    def settle(self, seconds: float = 300.0) -> None:
        """Let time pass until nothing is open and no message waits for anybody.

        Raises:
            TimeoutError: something stays open.
        """
        self.wait(self.settled, "everything to settle", seconds)
        # What is under way on a line has still to arrive.
        self.run(_SLICE)
        self.wait(self.settled, "everything to settle", seconds)

    def settled(self) -> bool:
        """Whether every client is settled and no message waits for anybody."""
        return all(client.settled for client in self.clients.values()) and all(
            self.brokers[name].up and self.brokers[name].idle for name in self.organisation.overlays
        )

    # what came of it

    @property
    def sent(self) -> Counter[str]:
        """Messages by kind of queue, over all overlays: `in`, `hop`, `deliver` and others;

        what agents tell one another of routing is `interest` and `taken`.
        """
        total: Counter[str] = Counter()
        for name, broker in self.brokers.items():
            if name != CONTROL:
                total.update(broker.sent)
        return total

    def counters(self) -> Counter[str]:
        """The agents' own counters, added up."""
        total: Counter[str] = Counter()
        for agent in self.agents.values():
            total.update(agent.statistics.counters(self.organisation.domain))
        return total

    def report(self) -> dict[str, object]:
        """What came of it, for people and programs."""
        states = Counter(publication.state for publication in self.publications)
        received = sum(len(client.handled.events) for client in self.clients.values())
        return {
            "agents": len(self.agents),
            "clients": len(self.clients),
            "virtual_seconds": round(self.timeline.now, 3),
            "publications": dict(sorted(states.items())),
            "received": received,
            "received_again_after_crash": sum(
                sum(client.handled.again.values()) for client in self.clients.values()
            ),
            "doubles": sum(len(client.handled.doubles) for client in self.clients.values()),
            "given_up": sum(client.inbox.given_up for client in self.clients.values()),
            "messages": dict(sorted(self.sent.items())),
            "agents_counted": dict(sorted(self.counters().items())),
            "happened": dict(sorted(self.history.counts.items())),
            "history": self.history.digest,
        }
