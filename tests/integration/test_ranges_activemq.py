"""Order-preserving attributes over a real ActiveMQ, agents, clients and comparator as processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from policyengine.primitives.canonical import b64
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.agent_processes import World, kept_by, received
from tests.support.comparators import ComparatorProcess
from tests.support.data_plane import Organisation, fresh_keys, wait_until
from tests.support.ranged import ranged
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.activemq

LATE = {"carrier": "UA", "delay": 7351, "tail": "N90210XZ"}
EARLY = {"carrier": "UA", "delay": -417, "tail": "N90210XZ"}
WORDS = (b"N90210XZ", b"ZX01209N", b"delay", b'"tail"')


@dataclass
class Site:
    """A world with a comparator, and a tap on its broker."""

    world: World
    comparator: ComparatorProcess
    tap: TcpProxy

    def everything(self) -> bytes:
        """What went over the wire, what agents keep and log, what the comparator logs."""
        kept = kept_by(self.world.agents.values())
        return b"\n".join((*self.tap.heard, kept, self.comparator.text().encode()))


def second(*, suffix: str = "") -> Organisation:
    """The flights with SBM-II."""
    return ranged({1: ("current", "sbm2")}, suffix=suffix)


@pytest.fixture
def site(tmp_path: Path, activemq: ActiveMQ) -> Iterator[Site]:
    tap = TcpProxy(activemq.port, record=True)
    (tmp_path / "world").mkdir()

    def brokers_file(account: str) -> Path:
        entry = activemq.entry(account, port=tap.port)
        return write_brokers_file(tmp_path / f"brokers-{account}.json", {"a": entry})

    world = World.make(tmp_path / "world", brokers_file, second)
    name = "beside" + world.suffix
    world.organisation.comparators[name] = fresh_keys()
    comparator = ComparatorProcess.governed(
        tmp_path / "c", world.organisation, name, brokers_file("comparators")
    )
    for agent in world.agents.values():
        with (agent.folder / "agent.toml").open("a") as settings:
            settings.write(f'comparator = "{comparator.socket}"\n')
    yield Site(world, comparator, tap)
    world.close()
    comparator.end()
    tap.close()


def start(world: World) -> None:
    """Start everything, however busy the machine is."""
    for agent in world.agents.values():
        agent.start()
    world.control.push_all(world.organisation)
    world.control.wait_applied(f"comparator:beside{world.suffix}", 1, 90)
    for short in world.agents:
        world.control.wait_applied(world.address(short), 1, 90)
        world.wait_standing(short, "serving", 90)


def held(site: Site, short: str) -> int:
    counters = site.world.agents[short].domain("flights").get("counters", {})
    return int(counters.get("held", 0))


def test_events_are_compared_by_the_comparator_alone(site: Site) -> None:
    world = site.world
    site.comparator.start(90)
    start(world)
    near, far = world.subscriber("p-near"), world.subscriber("p-far")
    public = world.subscriber("p-public")
    near.subscribe("Flight", "delay > 60 && carrier == 'UA'", timeout=90)
    far.subscribe("Flight", "delay < 60 || tail endsWith 'Q'", timeout=90)
    public.subscribe("Flight", "has(tail)", timeout=90)
    publisher = world.publisher("p-airport")
    late = publisher.publish("Flight", LATE, timeout=90).id
    early = publisher.publish("Flight", EARLY, timeout=90).id
    got = near.next_event(60)
    assert got is not None
    assert (got.publication, dict(got.attributes)) == (late, {"carrier": "UA"})
    assert dict(got.withheld) == {"delay": "match-only", "tail": "match-only"}
    assert [event.publication for event in received(far, 1)] == [early]
    assert near.next_event(1) is None
    assert public.next_event(1) is None

    # killed, it holds back what needs it, and nothing passes
    site.comparator.end(signal.SIGKILL)
    handle = publisher.publish_nowait("Flight", LATE)
    wait_until(lambda: held(site, "alpha") > 0, "the event to be held", 60)
    assert near.next_event(1) is None
    site.comparator.start(90)
    again = handle.wait(120).id
    got = near.next_event(60)
    assert got is not None
    assert got.publication == again
    assert far.next_event(1) is None

    data = site.everything()
    for word in WORDS:
        assert word not in data
    for key, _ in world.organisation.order_keys():
        for secret in (key.secret, key.comparator_key().secret):
            assert secret not in data
            assert b64(secret).encode() not in data
