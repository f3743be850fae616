"""A client's queue stays short: what it has no room for waits where only its agent reads."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters.files import SubscriptionFile
from brokers.adapters.seen import SeenLog
from brokers.adapters.windows import WindowFile
from brokers.agent.backlog import Backlogs
from brokers.agent.dataplane import DataPlane
from brokers.agent.policy import InForce, PolicyInForce, Progress
from brokers.agent.statistics import Statistics
from brokers.data.handle import event_key
from brokers.data.subscriptions import Subscription, SubscriptionIndex
from brokers.ports import TransportError
from brokers.snapshot import DomainSnapshot
from policyengine.bundles import (
    Confirmation,
    Reply,
    backlog_queue,
    decode_framed,
    delivery_queue,
    encode_framed,
    open_delivery,
    open_reply,
    publish_queue,
    seal_confirmation,
)
from tests.support.data_plane import airport
from tests.support.memory_broker import MemoryBroker, MemoryTransport
from tests.support.pure_agents import NOW, agent_snapshot, publication, subscription

FLIGHT: dict[str, Any] = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}
ORGANISATION = airport()
SNAPSHOT = agent_snapshot(ORGANISATION, "alpha")
IN = publish_queue("alpha", "flights")
UA = delivery_queue("p-ua")
BACK = backlog_queue("alpha", "flights", "p-ua")
WINDOW = 4


class Crashed(BaseException):
    """The process was killed here."""


class Clock:
    """A clock that the test moves."""

    def __init__(self, time: float = NOW) -> None:
        self.time = time

    def wall(self) -> float:
        return self.time

    def boot(self) -> float:
        return self.time


class Line(MemoryTransport):
    """A transport that may crash between two steps."""

    def __init__(self, broker: MemoryBroker, point: Callable[[], None]) -> None:
        super().__init__(broker)
        self._point = point

    def send_many(self, messages: Any, *, timeout: float = 30.0) -> None:
        for message in messages:
            self._point()
            super().send_many([message])

    def ack_many(self, messages: Any) -> None:
        self._point()
        super().ack_many(messages)
        self._point()


class Agent:
    """Agent alpha's data plane on a folder; made anew after a crash."""

    def __init__(
        self,
        folder: Path,
        broker: MemoryBroker,
        *,
        clock: Clock | None = None,
        point: Callable[[], None] = lambda: None,
    ) -> None:
        self.clock, self.statistics = clock or Clock(), Statistics()
        keys = ORGANISATION.agents["alpha"].keys
        progress = Progress()
        self.line = Line(broker, point)
        self.line.start()
        self.seen = SeenLog(folder / "seen.sqlite", seconds=3600)
        self.store = WindowFile(folder / "windows.sqlite")
        self.backlogs = Backlogs(self.store, limit=WINDOW)
        self.policy = PolicyInForce(
            agent="alpha",
            overlay="a",
            sealing_key=keys.sealing,
            subscription_file=SubscriptionFile(folder / "subscriptions.json"),
            progress=progress,
        )
        self.own = [Subscription("flights", "p-ua", "s", "Flight", "")]
        self.policy.change_subscriptions(self.own, [])
        self.take(SNAPSHOT)
        self.plane = DataPlane(
            agent="alpha",
            keys=keys,
            transport=self.line,
            policy=self.policy,
            standing=lambda _: "serving",
            now=self.clock.wall,
            seen=self.seen,
            statistics=self.statistics,
            progress=progress,
            clock=self.clock,
            backlogs=self.backlogs,
        )

    def take(self, snapshot: DomainSnapshot) -> None:
        """Bring a policy into force."""
        self.policy.commit(
            "flights", InForce(snapshot, SubscriptionIndex.build(snapshot, self.own))
        )

    def run(self, rounds: int = 3) -> None:
        """Some rounds, with time for what rests."""
        for _ in range(rounds):
            self.plane.step(0.0)
            self.clock.time += 1.5

    def die(self) -> None:
        """The process is gone; the broker takes back what was not acknowledged."""
        self.line.close()
        self.seen.close()
        self.store.close()


