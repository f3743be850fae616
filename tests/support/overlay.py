"""Agents of one overlay on one broker in memory, stepped by hand on one clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from brokers.agent.dataplane import DataPlane
from brokers.agent.policy import InForce, PolicyInForce, Progress
from brokers.agent.routing import OverlayRouting
from brokers.agent.statistics import Statistics
from brokers.data.subscriptions import SubscriptionIndex
from brokers.ports import Outgoing
from brokers.simulation.disk import MemoryLog, MemorySubscriptions
from brokers.snapshot import DomainSnapshot
from policyengine.attributes import AttributeType
from policyengine.bundles import (
    SubscribeRequest,
    encode_framed,
    hop_kind,
    publish_queue,
    seal_subscribe,
)
from policyengine.events import TypeSpec
from tests.support.data_plane import Agent, Client, Organisation, Policy, spec
from tests.support.memory_broker import MemoryBroker, MemoryTransport
from tests.support.pure_agents import NOW, agent_snapshot, deliveries, publication

AGENTS = ("a0", "a1", "a2", "a3", "a4")
TYPES = {"News": "", "Sport": "News", "Tennis": "Sport", "Weather": ""}


class Crashed(BaseException):
    """The process was killed here."""


@cache
def organisation() -> Organisation:
    """Five agents, on each a publisher and two subscribers who may do everything.

    Only the first three agents hold the key of `secret`.
    """
    number = AttributeType("int", minimum=0, maximum=9)
    specs = (spec("level", number), spec("secret", number, "secret-key"))
    types = tuple(TypeSpec(n, p or None, () if p else specs) for n, p in TYPES.items())
    policies = tuple(
        Policy(f"{action}-{name.lower()}", action, name, f'subject.role == "{role}"')
        for name, above in TYPES.items()
        if not above
        for action, role in (("publish", "pub"), ("subscribe", "sub"))
    )
    clients = [
        Client(f"{kind}-{agent}", {"role": kind.rstrip("2")}, {"o": agent})
        for agent in AGENTS
        for kind in ("pub", "sub", "sub2")
    ]
    return Organisation(
        domain="world",
        types=types,
        policies=policies,
        agents={name: Agent(name, "o") for name in AGENTS},
        clients={client.handle: client for client in clients},
        key_holders={"secret-key": AGENTS[:3]},
    )


@cache
def snapshot(name: str) -> DomainSnapshot:
    """What is in force at an agent."""
    return agent_snapshot(organisation(), name)


@dataclass
class Clock:
    """A clock that the test moves."""

    time: float = NOW

    def wall(self) -> float:
        """Unix time."""
        return self.time

    def boot(self) -> float:
        """Seconds since boot."""
        return self.time


@dataclass
class MemoryRouting:
    """What an agent keeps of routing."""

    kept: dict[str, object] = field(default_factory=dict)

    def load(self) -> Mapping[str, object]:
        """What was kept."""
        return self.kept

    def save(self, states: Mapping[str, object]) -> None:
        """Keep it."""
        self.kept = dict(states)


class BreakingTransport(MemoryTransport):
    """Dies before the n-th message that it is to send."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(broker)
        self.left: int | None = None

    def send_many(self, messages: Iterable[Outgoing], *, timeout: float = 30.0) -> None:
        """Send, or die."""
        for message in messages:
            if self.left is not None:
                if self.left == 0:
                    raise Crashed
                self.left -= 1
            super().send_many([message])


