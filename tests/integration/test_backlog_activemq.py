"""A slow subscriber on real ActiveMQ: its queue stays short while a thousand events wait."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from policyengine.bundles import delivery_queue
from tasks.local.activemq import ActiveMQ
from tests.support.agent_processes import World
from tests.support.data_plane import PATIENCE, wait_until
from tests.support.stomp_client import StompClient

pytestmark = pytest.mark.activemq

FLIGHT = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}
WINDOW, EVENTS = 40, 1000
# What agents say to a client beside deliveries: an answer and a question at a time.
BESIDE = 2


@pytest.fixture
def world(tmp_path: Path, brokers_file: Callable[[str], Path]) -> Iterator[World]:
    made = World.make(tmp_path, brokers_file)
    for agent in made.agents.values():
        with (agent.folder / "agent.toml").open("a") as settings:
            settings.write(f"client_window = {WINDOW}\n")
    yield made
    made.close()


class Gauge:
    """Asks a broker again and again how many messages a queue holds."""

    def __init__(self, broker: ActiveMQ, queue: str) -> None:
        self._broker, self._queue = broker, queue
        self._over = threading.Event()
        self.sizes: list[int] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop asking."""
        self._over.set()
        self._thread.join(PATIENCE)

    def _watch(self) -> None:
        with StompClient(self._broker, "control") as client:
            client.connect()
            answers = f"test.sizes.{self._queue}"
            client.subscribe(answers, transformation="jms-map-json")
            while not self._over.wait(0.02):
                asked = f"ActiveMQ.Statistics.Destination.{self._queue}"
                client.send(asked, b"", **{"reply-to": f"/queue/{answers}"})
                answer = client.receive(timeout=PATIENCE)
                if answer is not None:
                    self.sizes.append(_size(answer.body))


def _size(body: bytes) -> int:
    for entry in json.loads(body)["map"]["entry"]:
        if entry.get("string") == "size":
            return int(entry["long"])
    raise AssertionError(f"no size in {body!r}")


def test_a_slow_subscribers_queue_stays_short_though_its_agent_is_killed(
    world: World, activemq: ActiveMQ
) -> None:
    world.start()
    alpha = world.agents["alpha"]
    subscriber = world.subscriber("p-ua")
    subscriber.subscribe("Flight", timeout=PATIENCE)
    gauge = Gauge(activemq, delivery_queue(world.name("p-ua")))
    publisher = world.publisher("p-airport")
    publisher.wait_ready(PATIENCE)
    sent = [publisher.enqueue("Flight", FLIGHT) for _ in range(EVENTS)]
    got: list[str] = []
    for event in subscriber.events(timeout=PATIENCE):
        got.append(event.publication)
        time.sleep(0.004)
        if len(got) == 300:
            # However slow the agent is: nothing more is read before its window is full.
            wait_until(lambda: alpha.domain("flights")["clients_behind"] == 1, "it to be behind")
            wait_until(lambda: max(gauge.sizes, default=0) > WINDOW // 2, "a full queue")
            alpha.kill()
            alpha.start()
        if len(got) == EVENTS:
            break
    gauge.stop()
    assert got == sent
    assert len(gauge.sizes) > 50
    assert WINDOW // 2 < max(gauge.sizes) <= WINDOW + BESIDE
    assert publisher.flush(timeout=PATIENCE)