class Reader:
    """Client p-ua: reads its queue when it is told to, and confirms what it has read."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._keys = ORGANISATION.clients["p-ua"].keys
        self.read: list[str] = []
        self._done: list[bytes] = []
        self.most = 0
        self.questions = 0

    def confirm(self, **members: Any) -> None:
        """Send a confirmation."""
        said = Confirmation(domain="flights", client="p-ua", issued=int(NOW), **members)
        alpha = ORGANISATION.agents["alpha"]
        sealed = seal_confirmation(
            said,
            signing_key=self._keys.signing,
            recipient=alpha.keys.sealing.public,
            agent="alpha",
        )
        self._broker.put(IN, encode_framed("confirm", sealed))

    @property
    def waiting(self) -> int:
        """Deliveries in its queue."""
        kinds = [decode_framed(body)[0] for body in self._broker.bodies(UA)]
        count = kinds.count("delivery")
        self.most = max(self.most, count)
        return count

    def take(self, limit: int = 1000) -> None:
        """Read at most so many messages; answers questions and confirms all that was read."""
        assert self.waiting <= WINDOW
        answers = ""
        for body in self._broker.bodies(UA)[:limit]:
            self._broker.queues[UA].popleft()
            kind, payload = decode_framed(body)
            if kind == "reply":
                answers = self._question(payload) or answers
                self._done = [] if answers else self._done
            else:
                self._deliver(payload)
        if self._done or answers:
            self.confirm(done=tuple(self._done), answers=answers)
            self._done = []

    def _question(self, payload: bytes) -> str:
        reply: Reply = open_reply(
            payload, key=self._keys.sealing, handle="p-ua", verify=self._verify
        )
        if reply.reason != "confirm":
            return ""
        assert (reply.message, reply.dropped) == (str(WINDOW), ("flights",))
        self.questions += 1
        return reply.request

    def _deliver(self, payload: bytes) -> None:
        one = open_delivery(payload, key=self._keys.sealing, handle="p-ua", verify=self._verify)
        self._done.append(event_key(one.publisher, one.publication, one.part))
        self.read.append(one.publication)

    @staticmethod
    def _verify(name: str) -> bytes:
        return ORGANISATION.agents[name].keys.signing.public


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


def _publish(broker: MemoryBroker, count: int, start: int = 0) -> list[str]:
    names = [f"{number:032x}" for number in range(start, start + count)]
    for name in names:
        broker.put(IN, publication(ORGANISATION, "p-airport", "Flight", FLIGHT, identifier=name))
    return names


def _confirming(tmp_path: Path, broker: MemoryBroker) -> tuple[Agent, Reader]:
    agent, reader = Agent(tmp_path, broker), Reader(broker)
    reader.confirm()
    agent.run()
    reader.take()
    agent.run()
    assert reader.questions == 1
    return agent, reader


def _drain(agent: Agent, reader: Reader, names: list[str], rounds: int = 60) -> None:
    for _ in range(rounds):
        if set(reader.read) >= set(names):
            return
        agent.run(2)
        reader.take()
    raise AssertionError(f"{len(set(names) - set(reader.read))} never came")


def test_the_window_is_never_exceeded_and_the_order_is_kept(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    agent, reader = _confirming(tmp_path, broker)
    names = _publish(broker, 11)
    agent.run()
    assert (reader.waiting, len(broker.bodies(BACK))) == (WINDOW, 7)
    names += _publish(broker, 3, start=11)  # behind the others, though there is room by then
    reader.take(2)
    _drain(agent, reader, names)
    assert reader.read == names
    assert reader.most == WINDOW
    assert broker.bodies(BACK) == []
    counters = agent.statistics.counters("flights")
    assert counters["delivered"] == len(names)
    assert counters["taken_out"] == counters["backlogged"] == len(names) - WINDOW
    agent.run()
    assert agent.backlogs.windows.counts("flights") == (1, 0, 0)
    late = _publish(broker, 1, start=20)
    agent.run(1)
    assert reader.waiting == 1  # at once again
    reader.take()
    assert reader.read[-1:] == late


def test_nothing_of_the_event_can_be_read_in_the_backlog(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    agent, _ = _confirming(tmp_path, broker)
    _publish(broker, WINDOW + 4)
    agent.run()
    items = broker.bodies(BACK)
    assert len(items) == 4
    for word in (b"N14228", b"Flight", b"carrier", b"p-airport"):
        assert not any(word in item for item in items)
    # Two or three letters stand in a ciphertext by chance, and not in each of four.
    for word in (b"UA", b"EWR"):
        assert not all(word in item for item in items)


def test_an_earlier_client_gets_everything_at_once(tmp_path: Path, broker: MemoryBroker) -> None:
    agent = Agent(tmp_path, broker)
    _publish(broker, 3 * WINDOW)
    agent.run()
    assert len(broker.bodies(UA)) == 3 * WINDOW
    assert agent.backlogs.windows.counts("flights") == (0, 0, 0)


def test_a_client_that_goes_back_to_an_earlier_release_gets_everything(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    agent, _reader = _confirming(tmp_path, broker)
    _publish(broker, 3 * WINDOW)
    agent.run(10)  # asks, and hears nothing
    assert len([b for b in broker.bodies(UA) if decode_framed(b)[0] == "delivery"]) == WINDOW
    broker.put(IN, subscription(ORGANISATION, "p-ua", "Flight", "", issued=agent.clock.time))
    agent.run(60)
    assert len([b for b in broker.bodies(UA) if decode_framed(b)[0] == "delivery"]) == 3 * WINDOW
    assert agent.backlogs.windows.counts("flights") == (0, 0, 0)


def test_a_revoked_clients_backlog_goes_nowhere(tmp_path: Path, broker: MemoryBroker) -> None:
    agent, reader = _confirming(tmp_path, broker)
    _publish(broker, 10)
    agent.run()
    assert len(broker.bodies(BACK)) == 10 - WINDOW
    agent.policy.deny("flights", frozenset({"p-ua"}))
    agent.run(4)
    assert broker.bodies(BACK) == []
    assert reader.waiting == WINDOW
    assert agent.statistics.counters("flights")["backlog_dropped"] == 10 - WINDOW


def test_what_is_taken_out_is_decided_anew(tmp_path: Path, broker: MemoryBroker) -> None:
    agent, reader = _confirming(tmp_path, broker)
    _publish(broker, WINDOW + 2)
    agent.run()
    agent.policy.change_subscriptions([], [("flights", "p-ua", "s")])
    reader.take()
    agent.run(4)
    reader.take()
    assert len(reader.read) == WINDOW
    assert agent.statistics.counters("flights")["backlog_dropped"] == 2


def test_what_waits_of_a_revoked_publisher_goes_nowhere_and_is_told_by_its_name(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    agent, reader = _confirming(tmp_path, broker)
    names = _publish(broker, WINDOW + 2)
    agent.run()
    agent.policy.deny("flights", frozenset({"p-airport"}))
    reader.take()
    agent.run(4)
    reader.take()
    assert reader.read == names[:WINDOW]
    told = {
        (each["kind"], each["reason"], each["publication"])
        for each in agent.statistics.last_refusals()
    }
    assert told == {("backlog", "revoked", name) for name in names[WINDOW:]}


def test_what_waits_goes_out_before_its_epoch_ends(tmp_path: Path, broker: MemoryBroker) -> None:
    agent, reader = _confirming(tmp_path, broker)
    _publish(broker, WINDOW + 3)
    agent.run()
    ending = {number: replace(one, state="draining") for number, one in SNAPSHOT.epochs.items()}
    agent.take(replace(SNAPSHOT, epochs=ending))
    agent.run(4)
    assert broker.bodies(BACK) == []
    assert reader.waiting == WINDOW + 3


def test_what_others_write_into_a_backlog_is_put_aside(
    tmp_path: Path, broker: MemoryBroker
) -> None:
    agent, reader = _confirming(tmp_path, broker)
    names = _publish(broker, WINDOW + 2)
    agent.run()
    item = broker.bodies(BACK)[0]
    for forged in (b"rubbish", item[:-1] + bytes([item[-1] ^ 1])):
        broker.put(BACK, forged)
    broker.put(BACK, item)  # and what stood there before
    names += _publish(broker, 3, start=20)
    _drain(agent, reader, names)
    assert reader.read == names
    assert len(broker.bodies("pc.dead.alpha")) == 2


@pytest.mark.parametrize("answering", [True, False], ids=["there", "away"])
def test_killed_at_every_point_nothing_is_lost_and_the_queue_is_short(
    tmp_path: Path, answering: bool
) -> None:
    """Whatever the point: everything arrives, in order, and never more than the window waits."""
    for crash_at in itertools.count(1, 3):
        broker, folder = MemoryBroker(), tmp_path / str(crash_at)
        folder.mkdir()
        agent, reader = _confirming(folder, broker)
        agent.die()
        names = _publish(broker, WINDOW + 3)
        steps = itertools.count(1)

        def point(steps: Any = steps, crash_at: int = crash_at) -> None:
            if next(steps) == crash_at:
                raise Crashed

        agent = Agent(folder, broker, clock=agent.clock, point=point)
        crashed = False
        try:
            for _ in range(6):
                agent.run(1)
                if answering:
                    reader.take()
                assert reader.waiting <= WINDOW
        except Crashed:
            crashed = True
        agent.die()
        agent = Agent(folder, broker, clock=agent.clock)
        agent.run(2)
        assert reader.waiting <= WINDOW
        _drain(agent, reader, names)
        assert sorted(set(reader.read)) == names
        firsts = list(dict.fromkeys(reader.read))
        assert firsts == names
        assert reader.most <= WINDOW
        agent.die()
        if not crashed:
            return


def test_lost_confirmations_are_asked_for(tmp_path: Path, broker: MemoryBroker) -> None:
    agent, reader = _confirming(tmp_path, broker)
    names = _publish(broker, WINDOW + 2)
    agent.run()
    broker.queues[UA].clear()  # read by a client that was killed before it confirmed
    agent.run(5)
    reader.take()
    _drain(agent, reader, names[WINDOW:])
    assert reader.read == names[WINDOW:]


def test_a_send_that_fails_is_made_good(tmp_path: Path, broker: MemoryBroker) -> None:
    agent, reader = _confirming(tmp_path, broker)
    agent.die()
    steps = itertools.count(1)

    def point() -> None:
        if next(steps) in (8, 21, 22):
            raise TransportError("gone for a moment")

    agent = Agent(tmp_path, broker, clock=agent.clock, point=point)
    names = _publish(broker, 2 * WINDOW)
    _drain(agent, reader, names)
    assert next(steps) > 22
    assert list(dict.fromkeys(reader.read)) == names
    assert reader.most <= WINDOW
