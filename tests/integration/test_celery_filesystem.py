"""Celery's embedded transport loses messages; the outbox does not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.plane import Plane
from tests.support.ports import wait_until
from tests.support.processes import Running, children_of, wait_gone

pytestmark = pytest.mark.slow

KEY = "slow-work:0"


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    plane = Plane(tmp_path / "plane")
    plane.migrate()
    return plane


def kill_all(worker: Running) -> None:
    """Kill a worker and its child at once, as a power failure would."""
    victims = [worker.pid, *children_of(worker.pid)]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    worker.process.wait(30)
    for pid in victims:
        wait_gone(pid, seconds=120)


def answered(worker: Running) -> int:
    """Count the messages about rows that a worker has dealt with."""
    lines = worker.text().splitlines()
    return sum("portcullis.work[" in line and "succeeded" in line for line in lines)


def test_work_of_a_killed_worker_is_done_by_the_next_one(plane: Plane) -> None:
    plane.call("put", "slow-work", 1)
    relay, first = plane.relay(), plane.worker("first")
    workers = [first]
    try:
        wait_until(lambda: len(plane.effects()) == 1, seconds=90, what="the work to begin")
        kill_all(first)
        assert plane.row(KEY) == {"state": "claimed", "attempts": 1, "error": ""}

        plane.open_gate()
        workers.append(plane.worker("second"))
        workers[-1].wait_for_text("ready", seconds=180)
        assert plane.call("age", KEY) == 1
        plane.call("send-sweep")
        wait_until(lambda: plane.row(KEY)["state"] == "done", seconds=180, what="the end")

        plane.call("send-twice", KEY)
        wait_until(
            lambda: answered(workers[-1]) >= 3, seconds=180, what="the doubles to be answered"
        )  # fmt: skip
    finally:
        for process in (relay, *workers):
            process.stop()
    done = [what for what, _, _ in plane.effects()]
    assert done == ["begin", "begin", "end"]
    assert plane.row(KEY) == {"state": "done", "attempts": 2, "error": ""}


def test_a_fresh_claim_is_left_to_its_worker(plane: Plane) -> None:
    plane.call("put", "slow-work", 1)
    relay, worker = plane.relay(), plane.worker("only")
    try:
        wait_until(lambda: len(plane.effects()) == 1, seconds=90, what="the work to begin")
        # The only worker has its hands full: another one sweeps meanwhile.
        plane.call("sweep")
        assert plane.row(KEY)["state"] == "claimed"
        plane.open_gate()
        wait_until(lambda: plane.row(KEY)["state"] == "done", seconds=180, what="the end")
    finally:
        worker.stop()
        relay.stop()
    assert [what for what, _, _ in plane.effects()] == ["begin", "end"]
    assert plane.row(KEY)["attempts"] == 1
