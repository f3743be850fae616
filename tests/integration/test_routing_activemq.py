"""Three agents of one overlay on a real ActiveMQ: who is sent what, restarts, kill -9."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from policyengine.bundles import rendezvous
from tests.support.agent_processes import World, received
from tests.support.data_plane import PATIENCE, Agent, Client, Organisation, airport, wait_until

pytestmark = pytest.mark.activemq

FLIGHT = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}
OVERLAY = ("alpha", "beta", "delta")


def three(*, suffix: str = "") -> Organisation:
    """The airport with a third agent on overlay `a`, the home of a second UA client."""
    made = airport(suffix=suffix)
    delta, far = "delta" + suffix, "p-far" + suffix
    made.agents[delta] = Agent(delta, "a")
    gamma = "gamma" + suffix
    subject = {"role": "airline", "company": "UA"}
    made.clients[far] = Client(far, subject, {"a": delta, "b": gamma})
    return made


@pytest.fixture
def world(tmp_path: Path, brokers_file: Callable[[str], Path]) -> Iterator[World]:
    made = World.make(tmp_path, brokers_file, three)
    yield made
    made.close()


def counter(world: World, short: str, what: str) -> int:
    return int(world.agents[short].domain("flights").get("counters", {}).get(what, 0))


def total(world: World, what: str) -> int:
    return sum(counter(world, short, what) for short in OVERLAY)


def settled(world: World) -> None:
    """Wait until each agent has heard the two others."""
    for short in OVERLAY:
        wait_until(lambda short=short: counter(world, short, "interests") >= 2, f"{short} to hear")


def test_events_go_only_where_somebody_wants_them(world: World) -> None:
    world.start()
    settled(world)
    near, far = world.subscriber("p-ua"), world.subscriber("p-far")
    publisher = world.publisher("p-airport")
    nobody = [publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id for _ in range(5)]
    names = [world.name(short) for short in OVERLAY]
    carrier = rendezvous("flights", "Flight", names)[0].removesuffix(world.suffix)
    wait_until(lambda: counter(world, carrier, "distributed") == 5, "all to be distributed")
    others = set(OVERLAY) - {"alpha", carrier}
    wait_until(lambda: total(world, "saved") == 5 * len(others), "what was spared to be counted")
    assert all(counter(world, short, "hops") == 0 for short in others)
    # Published at once after the reply, and nowhere lost.
    far.subscribe("Flight", "delay > 100", timeout=PATIENCE)
    wanted = [publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id for _ in range(5)]
    near.subscribe("Flight", timeout=PATIENCE)
    early = publisher.publish("Flight", {**FLIGHT, "delay": 1}, timeout=PATIENCE).id
    assert [event.publication for event in received(far, 5)] == wanted
    assert [event.publication for event in received(near, 1)] == [early]
    assert not set(wanted) & set(nobody)
    assert total(world, "rerouted") == 0


def test_agents_that_die_and_come_back_lose_no_event_and_no_interest(world: World) -> None:
    world.start()
    settled(world)
    far = world.subscriber("p-far")
    far.subscribe("Flight", "delay > 100", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    ids = [publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id]
    for short in ("beta", "delta", "alpha"):
        world.agents[short].kill()
        if short != "alpha":  # the publisher's own home
            ids += [publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id for _ in range(3)]
        world.agents[short].start()
        world.wait_standing(short, "serving")
        ids += [publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id for _ in range(3)]
    assert sorted(event.publication for event in received(far, len(ids))) == sorted(ids)


def test_a_rendezvous_agent_that_stays_away_holds_nothing_up(world: World) -> None:
    world.start()
    settled(world)
    names = [world.name(short) for short in OVERLAY]
    carriers = {
        kind: rendezvous("flights", kind, names)[0].removesuffix(world.suffix)
        for kind in ("Flight", "Departure")
    }
    far = world.subscriber("p-far")
    far.subscribe("Flight", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    publisher.wait_ready(PATIENCE)
    world.agents["beta"].kill()
    ids = [publisher.publish(kind, FLIGHT, timeout=PATIENCE).id for kind in carriers]
    got = sorted(event.publication for event in received(far, len(ids)))
    assert got == sorted(ids), f"around beta, with rendezvous agents {carriers}"
    if "beta" in carriers.values():  # what goes another way is sent before it is counted
        wait_until(lambda: counter(world, "alpha", "rerouted") > 0, "it to be counted")
    else:
        assert counter(world, "alpha", "rerouted") == 0
    world.agents["beta"].start()
    world.wait_standing("beta", "serving")
    assert list(far.events(timeout=3)) == []
