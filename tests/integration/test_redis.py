"""Celery on a real Redis, by configuration alone."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator

import pytest
import redis

from tests.support.plane import Plane
from tests.support.ports import wait_until
from tests.support.processes import Running, children_of
from tests.support.services import Redis

pytestmark = [pytest.mark.redis, pytest.mark.slow]


@pytest.fixture(scope="module")
def plane(redis_server: Redis, tmp_path_factory: pytest.TempPathFactory) -> Plane:
    settings = {
        "PORTCULLIS_CELERY_BROKER_URL": redis_server.url(1),
        "PORTCULLIS_CACHE_URL": redis_server.url(2),
    }
    plane = Plane(tmp_path_factory.mktemp("plane"), settings)
    plane.migrate()
    return plane


@pytest.fixture
def worker(plane: Plane) -> Iterator[Running]:
    process = plane.worker("worker")
    try:
        process.wait_for_text("ready", seconds=180)
        yield process
    finally:
        process.stop()


@pytest.fixture
def queue(redis_server: Redis) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(redis_server.url(1))
    yield client
    client.close()


def test_messages_carry_identifiers_only(plane: Plane, queue: redis.Redis) -> None:
    plane.call("put", "nothing-such", 1)
    plane.manage("relay_outbox", "--once")
    messages = [json.loads(one) for one in queue.lrange("normal", 0, -1)]  # type: ignore[union-attr]
    assert len(messages) == 1
    arguments, options, _ = json.loads(base64.b64decode(messages[0]["body"]))
    assert (arguments, options) == (["nothing-such:0"], {})
    assert messages[0]["headers"]["task"] == "portcullis.work"
    queue.delete("normal")


def test_a_killed_child_gives_its_task_back(plane: Plane, worker: Running) -> None:
    plane.call("put", "slow-work", 1)
    relay = plane.relay()
    try:
        wait_until(lambda: len(plane.effects()) == 1, seconds=180, what="the work to begin")
        what, name, pid = plane.effects()[0]
        assert (what, name) == ("begin", "slow-work-0")
        assert pid in children_of(worker.pid)
        assert plane.row("slow-work:0") == {"state": "claimed", "attempts": 1, "error": ""}

        os.kill(pid, signal.SIGKILL)
        # Its message comes back at once and finds the row claimed: the row waits for the sweep.
        wait_until(lambda: children_of(worker.pid) not in ([], [pid]), seconds=180, what="a child")
        wait_until(lambda: worker.text().count("received") >= 2, seconds=180, what="the message")
        assert worker.process.poll() is None

        plane.open_gate()
        assert plane.call("age", "slow-work:0") == 1
        plane.call("send-sweep")
        wait_until(lambda: plane.row("slow-work:0")["state"] == "done", seconds=180, what="the end")
    finally:
        relay.stop()
    ends = [pid for what, _, pid in plane.effects() if what == "end"]
    assert len(ends) == 1
    assert ends[0] != pid
    assert plane.row("slow-work:0")["attempts"] == 2


def test_nothing_is_written_to_the_embedded_transport(plane: Plane) -> None:
    assert not list((plane.folder / "celery").glob("messages/*"))
