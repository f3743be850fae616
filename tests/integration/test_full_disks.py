"""A disk gets full, under agents and under a broker: nothing is lost, and it is said.

Who publishes is told of nothing that was not kept; an agent without room takes nothing, confirms
nothing to the control plane that it did not keep, says so on its pages, and goes on by itself.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from brokers.adapters.stomp import BrokersFile, Outgoing, StompTransport, TransportError
from brokers.client import Refused, Subscriber
from policyengine.bundles import publish_queue
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.agent_processes import AgentProcess, World
from tests.support.data_plane import wait_until
from tests.support.small_disk import How, SmallDisk, best
from tests.support.stomp_client import StompClient

pytestmark = [pytest.mark.activemq, pytest.mark.slow]

_SECONDS = 180.0
_FLIGHT = {"carrier": "UA", "origin": "EWR", "delay": 5, "tail": "N1"}
_OTHER = {"carrier": "DL", "origin": "EWR", "delay": 5, "tail": "N2"}


class Got:
    """What a subscriber got so far."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        self.names: list[str] = []

    def all(self) -> list[str]:
        while (event := self._subscriber.next_event(0.05)) is not None:
            self.names.append(event.publication)
        return self.names


@pytest.fixture
def brokers(tmp_path: Path, activemq_pair: dict[str, ActiveMQ]) -> Callable[[str], Path]:
    def file(account: str) -> Path:
        entries = {name: one.entry(account) for name, one in activemq_pair.items()}
        return write_brokers_file(tmp_path / f"brokers-{account}.json", entries)

    return file


# agents


@pytest.fixture
def world(tmp_path: Path, brokers: Callable[[str], Path]) -> Iterator[World]:
    made = World.make(tmp_path, brokers)
    yield made
    made.close()


def pid_of(agent: AgentProcess) -> int:
    assert agent.process is not None
    return agent.process.pid


def test_an_agent_without_room_takes_nothing_says_so_and_goes_on_by_itself(world: World) -> None:
    # Two agents in two ways at once: whatever the machine can do, both are played.
    full: dict[str, How] = {"alpha": best(), "beta": "limit"}
    disks = {
        short: SmallDisk(world.agents[short].folder / "state", how) for short, how in full.items()
    }
    for short, disk in disks.items():
        world.agents[short].command = disk.command(world.agents[short].command)
    world.start(_SECONDS)
    ua, dl = Got(world.subscriber("p-ua")), Got(world.subscriber("p-dl"))
    for one in (ua, dl):
        one._subscriber.subscribe("Flight", timeout=_SECONDS)
    publisher = world.publisher("p-airport")
    publisher.wait_ready(_SECONDS)
    before = [publisher.publish("Flight", one, timeout=_SECONDS).id for one in (_FLIGHT, _OTHER)]
    wait_until(lambda: (ua.all(), dl.all()) == (before[:1], before[1:]), "events", _SECONDS)

    for short, disk in disks.items():
        disk.fill(pid_of(world.agents[short]))
    told = check_keeps_nothing(world, list(disks))
    for short in disks:
        check_says_so(world.agents[short])
    with pytest.raises(Refused):
        publisher.publish("Flight", _FLIGHT, timeout=3)
    waiting = [publisher.enqueue("Flight", one) for one in (_FLIGHT, _OTHER) * 2]
    time.sleep(2)
    assert publisher.waiting == len(waiting)
    assert (ua.all(), dl.all()) == (before[:1], before[1:])
    for short in disks:
        assert (2, "applied", "") not in world.control.statuses(world.address(short))

    for short, disk in disks.items():
        disk.free(pid_of(world.agents[short]))
    for short in disks:
        agent = world.agents[short]
        wait_until(lambda agent=agent: agent.page("/ready")[0] == 200, "room again", _SECONDS)
        wait_until(partial(keeps_all, agent), "everything to be kept", _SECONDS)
        world.control.wait_applied(world.address(short), 2, _SECONDS)
        applied = partial(applied_notice, world, short, told[short])
        wait_until(applied, "the notice to be applied", _SECONDS)
    assert publisher.flush(_SECONDS)
    assert publisher.refused() == []
    wait_until(lambda: set(waiting[::2]) <= set(ua.all()), "what waited for UA", _SECONDS)
    wait_until(lambda: set(waiting[1::2]) <= set(dl.all()), "what waited for DL", _SECONDS)
    time.sleep(1)  # doubles would come now
    for one in (ua, dl):
        assert len(one.all()) == len(set(one.names))


def keeps_all(agent: AgentProcess) -> bool:
    status = agent.status()
    return (status.get("disk"), status.get("not_kept")) == ("ok", 0)


def applied_notice(world: World, short: str, number: int) -> bool:
    return (number, "applied", "") in world.control.statuses(world.address(short), "notice")


def check_says_so(agent: AgentProcess) -> None:
    """It is alive, not ready, and names the reason."""
    wait_until(lambda: agent.status().get("disk") == "disk-full", "the disk to be seen", _SECONDS)
    status, text = agent.page("/ready")
    assert (status, '"disk": "disk-full"' in text) == (503, True)
    assert agent.page("/health")[0] == 200
    assert agent.domain("flights")["delivering"] is False
    assert f'portcullis_disk_usable{{agent="{agent.name}"}} 0' in agent.page("/metrics")[1]


