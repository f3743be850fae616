"""Agents and clients by their certificates alone, on the ActiveMQ that the model renders."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from adminapp.distribution.standing import Standing, StandingAgent, StandingClient
from brokers.client import Subscriber
from policyengine.bundles import delivery_queue, publish_queue
from tasks.local.activemq import TlsClient, write_brokers_file
from tests.support.agent_processes import World, received
from tests.support.certificates import Issuer, named
from tests.support.data_plane import PATIENCE, Organisation, airport, wait_until
from tests.support.rendered import Rendered

pytestmark = pytest.mark.activemq

FLIGHT = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}


def one_overlay(*, suffix: str = "") -> Organisation:
    """The airport without its second overlay."""
    made = airport(suffix=suffix)
    del made.agents["gamma" + suffix]
    for client in made.clients.values():
        client.homes = {"a": client.homes["a"]}
    made.key_holders = {"tail-key": tuple(made.agents)}
    return made


def standing(organised: Organisation) -> Standing:
    """Who may stand at the broker, as the administration model would say it."""
    return Standing(
        tuple(StandingAgent(name, "a", (organised.domain,)) for name in organised.agents),
        tuple(
            StandingClient(handle, "", organised.domain, tuple(client.homes.items()))
            for handle, client in organised.clients.items()
        ),
    )


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[World, Rendered]]:
    """Nobody has a password; each agent and client has a certificate of its own."""
    (tmp_path / "amq").mkdir()
    (tmp_path / "issuer").mkdir()
    issuer = Issuer(tmp_path / "issuer")
    broker = Rendered(
        tmp_path / "amq", issuer, {"control": issuer.issue(named("control", "control"))}
    )

    def brokers_file(who: str) -> Path:
        # Agents name their files in agent.toml; the file for all of them has none to show.
        files = broker.certificates.get(who, TlsClient(broker.certificates["control"].ca, "", ""))
        entry = {"host": broker.host, "port": broker.port, "tls": vars(files)}
        return write_brokers_file(tmp_path / f"brokers-{who}.json", {"a": entry})

    world = World.make(tmp_path, brokers_file, one_overlay)
    for name in world.organisation.agents:
        files = broker.certificates[name] = issuer.issue(named(name, "agents"))
        settings = "".join(f'{key} = "{path}"\n' for key, path in vars(files).items())
        with (tmp_path / name / "agent.toml").open("a") as toml:
            toml.write(f"[tls]\n{settings}")
    for handle in world.organisation.clients:
        broker.certificates[handle] = issuer.issue(named(handle, "clients"))
        profile = tmp_path / handle / "profile.json"
        document = {**json.loads(profile.read_text()), "brokers_file": str(brokers_file(handle))}
        profile.write_text(json.dumps(document))
    try:
        with broker.running(standing(world.organisation)):
            yield world, broker
            world.close()
    finally:
        world.close()


def _received(subscriber: Subscriber, count: int) -> list[str]:
    return [one.publication for one in received(subscriber, count)]


def test_events_travel_by_certificates_and_a_wrong_client_is_refused(
    secured: tuple[World, Rendered],
) -> None:
    world, broker = secured
    world.start()
    near, far = world.subscriber("p-ua"), world.subscriber("p-faa")
    for subscriber in (near, far):
        subscriber.subscribe("Flight", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    ids = [publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id for _ in range(5)]
    assert _received(near, 5) == ids
    assert sorted(_received(far, 5)) == sorted(ids)
    # A client of the same house, with a good certificate, on the queues of others.
    victim, home = world.name("p-ua"), world.name("alpha")
    for verb, queue in (
        ("subscribe", delivery_queue(victim)),
        ("subscribe", publish_queue(home, "flights")),
        ("send", delivery_queue(victim)),
        ("send", publish_queue(world.name("beta"), "flights")),
    ):
        with broker.client(world.name("p-nobody")) as wrong:
            assert wrong.connect().command == "CONNECTED"
            answer = wrong.send(queue, b"x") if verb == "send" else wrong.subscribe(queue)
            assert answer.command == "ERROR", (verb, queue)
    # What it may send, its own home agent refuses, and puts aside with the reason.
    with broker.client(world.name("p-nobody")) as wrong:
        wrong.connect()
        assert wrong.send(publish_queue(home, "flights"), b"forged").command == "RECEIPT"
    refusals = world.agents["alpha"].domain
    wait_until(lambda: refusals("flights")["refusals"] == {"malformed": 1}, "it to be refused")
    assert [one.publication for one in near.events(timeout=1)] == []


def test_agents_stop_cleanly_in_the_middle_of_their_work(secured: tuple[World, Rendered]) -> None:
    world, broker = secured
    world.start()
    near = world.subscriber("p-ua")
    near.subscribe("Flight", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    publisher.wait_ready(PATIENCE)
    ids = [publisher.enqueue("Flight", FLIGHT) for _ in range(100)]
    assert world.agents["alpha"].end() == 0
    said = [json.loads(line) for line in world.agents["alpha"].log().splitlines()]
    assert said[-1]["event"] == "stopped"
    ids += [publisher.enqueue("Flight", FLIGHT) for _ in range(20)]
    world.agents["alpha"].start()
    assert publisher.flush(60)
    assert sorted(_received(near, 120)) == sorted(ids)
    # Its certificate is what let it in: an agent without one does not connect.
    bare = ssl.create_default_context(cafile=broker.certificates["control"].ca)
    with pytest.raises(OSError), broker.bare(world.name("alpha"), bare) as client:
        client.connect()
