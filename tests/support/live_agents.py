"""The real code of agents on a broker in memory, at a control plane that is pumped by hand.

What is delivered is written down as it enters the clients' queues: a history that knows nothing of
what the control plane believes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adminapp.identity.models import Principal
from brokers.adapters.control_link import ControlLink
from brokers.adapters.files import BundleFolder, StateFile, SubscriptionFile
from brokers.adapters.rootfile import RootFile
from brokers.adapters.seen import SeenLog
from brokers.adapters.windows import WindowFile
from brokers.agent.backlog import Backlogs
from brokers.agent.dataplane import DataPlane
from brokers.agent.policy import PolicyInForce, Progress
from brokers.agent.statistics import Statistics
from brokers.control.sync import Identity
from policyengine.bundles import (
    REQUESTS_QUEUE,
    SignedRoot,
    audience,
    control_queue,
    decode_framed,
    delivery_queue,
    open_delivery,
    publish_queue,
)
from tests.support.audiences import Audience, Plane
from tests.support.memory_broker import MemoryBroker, MemoryTransport
from tests.support.pure_agents import publication, subscription
from tests.support.site_agents import Site


@dataclass
class Clock:
    """Real time, which a test may move on."""

    ahead: float = 0.0

    def wall(self) -> float:
        return time.time() + self.ahead

    def boot(self) -> float:
        return time.time() + self.ahead


@dataclass(frozen=True)
class Keys:
    """Private keys of an audience."""

    sealing: Any
    signing: Any


class LiveAgent:
    """One agent's control side and data plane; made anew on the same folder after a death."""

    def __init__(self, name: str, overlay: str, keys: Audience, around: LiveSite) -> None:
        self.name, self.around = name, around
        folder = around.folder / name
        folder.mkdir(exist_ok=True)
        held = Keys(keys.sealing, keys.signing)
        address, progress = audience("agent", name), Progress()
        self.control = MemoryTransport(around.broker)
        self.data = MemoryTransport(around.broker)
        self.data.start()
        self.seen = SeenLog(folder / "seen.sqlite", seconds=3600)
        self.windows = WindowFile(folder / "windows.sqlite")
        self.policy = PolicyInForce(
            agent=name,
            overlay=overlay,
            sealing_key=keys.sealing,
            subscription_file=SubscriptionFile(folder / "subscriptions.json"),
            progress=progress,
        )
        self.link = ControlLink(
            transport=self.control,
            identity=Identity(address, keys.sealing, around.plane.anchors),
            signing_key=keys.signing,
            bundles=BundleFolder(folder / "bundles"),
            state_file=StateFile(folder / "trusted.json", address),
            clock=around.clock,
            applier=self.policy,
            lease_interval=2.0,
            roots=RootFile(folder / "roots.json", around.pinned) if around.pinned else None,
        )
        self.link.restore()
        self.link.listen()
        self.dataplane = DataPlane(
            agent=name,
            keys=held,
            transport=self.data,
            policy=self.policy,
            standing=self.link.standing,
            now=self.link.now,
            seen=self.seen,
            statistics=Statistics(),
            progress=progress,
            clock=around.clock,
            backlogs=Backlogs(self.windows),
        )

    def step(self) -> None:
        """One round of each side."""
        self.link.step(0)
        self.dataplane.step(0)
        self.link.step(0)  # what had to wait for the batch is acknowledged

    def die(self) -> None:
        """The process is gone."""
        self.control.close()
        self.data.close()
        self.seen.close()
        self.windows.close()


