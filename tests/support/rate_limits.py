"""One agent's data plane on an in-memory broker and a disk, with a clock that a test moves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from brokers.adapters.files import SubscriptionFile
from brokers.adapters.seen import SeenLog
from brokers.agent.dataplane import DataPlane
from brokers.agent.policy import InForce, PolicyInForce, Progress
from brokers.agent.statistics import Statistics
from brokers.data.subscriptions import SubscriptionIndex
from brokers.ports import Message, Outgoing, SeenEntry, Spend
from brokers.snapshot import DomainSnapshot
from policyengine.bundles import Reply, delivery_queue, publish_queue
from tests.support.data_plane import Organisation
from tests.support.memory_broker import MemoryBroker, MemoryTransport
from tests.support.pure_agents import NOW, agent_snapshot, replies


class Killed(BaseException):
    """The process was killed here."""


class _Log(SeenLog):
    kill_at = ""

    def record(
        self, entries: Iterable[SeenEntry], *, now: float, spent: Iterable[Spend] = ()
    ) -> None:
        _point("record", self.kill_at)
        super().record(entries, now=now, spent=spent)
        _point("recorded", self.kill_at)


class _Transport(MemoryTransport):
    kill_at = ""

    def send_many(self, messages: Iterable[Outgoing], *, timeout: float = 30.0) -> None:
        found = list(messages)
        if found:
            _point("send", self.kill_at)
        super().send_many(found, timeout=timeout)
        if found:
            _point("sent", self.kill_at)

    def ack_many(self, messages: Iterable[Message]) -> None:
        _point("ack", self.kill_at)
        super().ack_many(list(messages))
        _point("acked", self.kill_at)


def _point(place: str, kill_at: str) -> None:
    if place == kill_at:
        raise Killed


class Rig:
    """One agent on a folder; a second one on the same folder is the agent after a restart.

    Args:
        folder: its disk.
        broker: the overlay's broker.
        organisation: who may do what.
        name: which agent.
        kill_at: `send`, `sent`, `record`, `recorded`, `ack` or `acked`: where it is killed.
        snapshot: what is in force, where the test has built it before.
    """

    def __init__(
        self,
        folder: Path,
        broker: MemoryBroker,
        organisation: Organisation,
        *,
        name: str = "alpha",
        kill_at: str = "",
        snapshot: DomainSnapshot | None = None,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.organisation, self.name, self.broker, self.now = organisation, name, broker, NOW
        keys, progress = organisation.agents[name].keys, Progress()
        self.transport = _Transport(broker)
        self.transport.kill_at = kill_at
        self.transport.start()
        self.seen = _Log(folder / "seen.sqlite", seconds=3600)
        self.seen.kill_at = kill_at
        policy = PolicyInForce(
            agent=name,
            overlay=organisation.agents[name].overlay,
            sealing_key=keys.sealing,
            subscription_file=SubscriptionFile(folder / "subscriptions.json"),
            progress=progress,
        )
        held = snapshot or agent_snapshot(organisation, name)
        policy.commit(organisation.domain, InForce(held, SubscriptionIndex.build(held, [])))
        self.plane = DataPlane(
            agent=name,
            keys=keys,
            transport=self.transport,
            policy=policy,
            standing=lambda _: "serving",
            now=lambda: self.now,
            seen=self.seen,
            statistics=Statistics(),
            progress=progress,
            clock=self,
        )

    def wall(self) -> float:
        """Unix time."""
        return self.now

    def boot(self) -> float:
        """Seconds since boot."""
        return self.now

    def step(self, at: float) -> None:
        """One batch at a moment."""
        self.now = at
        self.plane.step(0.0)

    def take(self, *bodies: bytes, at: float) -> None:
        """Handle messages of publishers as one batch."""
        for body in bodies:
            self.broker.put(publish_queue(self.name, self.organisation.domain), body)
        self.step(at)

    def take_and_die(self, body: bytes, *, at: float) -> None:
        """Handle a message and be killed on the way; the broker takes back what it must."""
        try:
            self.take(body, at=at)
        except Killed:
            pass
        else:
            raise AssertionError("it was not killed")
        self.close()

    def close(self) -> None:
        """The process is gone."""
        self.transport.close()
        self.seen.close()


def answers(rig: Rig) -> list[Reply]:
    """What publishers have heard since they were last asked, in order."""
    found: list[Reply] = []
    for handle in rig.organisation.clients:
        waiting = rig.broker.queues.get(delivery_queue(handle))
        while waiting:
            message = Outgoing(delivery_queue(handle), waiting.popleft().body)
            found += replies(rig.organisation, [message]).get(handle, [])
    return found
