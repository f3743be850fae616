"""Publishers and subscribers on real agents and brokers: second homes, kill -9, poison, asyncio."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from brokers.client import (
    AsyncPublisher,
    AsyncSubscriber,
    BadRequest,
    Event,
    NotAuthorised,
    TimedOut,
)
from brokers.policyctl.errors import Exit
from tests.support.agent_processes import ROOT, World, received
from tests.support.data_plane import PATIENCE, Organisation, Policy, airport, wait_until

pytestmark = pytest.mark.activemq

FLIGHT = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}
_SHELL_SECONDS = 180
_ASKED_AGAIN = 6


def with_second_homes(*, suffix: str = "") -> Organisation:
    """The airport, where alpha and beta stand in for each other."""
    made = airport(suffix=suffix)
    for client in made.clients.values():
        other = "beta" if client.homes["a"].startswith("alpha") else "alpha"
        client.fallbacks = {"a": other + suffix}
    return made


@pytest.fixture
def world(tmp_path: Path, brokers_file: Callable[[str], Path]) -> Iterator[World]:
    made = World.make(tmp_path, brokers_file, with_second_homes)
    yield made
    made.close()


class Program:
    """A client in a process of its own, to be killed."""

    def __init__(self, text: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", text, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def lines(self, count: int) -> list[str]:
        """The next lines that it prints."""
        assert self.process.stdout is not None
        found = [self.process.stdout.readline().strip() for _ in range(count)]
        assert all(found), "it ended before"
        return found

    def kill(self) -> list[str]:
        """kill -9; whole lines that it printed before and nobody read yet."""
        self.process.kill()
        rest, _ = self.process.communicate(timeout=20)
        return [line for line in rest.split("\n")[:-1] if line]


def test_clients_move_to_the_second_agent_and_back(world: World) -> None:
    world.start()
    subscriber = world.subscriber("p-ua", patience=1.5, probe=1.0)
    subscriber.subscribe("Flight", timeout=PATIENCE)
    publisher = world.publisher("p-airport", patience=1.5)
    sent = [publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id]
    assert [event.publication for event in received(subscriber, 1)] == sent
    world.agents["alpha"].kill()  # the home of both
    beta = world.agents["beta"]
    early = publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id
    wait_until(lambda: beta.domain("flights").get("subscriptions") == 1, "the client to move")
    later = [publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id for _ in range(3)]
    got = [event.publication for event in received(subscriber, len(later))]
    assert [name for name in got if name != early] == later
    # What came before the client had moved waits for the home in its queue; what both agents
    # deliver is told apart; and once the home is heard again its stand-in is let go of.
    world.agents["alpha"].start()
    got += [event.publication for event in received(subscriber, 1 + len(later) - len(got))]
    wait_until(lambda: beta.domain("flights").get("subscriptions") == 0, "beta to be let go")
    got += [event.publication for event in received(subscriber, 0)]
    assert sorted(got) == sorted([early, *later])
    late = publisher.publish("Flight", FLIGHT, timeout=PATIENCE).id
    assert [event.publication for event in received(subscriber, 1)] == [late]


OFFLINE = """
import sys
from brokers.client import Publisher
publisher = Publisher(sys.argv[1])
for number in range(1000):
    event = {"carrier": "UA", "origin": "EWR", "delay": number, "tail": "N14228"}
    print(publisher.enqueue("Flight", event), flush=True)
"""


def test_what_was_enqueued_survives_kill_9_and_arrives_once_and_in_order(world: World) -> None:
    kept: list[str] = []
    for _ in range(3):  # nothing else runs yet: the client is offline
        program = Program(OFFLINE, world.profile("p-airport"))
        kept += program.lines(15)
        kept += program.kill()
    world.start()
    subscriber = world.subscriber("p-ua")
    subscriber.subscribe("Flight", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    assert publisher.flush(PATIENCE)
    assert publisher.refused() == []
    got = [event.publication for event in received(subscriber, len(kept))]
    # At most the event that was being written when the process died is there beyond.
    assert len(got) <= len(kept) + 3
    assert [name for name in got if name in set(kept)] == kept
    assert max(Counter(got).values()) == 1


READING = """
import os, sys, time
from brokers.client import Subscriber
log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
subscriber = Subscriber(sys.argv[1])
subscriber.subscribe("Flight", timeout=90)
print("ready", flush=True)
def handle(event):
    os.write(log, event.publication.encode() + b"\\n")
    time.sleep(0.005)
