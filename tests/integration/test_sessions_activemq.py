"""Deliveries in sessions between real agents and real clients on real ActiveMQ brokers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokers.adapters.stomp import StompTransport
from policyengine.bundles import OpenedSessions, decode_framed, delivery_queue, open_delivery
from policyengine.errors import RejectedError
from tests.support.agent_processes import World, received
from tests.support.data_plane import PATIENCE, wait_until

pytestmark = pytest.mark.activemq

FLIGHT = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}


@pytest.fixture
def world(tmp_path: Path, brokers_file: Callable[[str], Path]) -> Iterator[World]:
    made = World.make(tmp_path, brokers_file)
    yield made
    made.close()


def reads(world: World, agent: str) -> list[str]:
    """What an agent keeps of what its clients read."""
    file = world.agents[agent].folder / "state" / "subscriptions-reads.json"
    return list(json.loads(file.read_bytes())["reads"]) if file.exists() else []


def test_who_reads_a_queue_of_another_reads_nothing_and_its_owner_everything(
    world: World,
) -> None:
    world.start()
    subscriber, publisher = world.subscriber("p-ua"), world.publisher("p-airport")
    subscriber.subscribe("Flight", timeout=PATIENCE)
    # the client finds out by itself that its agent knows of sessions
    wait_until(lambda: reads(world, "alpha") == ["sessions"], "the agent to be told")
    for delay in (1, 2):
        publisher.publish("Flight", {**FLIGHT, "delay": delay}, timeout=PATIENCE)
    got = [event.attributes["delay"] for event in received(subscriber, 2)]
    assert sorted(got) == [1, 2]
    subscriber.close()

    for _ in range(3):
        publisher.publish("Flight", FLIGHT, timeout=PATIENCE)
    thief = StompTransport(world.broker("a"), name="thief")
    thief.connect(20)
    try:
        thief.subscribe(delivery_queue(world.name("p-ua")))
        taken: list[bytes] = []
        wait_until(
            lambda: (
                taken.extend(one.body for one in thief.receive_many(10, 0.5)) or len(taken) >= 3
            ),
            "three deliveries",
        )
    finally:
        thief.close()
    framed = [decode_framed(body) for body in taken]
    payloads = [payload for kind, payload in framed if kind == "delivery"]
    assert len(payloads) == 3
    opened, clients = OpenedSessions(), world.organisation.clients
    for payload in payloads:
        assert payload[:1] == b"\x80"
        for secret in (b"N14228", b"carrier", b"Flight"):
            assert secret not in payload

        def read(short: str, data: bytes = payload) -> object:
            name = world.name(short)
            return open_delivery(
                data,
                key=clients[name].keys.sealing,
                handle=name,
                verify=lambda agent: world.organisation.agents[agent].keys.signing.public,
                sessions=opened,
            ).attributes["tail"]

        assert read("p-ua") == "N14228"
        for stranger in ("p-dl", "p-faa"):
            with pytest.raises(RejectedError):
                read(stranger)
    assert len(opened) == 1  # one key for all three
