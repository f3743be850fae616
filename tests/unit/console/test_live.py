"""The fan-out of live pages: one reader, many streams, nothing told to who may not know."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adminapp.console import live
from adminapp.distribution import activity, marks
from adminapp.distribution.models import ActivityRun, Recipient
from adminapp.enrolment import services as enrolment
from adminapp.policies import services as policies
from tests.support.control_plane import World

SECONDS = 60.0
"""For what takes a moment, on a machine that has much else to do."""


class Source:
    """Marks that a test changes; counts how often and where they are read."""

    def __init__(self) -> None:
        self.marks = {"agents": "1", "jobs:flights": "1", "jobs:heating": "1"}
        self.reads = 0
        self.threads: set[int] = set()

    def __call__(self) -> dict[str, str]:
        self.reads += 1
        self.threads.add(threading.get_ident())
        return dict(self.marks)

    async def told(self) -> None:
        """Wait until what the marks are now was read, and told to all who listen."""
        # The read under way may have begun before; the next has been told when another begins.
        wanted = self.reads + 2
        while self.reads < wanted:
            await asyncio.sleep(0.005)


def run(test: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner() as runner:
        runner.run(asyncio.wait_for(test, SECONDS))


@pytest.fixture
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PULSE_SECONDS", 0.1)


async def until(stream: AsyncIterator[bytes], wanted: bytes) -> bytes:
    async for event in stream:
        if wanted in event:
            return event
    raise AssertionError(f"the stream ended without {wanted!r}")


@pytest.mark.usefixtures("_fast")
def test_a_change_is_told_to_those_who_may_know() -> None:
    async def test() -> None:
        source = Source()
        hub = live.Hub(source, every=0.02)
        flights = live.events(hub, frozenset({"flights"}), lifetime=60)
        heating = live.events(hub, frozenset({"heating"}), lifetime=60)
        for stream in (flights, heating):
            assert b"event: ready" in await anext(stream)
        await until(flights, b"pulse")
        await source.told()
        source.marks["jobs:flights"] = "2"
        assert b'"jobs:flights"' in await until(flights, b"changed")
        source.marks["agents"] = "2"
        seen = await until(heating, b"changed")
        assert b'{"topics":["agents"]}' in seen
        for stream in (flights, heating):
            await stream.aclose()
        assert len(hub) == 0

    run(test())


def test_many_streams_cost_one_reader_in_one_thread() -> None:
    async def test() -> None:
        source, every = Source(), 0.02
        begun = time.monotonic()
        hub = live.Hub(source, every=every)
        streams = [live.events(hub, frozenset(), lifetime=60) for _ in range(200)]
        for stream in streams:
            await anext(stream)
        while source.reads < 10:
            await asyncio.sleep(every)
        # One reader alone, whatever time the machine takes: it rests after each time.
        assert source.reads <= 1 + (time.monotonic() - begun) / every
        assert len(source.threads) == 1
        assert threading.get_ident() not in source.threads
        for stream in streams:
            await stream.aclose()
        reads = source.reads
        await asyncio.sleep(0.1)
        assert source.reads - reads <= 1, "nobody listens, so nobody reads"

    run(test())


def test_a_slow_page_is_told_everything_at_once() -> None:
    async def test() -> None:
        source = Source()
        hub = live.Hub(source, every=0.01)
        subscription = hub.subscribe()
        await source.told()
        for number in range(20):
            source.marks["agents"] = str(number + 2)
            source.marks[f"jobs:{number % 2}"] = str(number)
            await source.told()
        assert await subscription.next(1) == {"agents", "jobs:0", "jobs:1"}
        assert await subscription.next(0.05) is None
        hub.unsubscribe(subscription)

    run(test())


@pytest.mark.usefixtures("_fast")
def test_the_reader_survives_a_database_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        source, broken = Source(), True

        def read() -> dict[str, str]:
            if broken:
                raise OSError("away")
            return source()

        hub = live.Hub(read, every=0.02)
        stream = live.events(hub, frozenset({"flights"}), lifetime=60)
        await until(stream, b"pulse")
        broken = False
        await source.told()
        source.marks["agents"] = "2"
        await until(stream, b"changed")
        await stream.aclose()

    run(test())
    assert "the marks cannot be read" in caplog.text


def test_a_stop_ends_every_stream() -> None:
    async def test() -> None:
        hub = live.Hub(Source(), every=0.02)
        stream = live.events(hub, frozenset(), lifetime=60)
        await anext(stream)
        asyncio.get_running_loop().call_later(0.05, hub.stop)
        assert [event async for event in stream] == []

    run(test())


@pytest.mark.usefixtures("_fast")
def test_a_stream_ends_after_its_time_so_that_rights_are_asked_for_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed)
    monkeypatch.setattr(live, "time", clock)

    async def test() -> None:
        nonlocal passed
        hub = live.Hub(Source(), every=0.02)
        stream = live.events(hub, frozenset(), lifetime=600)
        assert b"ready" in await anext(stream)
        for _ in range(2):
            assert b"pulse" in await anext(stream)
        passed = 600.0
        assert [event async for event in stream] == []
        assert len(hub) == 0

    run(test())


@pytest.fixture
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in live.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_handlers")
def test_the_servers_own_handler_runs_after_the_streams_were_told() -> None:
    seen: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))

    async def test() -> None:
        hub = live.hub()
        assert live.hub() is hub
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0.05)
        assert hub.stopping

    run(test())
    assert seen == [signal.SIGTERM]


# -- marks -----------------------------------------------------------------------------------


@pytest.mark.django_db
def test_marks_tell_which_domain_changed(world: World) -> None:
    before = marks.read()
    policies.update_policy(actor=world.manager, policy=world.policy, data={"title": "New"})
    after = marks.read()
    changed = {topic for topic in after if before[topic] != after[topic]}
    assert changed == {"domain:flights", "audit"}


@pytest.mark.django_db
def test_an_agent_that_falls_silent_is_told_though_nobody_writes_anything(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    Recipient.objects.create(
        audience="agent:alpha",
        domain=world.flights,
        last_seen=now,
        leased_until=now + timedelta(seconds=30),
    )
    before = marks.read()
    assert marks.read() == before
    monkeypatch.setattr(marks.timezone, "now", lambda: now + timedelta(seconds=31))
    after = marks.read()
    assert {topic for topic in after if before[topic] != after[topic]} == {"agents"}


@pytest.mark.django_db
def test_leases_of_every_few_seconds_do_not_draw_pages_anew_each_time(world: World) -> None:
    start = timezone.now().replace(microsecond=0)
    start -= timedelta(seconds=start.timestamp() % marks.SEEN_SECONDS)
    row = Recipient.objects.create(audience="agent:alpha", domain=world.flights, last_seen=start)
    told = set()
    for second in range(marks.SEEN_SECONDS):
        Recipient.objects.filter(pk=row.pk).update(last_seen=start + timedelta(seconds=second))
        told.add(marks.read()["agents"])
    assert len(told) == 1
    later = start + timedelta(seconds=marks.SEEN_SECONDS)
    Recipient.objects.filter(pk=row.pk).update(last_seen=later)
    assert marks.read()["agents"] not in told


@pytest.mark.django_db
def test_counts_of_decision_logs_and_requests_to_take_part_are_told(world: World) -> None:
    before = marks.read()
    run = ActivityRun.objects.create(domain=world.flights, cause="asked")
    begun = marks.read()
    assert {topic for topic in begun if before[topic] != begun[topic]} == {"jobs:flights"}
    activity.take(run.pk)
    taken = marks.read()
    assert {topic for topic in taken if begun[topic] != taken[topic]} == {"jobs:flights"}
    enrolment.create_fleet(
        actor=world.operator,
        name="edge",
        overlay=world.overlay_a,
        pattern="edge-*",
        most=3,
        ends=timezone.now() + timedelta(days=1),
    )
    assert marks.read()["enrolments"] != taken["enrolments"]


@pytest.mark.django_db
def test_marks_cost_the_same_for_many_domains(world: World) -> None:
    from adminapp.identity import services as identity

    with CaptureQueriesContext(connection) as few:
        marks.read()
    for number in range(20):
        identity.create_domain(actor=world.operator, name=f"d{number}", title="More")
    with CaptureQueriesContext(connection) as many:
        marks.read()
    assert len(many) == len(few)


@pytest.mark.django_db
def test_a_stream_is_for_people_who_are_signed_in() -> None:
    assert Client().get("/live/").status_code == 403
