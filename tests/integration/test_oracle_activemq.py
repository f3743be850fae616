"""On real ActiveMQ everybody gets exactly what a plain reading of policies and filters says.

The sample of `tests/property/test_simulation_oracle.py`: the same drawn organisations and the
same judge, with agents as processes and real clients. A run is one event, published by a real
publisher and judged at every subscriber of its organisation; some client is revoked on the way.

PORTCULLIS_ORACLE_RUNS sets how many runs are tried; PORTCULLIS_ORACLE_SEED from where.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from brokers.client import NotAuthorised
from brokers.simulation.chance import Chance
from brokers.simulation.client import Publication
from tasks.local.activemq import ActiveMQ
from tests.support.sampled import PATIENCE, Cast, Ground
from tests.support.simulated import PROFILES, Profile, Scene

pytestmark = [pytest.mark.activemq, pytest.mark.slow]

RUNS = int(os.environ.get("PORTCULLIS_ORACLE_RUNS", "42"))
SEED = os.environ.get("PORTCULLIS_ORACLE_SEED", "oracle")
SIZE = 6
WRITERS = 2
EVENTS = 4

Given = tuple[str, str, Mapping[str, Any]]
"""(publisher, event type, values)."""


@pytest.fixture(scope="module")
def ground(
    activemq_pair: dict[str, ActiveMQ], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    brokers = {"north": activemq_pair["a"], "south": activemq_pair["b"]}
    made = Ground(tmp_path_factory.mktemp("oracle"), brokers)
    try:
        made.start()
        yield made
    finally:
        made.close()


@dataclass
class Drawn:
    """What is going to happen in one organisation."""

    scene: Scene
    wishes: dict[str, tuple[str, str]] = field(default_factory=dict)
    events: list[Given] = field(default_factory=list)

    @classmethod
    def of(cls, scene: Scene) -> Drawn:
        """Draw subscriptions and events."""
        made = cls(scene)
        made.wishes = {handle: scene.wish(handle) for handle in made.readers}
        for _ in range(EVENTS):
            made.events.append((scene.chance.pick(made.writers), *scene.event()))
        return made

    @property
    def writers(self) -> list[str]:
        """Who publishes."""
        return sorted(self.scene.sites)[:WRITERS]

    @property
    def readers(self) -> list[str]:
        """Who subscribes."""
        return sorted(self.scene.sites)[WRITERS:]

    def deliveries(self) -> list[tuple[str, Given, Mapping[str, Any]]]:
        """(subscriber, event, what it must see of it) of all that must be received."""
        judged = [
            (handle, given, self.scene.expected(handle, Publication("", *given)))
            for given in self.events
            for handle in self.readers
        ]
        return [(handle, given, shown) for handle, given, shown in judged if shown is not None]

    def telling(self) -> bool:
        """Whether some event is received, some is not, and some only in part."""
        found = self.deliveries()
        some = 0 < len(found) < len(self.readers) * len(self.events)
        return some and any(len(shown) < len(values) for _, (_, _, values), shown in found)


def draw(ground: Ground, profile: Profile, seed: str) -> Drawn:
    """The first organisation from a seed in which there is something to see."""
    for number in range(1000):
        scene = ground.scene(Chance(f"{seed}/{number}"), profile=profile, size=SIZE)
        drawn = Drawn.of(scene)
        if drawn.telling():
            return drawn
    raise AssertionError(f"nothing to see in a thousand organisations from {seed}")


def publish(cast: Cast, given: Given) -> Publication:
    """Publish, and wait for what becomes of it."""
    handle, kind, values = given
    try:
        done = cast.writers[handle].publish(kind, values, timeout=PATIENCE)
    except NotAuthorised:
        return Publication("", *given, state="refused")
    return Publication(done.id, *given, state="accepted", dropped=done.dropped)


def play(ground: Ground, drawn: Drawn, cast: Cast) -> list[Publication]:
    """Subscribe, publish, revoke somebody who had something to lose, publish again."""
    for handle, wish in drawn.wishes.items():
        cast.readers[handle].subscriber.subscribe(*wish, timeout=PATIENCE)
    publications = [publish(cast, given) for given in drawn.events]
    ground.settle(cast)
    scene = drawn.scene
    reader, given, _ = scene.chance.pick(drawn.deliveries())
    revoked = scene.chance.pick([reader, given[0]])
    ground.revoke(cast.domain, revoked)
    scene.revoked.add(revoked)
    others = [handle for handle in drawn.writers if handle != revoked]
    # What it had part in comes once more, and something that has nothing to do with it.
    for one in (given, (scene.chance.pick(others), *scene.event())):
        publication = publish(cast, one)
        scene.too_late.add(publication.identifier)
        publications.append(publication)
    ground.settle(cast)
    return publications


def judge(drawn: Drawn, cast: Cast, publications: list[Publication]) -> Counter[str]:
    """Compare what everybody got with the plain reading; count the cases by outcome."""
    scene, outcomes = drawn.scene, Counter[str]()
    for publication in publications:
        permitted = scene.written(publication)
        assert (publication.state == "accepted") == (permitted is not None), publication
        for handle, reader in cast.readers.items():
            event = reader.got.get(publication.identifier)
            expected = scene.expected(handle, publication)
            where = (handle, publication, scene.wishes[handle])
            assert (None if event is None else dict(event.attributes)) == expected, where
            if event is not None:
                assert (event.type, event.publisher, event.domain) == (
                    publication.type, publication.publisher, scene.domain
                ), where  # fmt: skip
                assert not set(event.withheld) & set(event.attributes), where
            outcomes["nothing" if event is None else "received"] += 1
    known = {publication.identifier for publication in publications}
    for reader in cast.readers.values():
        assert set(reader.got) <= known
        assert reader.doubles == []
        assert (reader.subscriber.given_up, reader.subscriber.incomplete) == (0, 0)
    return outcomes


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_real_agents_give_everybody_exactly_what_the_plain_policies_say(
    ground: Ground, profile: Profile
) -> None:
    runs, outcomes = 0, Counter[str]()
    while runs < RUNS / len(PROFILES):
        drawn = draw(ground, profile, f"{SEED}/activemq/{profile.name}/{runs}")
        with ground.playing(drawn.scene, drawn.writers, drawn.readers) as cast:
            publications = play(ground, drawn, cast)
            outcomes += judge(drawn, cast, publications)
        runs += len(publications)
    assert outcomes["received"]
    assert outcomes["nothing"]
    assert [one for one in ground.control.acknowledgements if one.status == "rejected"] == []