def check_keeps_nothing(world: World, shorts: list[str]) -> dict[str, int]:
    """A policy and a notice come: denied at once, and neither is said to be applied."""
    told: dict[str, int] = {}
    for short in shorts:
        address = world.address(short)
        world.control.push(world.organisation, address)
        told[short] = world.control.notice(world.organisation, address, (world.name("p-nobody"),))
    for short in shorts:
        agent, address = world.agents[short], world.address(short)
        wait_until(
            lambda agent=agent: agent.status().get("not_kept") == 2, "both to come", _SECONDS
        )
        assert world.name("p-nobody") in agent.domain("flights")["denied"]
        assert agent.domain("flights")["revision"] == 1
        assert (2, "applied", "") not in world.control.statuses(address)
        assert not applied_notice(world, short, told[short])
    return told


# a broker


class SmallStore(ActiveMQ):
    """A broker whose store is small, and whose journal gives room back soon."""

    def _configuration(self) -> str:
        usual = 'journalMaxFileLength="16mb"'
        text = super()._configuration()
        assert text.count(usual) == 1
        often = 'journalMaxFileLength="1mb" checkpointInterval="500" cleanupInterval="1000"'
        return text.replace(usual, often)


class Ballast:
    """Fills a broker's store, and empties it again."""

    queue = "pc.test.ballast"

    def __init__(self, brokers_file: Path, overlay: str) -> None:
        self._line = StompTransport(BrokersFile.load(brokers_file).overlay(overlay), name="ballast")

    def fill(self) -> int:
        """Send until the broker refuses for good; returns how much it took."""
        taken, refused = 0, 0
        while refused < 5:
            try:
                self._line.send_many([Outgoing(self.queue, bytes(100_000))], timeout=20)
                taken, refused = taken + 1, 0
            except TransportError as error:
                if not error.refused:
                    raise
                refused += 1
                time.sleep(0.3)  # a journal that was given up just now makes room
            assert taken < 1000
        return taken

    def drain(self, count: int) -> None:
        self._line.subscribe(self.queue, prefetch=20)
        end = time.monotonic() + _SECONDS
        while count > 0 and time.monotonic() < end:
            found = self._line.receive_many(20, 1)
            self._line.ack_many(found)
            count -= len(found)
        assert count == 0

    def close(self) -> None:
        self._line.close()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[ActiveMQ]:
    broker = SmallStore(tmp_path / "small", name="a", store_limit="6 mb")
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def on_small_store(
    tmp_path: Path, small: ActiveMQ, activemq_pair: dict[str, ActiveMQ]
) -> Iterator[World]:
    def file(account: str) -> Path:
        entries = {"a": small.entry(account), "b": activemq_pair["b"].entry(account)}
        return write_brokers_file(tmp_path / f"brokers-{account}.json", entries, control="b")

    made = World.make(tmp_path, file)
    yield made
    made.close()


def test_a_broker_without_room_refuses_and_what_was_taken_arrives_once_there_is_room(
    on_small_store: World, small: ActiveMQ
) -> None:
    world = on_small_store
    world.start(_SECONDS)
    ua = Got(world.subscriber("p-ua"))
    ua._subscriber.subscribe("Flight", timeout=_SECONDS)
    publisher = world.publisher("p-airport")
    publisher.wait_ready(_SECONDS)
    first = publisher.publish("Flight", _FLIGHT, timeout=_SECONDS).id
    wait_until(lambda: ua.all() == [first], "the first event", _SECONDS)

    # What the broker took and the agent has not seen yet when the store gets full.
    alpha = pid_of(world.agents["alpha"])
    os.kill(alpha, signal.SIGSTOP)
    try:
        under_way = [publisher.enqueue("Flight", _FLIGHT) for _ in range(5)]
        queue = publish_queue(world.name("alpha"), "flights")
        wait_until(lambda: depth(small, queue) >= 5, "the broker to have them", _SECONDS)
        ballast = Ballast(world.brokers_file("control"), "a")
        taken = ballast.fill()
    finally:
        os.kill(alpha, signal.SIGCONT)
    try:
        with pytest.raises(Refused):
            publisher.publish("Flight", _FLIGHT, timeout=3)
        later = [publisher.enqueue("Flight", _FLIGHT) for _ in range(5)]
        wait_until(
            lambda: "batch not sent" in world.agents["alpha"].log(), "the agent to be refused",
            _SECONDS,
        )  # fmt: skip
        assert publisher.waiting == len(under_way) + len(later)
        assert ua.all() == [first]
        # The control broker has room: leases go on, so that nothing but room is lacking.
        world.wait_standing("alpha", "serving", _SECONDS)

        ballast.drain(taken)
    finally:
        ballast.close()
    assert publisher.flush(_SECONDS)
    assert publisher.refused() == []
    wanted = {first, *under_way, *later}
    wait_until(lambda: wanted <= set(ua.all()), "all that was taken", _SECONDS)
    time.sleep(1)  # doubles would come now
    assert len(ua.all()) == len(set(ua.names))


def depth(broker: ActiveMQ, queue: str) -> int:
    """How many messages a queue holds, taken ones that are not acknowledged among them."""
    with StompClient(broker, "control", timeout=20) as client:
        client.connect()
        client.subscribe("pc.test.depth", transformation="jms-map-json")
        asked = f"ActiveMQ.Statistics.Destination.{queue}"
        client.send(asked, b"", **{"reply-to": "/queue/pc.test.depth"})
        answer = client.receive(timeout=20)
    assert answer is not None
    entries = json.loads(answer.body)["map"]["entry"]
    return int(next(one["long"] for one in entries if one.get("string") == "size"))