class OverlayAgent:
    """One agent; `up` is False while its process is gone."""

    def __init__(self, name: str, broker: MemoryBroker, clock: Clock, *, routed: bool) -> None:
        self.name, self._broker, self._clock, self._routed = name, broker, clock, routed
        self._seen = MemoryLog(10**6, lambda _: None)
        self._subscriptions = MemorySubscriptions(lambda _: None)
        self.store = MemoryRouting()
        self.statistics = Statistics()
        self.up = False
        self.start()

    def start(self) -> None:
        """Start its process, if it is gone."""
        if self.up:
            return
        keys = organisation().agents[self.name].keys
        progress = Progress()
        policy = self.policy = PolicyInForce(
            agent=self.name,
            overlay="o",
            sealing_key=keys.sealing,
            subscription_file=self._subscriptions,
            progress=progress,
        )
        in_force = snapshot(self.name)
        policy.commit("world", InForce(in_force, SubscriptionIndex.build(in_force, ())))
        self.transport = BreakingTransport(self._broker)
        self.transport.start()
        routing = OverlayRouting(
            agent=self.name,
            keys=keys,
            policy=policy,
            now=self._clock.wall,
            clock=self._clock,
            store=self.store,
        )
        self.plane = DataPlane(
            agent=self.name,
            keys=keys,
            transport=self.transport,
            policy=policy,
            standing=lambda _: "serving",
            now=self._clock.wall,
            seen=self._seen,
            statistics=self.statistics,
            progress=progress,
            clock=self._clock,
            routing=routing if self._routed else None,
        )
        self.up = True

    def stop(self) -> None:
        """The process is gone; the broker takes back what was not acknowledged."""
        self.up = False
        self.transport.close()

    def step(self) -> None:
        """One round; a crash ends the process."""
        try:
            self.plane.step(0.0)
        except Crashed:
            self.stop()


class Overlay:
    """All agents, their clients' messages and what these got."""

    def __init__(self, *, routed: bool = True) -> None:
        self.clock = Clock()
        self.broker = MemoryBroker()
        self.agents = {
            name: OverlayAgent(name, self.broker, self.clock, routed=routed) for name in AGENTS
        }
        self._count = 0
        self._read = 0
        self.events_to: dict[str, int] = dict.fromkeys(AGENTS, 0)
        self._watch()

    def _watch(self) -> None:
        put: Callable[..., None] = self.broker.put

        def watched(queue: str, body: bytes, headers: dict[str, str] | None = None) -> None:
            if queue.startswith("pc.hop.") and hop_kind(body) in {"event", "carried"}:
                self.events_to[queue.split(".")[2]] += 1
            put(queue, body, headers)

        self.broker.put = watched  # type: ignore[method-assign]

    def pump(self, *names: str) -> None:
        """Step agents that are up (all without names) until nothing is left to do."""
        quiet = 0
        while quiet < 2:
            before = self.broker.sent, self._unread()
            for name in names or AGENTS:
                if self.agents[name].up:
                    self.agents[name].step()
            quiet = quiet + 1 if before == (self.broker.sent, self._unread()) else 0

    def _unread(self) -> int:
        return sum(
            len(queue) for name, queue in self.broker.queues.items() if "deliver" not in name
        )

    def settle(self) -> None:
        """Everything is up and every wait is over."""
        for _ in range(3):
            for agent in self.agents.values():
                agent.start()
            self.pump()
            self.clock.time += 31.0
        self.pump()

    def request(self, handle: str, action: str, event_type: str, text: str = "") -> None:
        """A client's request is in its home's queue; one subscription a type and filter."""
        self._count += 1
        agent = organisation().clients[handle].homes["o"]
        request = SubscribeRequest(
            domain="world",
            client=handle,
            request=f"{self._count:032x}",
            subscription="s" + "".join(f"{ord(c):x}" for c in event_type + text),
            action=action,
            type=event_type,
            filter=text,
            issued=int(self.clock.time),
        )
        sealed = seal_subscribe(
            request,
            signing_key=organisation().clients[handle].keys.signing,
            recipient=organisation().agents[agent].keys.sealing.public,
            agent=agent,
        )
        self.broker.put(publish_queue(agent, "world"), encode_framed("subscribe", sealed))

    def publish(self, agent: str, event_type: str, values: Mapping[str, Any]) -> str:
        """An event is in its home's queue; returns its identifier."""
        self._count += 1
        identifier = f"{self._count:032x}"
        body = publication(
            organisation(), f"pub-{agent}", event_type, values,
            identifier=identifier, issued=self.clock.time,
        )  # fmt: skip
        self.broker.put(publish_queue(agent, "world"), body)
        return identifier

    def delivered(self) -> dict[str, list[str]]:
        """Handle -> identifiers of all events that its queue holds, doubles included."""
        outgoing = [
            Outgoing(queue, stored.body)
            for queue, waiting in self.broker.queues.items()
            for stored in waiting
        ]
        found = deliveries(organisation(), outgoing)
        return {handle: [one.publication for one in each] for handle, each in found.items()}
