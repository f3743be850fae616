"""Simulated agents deliver exactly what a plain reading of policies and filters says.

Each case is one subscriber with its filter and one event of a random organisation. In calm
weather and in trouble (agents, clients and brokers that fall, partitions, lost connections)
nothing that was accepted is lost, nothing comes twice, nothing comes that may not; from a
revocation on nothing comes to, or from, who was revoked.

PORTCULLIS_ORACLE_CASES sets how many cases are tried; PORTCULLIS_ORACLE_SEED from where.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from brokers.simulation.chance import Chance
from brokers.simulation.network import Weather
from brokers.simulation.trouble import Trouble, arrange
from brokers.simulation.world import Conditions, World
from tests.support.simulated import PROFILES, Profile, Scene

CASES = int(os.environ.get("PORTCULLIS_ORACLE_CASES", "1400"))
SEED = os.environ.get("PORTCULLIS_ORACLE_SEED", "oracle")
EVENTS = 15
LATER = 5
LEASE = 30.0
TROUBLE = Trouble(agents=4, clients=4, brokers=1, partitions=2, seconds=20.0, longest=10.0)
WEATHERS = ("calm", "trouble")


def play(scene: Scene, seed: str, weather: str) -> World:
    """Run a scene to its end, everything healed."""
    stormy = weather == "trouble"
    network = Weather(loss=0.02, delay=(0.001, 0.2)) if stormy else Weather()
    world = World(scene.plan, seed, Conditions(weather=network, clock_error=5.0))
    world.start_and_settle()
    for handle in scene.sites:
        world.subscribe(handle, *scene.wish(handle))
    world.settle()
    over = arrange(world, TROUBLE) if stormy else 0.0
    end = world.timeline.now + over
    for _ in range(EVENTS):
        kind, values = scene.event()
        world.publish(scene.chance.pick(sorted(scene.sites)), kind, values)
        world.run(scene.chance.between(0.0, 2 * TROUBLE.seconds / EVENTS) if stormy else 0.1)
    world.run(max(0.0, end - world.timeline.now))
    world.settle()
    revoke(scene, world)
    return world


def revoke(scene: Scene, world: World) -> None:
    """Revoke one client, and publish some more once every agent must have heard of it."""
    revoked = scene.chance.pick(sorted(scene.sites))
    scene.revoked.add(revoked)
    world.control.revoke(revoked)
    world.run(LEASE + 1.0)
    others = [handle for handle in sorted(scene.sites) if handle != revoked]
    for number in range(LATER):
        publisher = scene.chance.pick(others) if number else revoked
        publication = world.publish(publisher, *scene.event())
        scene.too_late.add(publication.identifier)
        world.run(0.5)
    world.settle()


def judge(scene: Scene, world: World) -> Counter[str]:
    """Compare what came of a world with the plain reading; count the cases by outcome."""
    outcomes: Counter[str] = Counter()
    for publication in world.publications:
        permitted = scene.written(publication)
        if publication.state in ("accepted", "refused"):
            assert (publication.state == "accepted") == (permitted is not None), publication
        for handle, client in world.clients.items():
            event = client.handled.events.get(publication.identifier)
            got: Mapping[str, Any] | None = None if event is None else dict(event.attributes)
            expected = scene.expected(handle, publication)
            where = (handle, publication, scene.wishes[handle])
            if publication.state == "forgotten":
                # Its client fell before it had an answer: it may be there or not, never other.
                assert got in (None, expected), where
            else:
                assert got == expected, where
            if event is not None:
                assert event.publisher == publication.publisher
                assert not set(event.withheld) & set(event.attributes)
            outcomes["nothing" if got is None else "received"] += 1
    return outcomes


def check_order(world: World) -> None:
    """Nothing failed, nothing came twice, and nothing lies aside."""
    for client in world.clients.values():
        assert client.handled.doubles == []
        assert sum(client.handled.again.values()) <= client.crashes
        assert client.refused_wishes == {}
        assert client.inbox.given_up == 0
    for agent in world.agents.values():
        assert agent.failures == []
    assert world.control.rejected == []
    assert "dead" not in world.sent


@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_everybody_gets_exactly_what_the_plain_policies_say(profile: Profile, weather: str) -> None:
    share, outcomes, number = CASES / (len(PROFILES) * len(WEATHERS)), Counter[str](), 0
    while outcomes.total() < share or outcomes["received"] < share / 50:
        assert number < 1000, outcomes
        seed = f"{SEED}/{profile.name}/{weather}/{number}"
        scene = Scene(Chance(f"{seed}/scene"), profile)
        world = play(scene, seed, weather)
        outcomes += judge(scene, world)
        check_order(world)
        number += 1
    assert outcomes["nothing"]
