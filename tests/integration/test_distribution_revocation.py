"""A customer is revoked while events flow: real brokers, agents, Celery and Spark."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.client import Publisher, Subscriber
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.distribution_site import Site
from tests.support.ports import wait_until
from tests.support.processes import children_of

pytestmark = [pytest.mark.activemq, pytest.mark.spark, pytest.mark.slow]

REVOKED, KEPT, FAR = "X-104211", "X-104212", "X-118834"


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, activemq_pair: dict[str, ActiveMQ]
) -> Iterator[Site]:
    """One site for all: what a test revokes stays revoked."""
    folder = tmp_path_factory.mktemp("site")

    def brokers_file(account: str) -> Path:
        entries = {name: broker.entry(account) for name, broker in activemq_pair.items()}
        return write_brokers_file(folder / f"brokers-{account}.json", entries)

    made = Site(folder, brokers_file)
    try:
        made.start("heating")
        made.wait_current("heating")
        yield made
    finally:
        made.stop()


class Stream:
    """Publishes numbered readings of some homes until it is stopped."""

    def __init__(self, publisher: Publisher, homes: tuple[str, ...]) -> None:
        self._publisher, self._homes = publisher, homes
        self._end = threading.Event()
        self.accepted: list[int] = []
        self.failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._end.wait(0.1):
            number += 1
            try:
                self._publish(number)
            except Exception as error:  # noqa: BLE001 - shown by the test, whatever it is
                self.failed.append(error)
                return
            self.accepted.append(number)

    def _publish(self, number: int) -> None:
        for home in self._homes:
            reading = {"consumer": home, "value": number / 10, "unit": "celsius"}
            self._publisher.publish("WaterTemperature", reading, timeout=30)

    def count(self) -> int:
        """How many readings of every home were accepted; fails as soon as one was not."""
        assert self.failed == []
        return len(self.accepted)

    def end(self) -> None:
        self._end.set()
        self._thread.join()

    def stop(self) -> None:
        """End it; every reading must have been accepted."""
        self.end()
        assert self.failed == []


class Reader:
    """Collects the numbers that a customer receives."""

    def __init__(self, subscriber: Subscriber, name: str) -> None:
        self.numbers: list[int] = []
        self._name = name
        self._subscriber = subscriber
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            event = self._subscriber.next_event(0.2)
            if event is not None:
                assert event.attributes["consumer"] == self._name
                self.numbers.append(round(event.attributes["value"] * 10))

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


def test_a_revocation_with_spark_while_events_flow(site: Site) -> None:
    profiles = site.profiles
    subscribers = {name: Subscriber(profiles[name]) for name in (REVOKED, KEPT, FAR)}
    publisher = Publisher(profiles["meter-gateway"])
    for subscriber in subscribers.values():
        subscriber.wait_ready(60)
        subscriber.subscribe("WaterTemperature", timeout=60)
    publisher.wait_ready(60)
    readers = {name: Reader(subscriber, name) for name, subscriber in subscribers.items()}
    stream = Stream(publisher, (REVOKED, KEPT, FAR))
    try:
        wait_until(
            lambda: stream.count() >= 5 and len(readers[REVOKED].numbers) >= 5,
            seconds=90, what="events to flow",
        )  # fmt: skip

        uid = site.call("revoke", REVOKED)
        wait_until(
            lambda: "notice-applied" in site.call("revocation", uid)["kinds"],
            seconds=30, what="the notice to be applied",
        )  # fmt: skip
        got = len(readers[REVOKED].numbers)
        found = wait_complete(site, uid)
        after = stream.count()
        wait_until(lambda: stream.count() >= after + 10, seconds=180, what="more events")
        stream.stop()
        wait_until(
            lambda: all(readers[n].numbers[-1:] == stream.accepted[-1:] for n in (KEPT, FAR)),
            seconds=180, what="the last event to arrive",
        )  # fmt: skip
    finally:
        stream.end()
        for reader in readers.values():
            reader.stop()
        for client in (publisher, *subscribers.values()):
            client.close()
    check_streams(readers, stream, got)
    check_record(site, found)


def wait_complete(site: Site, uid: str, seconds: float = 300) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def complete() -> bool:
        found.update(site.call("revocation", uid))
        return bool(found["state"] == "complete")

    wait_until(complete, seconds=seconds, what="the revocation to complete")
    return found


def check_streams(readers: dict[str, Reader], stream: Stream, got: int) -> None:
    # The others miss nothing and get nothing twice, over notice, recompute, both switches.
    assert readers[KEPT].numbers == stream.accepted
    assert readers[FAR].numbers == stream.accepted
    # The revoked one got nothing once its agent had applied the notice (one may be on its way).
    assert got <= len(readers[REVOKED].numbers) <= got + 1
    assert len(readers[REVOKED].numbers) < len(stream.accepted)


def check_record(site: Site, found: dict[str, Any]) -> None:
    receipt = found["receipt"]
    assert receipt["epochs"] == {"from": 1, "to": 2}
    assert receipt["unreachable"] == []
    assert {entry["agent"] for entry in receipt["switches"]} == {"alpha", "beta"}
    assert receipt["notices"][0]["seconds_after_t0"] < 10
    (job,) = site.call("jobs")
    assert job["state"] == "done", job["error"]
    assert {"encoding", "verifying", "done"} <= set(job["stages"])
    assert job["rows"] == receipt["encodings_replaced"] > 0
    assert set(site.call("epochs")) == {"2"}
    # The snapshot's tokens are plain text: nothing of the run is left.
    assert not any((site.folder / "var" / "recompute").iterdir())


def test_a_worker_killed_in_the_middle_of_spark_is_no_end(site: Site) -> None:
    uid = site.call("revoke", KEPT)
    wait_until(lambda: bool(pipelines(site)), seconds=90, what="Spark to run")
    worker = site.parts["worker"]
    for pid in [*children_of(worker.pid), worker.pid]:
        os.kill(pid, signal.SIGKILL)
    worker.process.wait(30)
    site.worker()
    # A minute until the claim counts as stale, then Spark once more.
    found = wait_complete(site, uid, seconds=480)
    assert found["receipt"]["unreachable"] == []
    job = site.call("jobs")[-1]
    assert (job["state"], job["attempts"]) == ("done", 2)


def pipelines(site: Site) -> list[Path]:
    """Progress files of runs that have begun."""
    return list((site.folder / "var" / "recompute").glob("*/progress.jsonl"))