subscriber.run(handle)
"""


def test_a_subscriber_killed_while_it_works_loses_nothing(world: World, tmp_path: Path) -> None:
    world.start()
    log, profile = tmp_path / "handled", world.profile("p-ua")
    program = Program(READING, profile, log)
    program.lines(1)
    publisher = world.publisher("p-airport")
    handles = [publisher.publish_nowait("Flight", FLIGHT) for _ in range(300)]
    kills = 3
    for number in range(1, kills + 1):
        wait_until(lambda at=60 * number: handled(log) >= at, f"event {60 * number}")
        program.kill()
        program = Program(READING, profile, log)
    sent = {handle.wait(PATIENCE).id for handle in handles}
    wait_until(lambda: sent <= set(log.read_text().split()), "every event to arrive")
    program.kill()
    again = Counter(log.read_text().split())
    assert set(again) == sent
    # Each kill may repeat the one event that was in the handler's hands, and no other.
    assert sum(again.values()) - len(sent) <= kills


def handled(log: Path) -> int:
    """How many events were handled so far."""
    return len(log.read_text().split()) if log.exists() else 0


def test_a_poison_event_is_put_aside_and_holds_up_nothing(world: World) -> None:
    world.start()
    subscriber = world.subscriber("p-ua", attempts=2)
    subscriber.subscribe("Flight", timeout=PATIENCE)
    publisher = world.publisher("p-airport")
    bad = publisher.publish("Flight", {**FLIGHT, "delay": 666}, timeout=PATIENCE).id
    good = {publisher.publish("Flight", FLIGHT).id for _ in range(3)}
    seen: list[str] = []

    def handle(event: Event) -> None:
        if event.attributes["delay"] == 666:
            raise ValueError("cannot store it")
        seen.append(event.publication)

    handled = 0

    def through() -> bool:
        nonlocal handled
        handled += subscriber.run(handle, timeout=1)
        return handled >= 3 and bool(subscriber.aside())

    wait_until(through, "the good ones to be handled and the bad one to be put aside")
    assert handled + subscriber.run(handle, timeout=4) == 3
    assert set(seen) == good
    (aside,) = subscriber.aside()
    assert (aside.event.publication, aside.attempts) == (bad, 2)
    assert aside.error == "ValueError: cannot store it"
    subscriber.forget_aside(bad)
    assert subscriber.aside() == []


def test_asyncio_publishes_many_at_once_and_reads_them(world: World) -> None:
    world.start()

    async def play() -> tuple[set[str], list[str]]:
        async with AsyncSubscriber(world.profile("p-ua")) as subscriber:
            await subscriber.subscribe("Flight", timeout=PATIENCE)
            async with AsyncPublisher(world.profile("p-airport")) as publisher:
                await publisher.wait_ready(PATIENCE)
                done = await asyncio.gather(
                    *(publisher.publish("Flight", FLIGHT, timeout=PATIENCE) for _ in range(50))
                )
                kept = await publisher.enqueue("Flight", FLIGHT)
                assert await publisher.flush(PATIENCE)
            got: list[str] = []

            async def handle(event: Event) -> None:
                got.append(event.publication)

            await subscriber.run(handle, count=51, timeout=PATIENCE)
            return {one.id for one in done} | {kept}, got

    sent, got = asyncio.run(play())
    assert sorted(got) == sorted(sent)


def test_refusals_say_why(world: World) -> None:
    world.start()
    publisher = world.publisher("p-kiosk")
    with pytest.raises(NotAuthorised) as refused:
        publisher.publish("Flight", FLIGHT, timeout=PATIENCE)
    assert refused.value.reason == "not-authorised"
    done = publisher.publish("Departure", {**FLIGHT, "gate": "B7"})
    assert set(done.dropped) == {"origin", "delay", "tail"}
    with pytest.raises(BadRequest) as unknown:
        world.publisher("p-airport").publish("Train", {"carrier": "UA"}, timeout=PATIENCE)
    assert unknown.value.reason == "unknown-type"
    publisher.enqueue("Flight", FLIGHT)
    assert publisher.flush(PATIENCE)
    (one,) = publisher.refused()
    assert (one.type, one.values, one.reason) == ("Flight", FLIGHT, "not-authorised")
    world.agents["alpha"].kill()
    world.agents["beta"].kill()
    with pytest.raises(TimedOut):
        publisher.publish("Departure", FLIGHT, timeout=1)


def harbour(of: Organisation, *guests: str) -> Organisation:
    """Another domain at the same agents and brokers, with guests from the first."""
    return replace(
        airport(suffix=""),
        domain="harbour",
        policies=(
            Policy("all-publish", "publish", "Flight", 'subject.role == "airport"'),
            Policy("guests", "subscribe", "Flight", 'subject.role == "airline"', "", ("delay",)),
        ),
        agents=of.agents,
        clients={name: of.clients[name] for name in guests},
        key_holders={"tail-key": tuple(of.agents)},
        authority=of.authority,
    )


def test_a_guest_takes_part_in_another_domain(world: World) -> None:
    other = harbour(world.organisation, world.name("p-ua"), world.name("p-airport"))
    world.others.append(other)
    world.start()
    world.control.push_all(other)
    subscriber, publisher = world.subscriber("p-ua"), world.publisher("p-airport")
    subscriber.wait_ready(PATIENCE, domain="harbour")
    publisher.wait_ready(PATIENCE, domain="harbour")
    assert subscriber.domains == ("flights", "harbour")
    subscriber.subscribe("Flight", "delay > 100", timeout=20, domain="harbour")
    wanted = publisher.publish("Flight", {**FLIGHT, "carrier": "AA"}, timeout=20, domain="harbour")
    publisher.publish("Flight", {**FLIGHT, "delay": 1}, timeout=20, domain="harbour")
    publisher.publish("Flight", FLIGHT, timeout=PATIENCE)  # at home it did not subscribe
    (event,) = received(subscriber, 1)
    assert (event.publication, event.domain) == (wanted.id, "harbour")
    assert dict(event.attributes) == {"delay": 130}


def shell(*words: object) -> subprocess.Popen[str]:
    """`policyctl` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "brokers.policyctl", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_shell_takes_part(world: World) -> None:
    world.start()
    taken = ("subscribe", "Flight", "delay > 100", "--profile", world.profile("p-ua"))
    # Durable: what comes while nobody listens is there the next time.
    first = shell(*taken, "--idle", "1")
    assert (*first.communicate(timeout=_SHELL_SECONDS), first.returncode) == ("", "", Exit.OK)
    lines = [
        {"type": "Flight", "attributes": FLIGHT},
        {"type": "Flight", "attributes": {**FLIGHT, "delay": 1}},
        {"type": "Train", "attributes": {}},
        {"type": "Flight", "attributes": {**FLIGHT, "delay": 200}},
    ]
    given = shell("publish", "--profile", world.profile("p-airport"))
    out, err = given.communicate(
        "".join(json.dumps(line) + "\n" for line in lines), timeout=_SHELL_SECONDS
    )
    told = {one["line"]: one for one in map(json.loads, out.splitlines())}
    assert [told[n]["accepted"] for n in (1, 2, 3, 4)] == [True, True, False, True], err
    assert (told[3]["reason"], given.returncode) == ("unknown-type", Exit.ERROR)
    # Killed in the middle: nothing that was not written is gone.
    reader = shell(*taken)
    assert reader.stdout is not None
    seen = [reader.stdout.readline()]
    reader.kill()
    rest, _ = reader.communicate(timeout=_SHELL_SECONDS)
    events = [json.loads(line) for line in [*seen, *rest.splitlines()]]
    wanted = {told[1]["id"], told[4]["id"]}
    for _ in range(_ASKED_AGAIN):
        leave = ("--leave",) if wanted <= {one["publication"] for one in events} else ()
        last = shell(*taken, "--idle", "3", *leave)
        out, err = last.communicate(timeout=_SHELL_SECONDS)
        assert (last.returncode, err) == (Exit.OK, "")
        events += [json.loads(line) for line in out.splitlines()]
        if leave:
            break
    assert {one["publication"] for one in events} == wanted
    assert len(events) <= 3
    assert {one["attributes"]["delay"] for one in events} == {130, 200}
    kept = shell("publish", "--durable", "--type", "Flight", "--profile", world.profile("p-kiosk"))
    out, _ = kept.communicate(json.dumps(FLIGHT) + "\n", timeout=_SHELL_SECONDS)
    first_line, refused = map(json.loads, out.splitlines())
    assert first_line == {"line": 1, "id": refused["id"], "kept": True}
    assert (refused["reason"], kept.returncode) == ("not-authorised", Exit.REFUSED)