@dataclass
class LiveSite:
    """The agents of a plane with their clients.

    Args:
        plane: the control plane.
        domain: name of the domain.
        overlays: agent -> overlay.
        folder: where agents keep what they keep.
        pinned: the root that agents begin with; None where they pin keys alone.
    """

    plane: Plane
    domain: str
    overlays: Mapping[str, str]
    folder: Path
    pinned: SignedRoot | None = None
    clock: Clock = field(default_factory=Clock)
    broker: MemoryBroker = field(default_factory=MemoryBroker)
    cut: set[str] = field(default_factory=set)
    history: list[tuple[float, str, str]] = field(default_factory=list)
    published: int = 0

    def __post_init__(self) -> None:
        self.site = Site(self.plane, self.domain)
        self.agents: dict[str, LiveAgent] = {}
        for name in self.overlays:
            keys = self.plane.audiences[f"agent:{name}"]
            keys.deaf = True  # the real one listens
            self.start(name)

    def start(self, name: str) -> None:
        """An agent begins, or begins again."""
        keys = self.plane.audiences[f"agent:{name}"]
        self.agents[name] = LiveAgent(name, self.overlays[name], keys, self)

    def control(self) -> int:
        """Control plane's round: work, hand over, answer; returns how much that was."""
        moved = self.plane.work() + self.plane.deliver()
        for name in self.overlays:
            if name in self.cut:
                continue
            queue = control_queue(audience("agent", name))
            waiting, self.plane.queues[queue] = self.plane.queues[queue], []
            moved += len(waiting)
            for body in waiting:
                self.broker.put(queue, body)
        asked = self.broker.queues.setdefault(REQUESTS_QUEUE, deque())
        while asked:
            self.plane.receive(asked[0].body)  # taken only once it is dealt with
            asked.popleft()
            moved += 1
        return moved

    def run(self, rounds: int = 30) -> None:
        """Rounds of everybody who is reached, until nothing moves any more."""
        for _ in range(rounds):
            sent = self.broker.sent
            moved = self.control()
            for agent in self.agents.values():
                agent.step()
                self._note()
            if not moved and self.broker.sent == sent:
                return

    def close(self) -> None:
        """Everything ends."""
        for agent in self.agents.values():
            agent.die()

    # -- clients -----------------------------------------------------------------------------

    def subscribe(self, name: str, event_type: str) -> None:
        """A principal's client subscribes. It confirms nothing, so nothing waits for it."""
        handle = self.handle(name)
        body = subscription(
            self.site, handle, event_type, "", request=f"{self._next():032x}",
            issued=self.clock.wall(),
        )  # fmt: skip
        self._put(self._home(handle), body)

    def publish(self, name: str, event_type: str, values: Mapping[str, Any]) -> str:
        """A principal's client publishes; returns the event's identifier."""
        handle = self.handle(name)
        identifier = f"{self._next():032x}"
        body = publication(
            self.site, handle, event_type, values, identifier=identifier,
            issued=self.clock.wall(),
        )  # fmt: skip
        self._put(self._home(handle), body)
        return identifier

    def handle(self, name: str) -> str:
        """A principal's handle."""
        return str(Principal.objects.get(domain__name=self.domain, name=name).handle)

    def received(self, name: str) -> list[str]:
        """The events that were ever delivered to a principal, in their order."""
        handle = self.handle(name)
        return [event for _, who, event in self.history if who == handle]

    def _next(self) -> int:
        self.published += 1
        return self.published

    def _home(self, handle: str) -> str:
        held = Principal.objects.get(handle=handle).homes.select_related("agent").get()
        return str(held.agent.name)

    def _put(self, agent: str, body: bytes) -> None:
        self.broker.put(publish_queue(agent, self.domain), body)

    def _note(self) -> None:
        """Take what stands in clients' queues, and write down which event it is."""
        for handle, member in self.site.clients.items():
            queue = delivery_queue(handle)
            for body in self.broker.bodies(queue):
                kind, payload = decode_framed(body)
                if kind != "delivery":
                    continue
                opened = open_delivery(
                    payload,
                    key=member.keys.sealing,
                    handle=handle,
                    verify=lambda name: self.site.agents[name].keys.signing.public,
                )
                self.history.append((time.time(), handle, opened.publication))
            self.broker.queues.pop(queue, None)
