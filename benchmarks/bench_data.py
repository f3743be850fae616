"""The data plane on a real ActiveMQ: latency, throughput, growth and memory (paper 000, section 6).

The paper's three test cases (1 KB with and without access control; 1 KB to 1 MB; 1 to 64 rules),
each event sent when the one before has arrived. Beside ours stand, in the same run, the broker
alone with the same transport and an agent that only copies (`copying_agent`). The paper's agent
added 8 ms.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.aims import Aim
from benchmarks.copying_agent import KEY, message
from benchmarks.delivery_keys import deliveries
from benchmarks.tables import human, table, times
from brokers.adapters.stomp import BrokersFile, StompTransport
from brokers.ports import Outgoing
from policyengine.attributes import AttributeType
from policyengine.events import AttributeSpec, TypeSpec
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import generate_signing_key
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.agent_processes import World
from tests.support.data_plane import Agent, Client, Organisation, Policy

PIECE = 60_000
PIECES = 18
PAPER = 0.008
_numbers = itertools.count()


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Args:
        events: events of each latency.
        burst: events of a throughput.
        payloads: bytes of an event.
        rules: policies that hold for the event.
        known: subscribers that the agent knows.
    """

    events: int
    burst: int
    payloads: tuple[int, ...]
    rules: tuple[int, ...]
    known: tuple[int, ...]


FULL = Sizes(
    1_000, 1_000, (1_000, 10_000, 100_000, 1_000_000), (1, 4, 16, 64), (10, 1_000, 100_000)
)
QUICK = Sizes(50, 300, (1_000, 100_000), (1, 16), (10, 200))


def main(argv: Sequence[str]) -> list[Aim]:
    """Run it; whatever was started is stopped at the end."""
    parser = argparse.ArgumentParser(prog="bench_data", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    sizes = QUICK if parser.parse_args(argv).quick else FULL
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        brokers = {name: ActiveMQ(folder / f"activemq-{name}", name=name) for name in ("a", "b")}
        try:
            for broker in brokers.values():
                broker.start()
            return _measure(folder, partial(_brokers_file, folder, brokers), sizes)
        finally:
            for broker in brokers.values():
                broker.stop()


def _brokers_file(folder: Path, brokers: dict[str, ActiveMQ], account: str) -> Path:
    entries = {name: broker.entry(account) for name, broker in brokers.items()}
    return write_brokers_file(folder / f"brokers-{account}.json", entries)


def _measure(folder: Path, brokers_file: Callable[[str], Path], sizes: Sizes) -> list[Aim]:
    broker = BrokersFile.load(brokers_file("control"))
    plain = Plain(broker)
    copying = Copying(folder, brokers_file, broker)
    try:
        with _ours(folder, brokers_file, rules=1) as ours:
            sealed = _latencies(plain, copying, ours, sizes)
            burst = _throughput(copying, ours, sizes)
        _rules(folder, brokers_file, sizes)
    finally:
        plain.close()
        copying.close()
    _growth(sizes)
    return [*sealed, burst, deliveries()]


# -- the ways of an event ----------------------------------------------------------------------


class Plain:
    """The broker alone: one queue, the same transport."""

    def __init__(self, brokers: BrokersFile) -> None:
        self._queue = f"pc.bench.{os.getpid()}.plain"
        self._sender = StompTransport(brokers.overlay("a"), name="bench-sender")
        self._receiver = StompTransport(brokers.overlay("a"), name="bench-receiver")
        self._sender.connect(20)
        self._receiver.connect(20)
        self._receiver.subscribe(self._queue)

    def once(self, payload: bytes) -> float:
        """Send one event and wait for it; seconds."""
        start = time.perf_counter()
        self._sender.send_many([Outgoing(self._queue, payload)], timeout=20)
        _take(self._receiver, 1)
        return time.perf_counter() - start

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()


class Copying:
    """An agent that only copies, in a process of its own."""

    def __init__(
        self, folder: Path, brokers_file: Callable[[str], Path], brokers: BrokersFile
    ) -> None:
        name = f"pc.bench.{os.getpid()}"
        self._source, self._target, answers = (f"{name}.{end}" for end in ("in", "out", "answers"))
        self._key = generate_signing_key()
        self._sender = StompTransport(brokers.overlay("a"), name="bench-sender")
        self._receiver = StompTransport(brokers.overlay("a"), name="bench-receiver")
        self._answers = StompTransport(brokers.overlay("a"), name="bench-answers")
        for transport, queue in ((self._receiver, self._target), (self._answers, answers)):
            transport.connect(20)
            transport.subscribe(queue, prefetch=1000)
        self._sender.connect(20)
        command = [
            sys.executable, "-m", "benchmarks.copying_agent",
            "--brokers", str(brokers_file("control")), "--overlay", "a",
            "--source", self._source, "--target", self._target, "--answers", answers,
            "--verify", self._key.public.hex(), "--state", str(folder / "copying.sqlite"),
        ]  # fmt: skip
        self.process = subprocess.Popen(command)
        self.once(b"it has started")

    def once(self, payload: bytes) -> float:
        """Send one event and wait for it and for the answer; seconds until it arrived."""
        start = time.perf_counter()
        self._sender.send_many([self._outgoing(payload)], timeout=20)
        _take(self._receiver, 1)
        taken = time.perf_counter() - start
        _take(self._answers, 1)
        return taken

    def burst(self, payload: bytes, count: int) -> float:
        """Events a second, from a queue that is full when it begins."""
        self.process.send_signal(signal.SIGSTOP)
        self._sender.send_many([self._outgoing(payload) for _ in range(count)], timeout=60)
        start = time.perf_counter()
        self.process.send_signal(signal.SIGCONT)
        _take(self._receiver, count)
        taken = time.perf_counter() - start
        _take(self._answers, count)
        return count / taken

    def _outgoing(self, payload: bytes) -> Outgoing:
        key = SYSTEM_RANDOM.token(KEY)
        return Outgoing(self._source, message(key, payload, self._key))

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        for transport in (self._sender, self._receiver, self._answers):
            transport.close()


class Ours:
    """A publisher, its home agent in a process of its own, a subscriber at the same agent."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._subscriber = world.subscriber("p-reader")
        self._subscriber.subscribe("Reading", timeout=30)
        self._publisher = world.publisher("p-meter")
        self._publisher.wait_ready(30)

    def once(self, payload: bytes) -> float:
        """Publish one event and wait until the subscriber has it; seconds."""
        values = _values(payload)
        start = time.perf_counter()
        handle = self._publisher.publish_nowait("Reading", values)
        event = self._subscriber.next_event(30)
        taken = time.perf_counter() - start
        assert event is not None
        assert event.publication == handle.id
        handle.wait(30)
        return taken

    def burst(self, payload: bytes, count: int) -> float:
        """Events a second through agent and subscriber, from a queue that is full at first."""
        agent = self.world.agents["alpha"].process
        assert agent is not None
        values = _values(payload)
        agent.send_signal(signal.SIGSTOP)
        try:
            handles = [self._publisher.publish_nowait("Reading", values) for _ in range(count)]
        finally:
            start = time.perf_counter()
            agent.send_signal(signal.SIGCONT)
        for left in range(count, 0, -1):
            assert self._subscriber.next_event(30), f"{left} of {count} events did not arrive"
        taken = time.perf_counter() - start
        for handle in handles:
            handle.wait(60)
        return count / taken

    def memory(self) -> float:
        """Memory of the agent's process in bytes."""
        agent = self.world.agents["alpha"].process
        assert agent is not None
        for line in Path(f"/proc/{agent.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024.0
        return 0.0


def _take(transport: StompTransport, count: int) -> None:
    """Receive and acknowledge."""
    left, end = count, time.monotonic() + 120
    while left > 0:
        assert time.monotonic() < end, f"{left} of {count} events did not arrive"
        found = transport.receive_many(left, 1.0)
        transport.ack_many(found)
        left -= len(found)


def _values(payload: bytes) -> dict[str, str]:
    text = payload.decode()
    pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
    return {f"text{number}": piece for number, piece in enumerate(pieces)}


@contextmanager
def _ours(
    folder: Path, brokers_file: Callable[[str], Path], *, rules: int, known: int = 0
) -> Iterator[Ours]:
    place = folder / f"world-{next(_numbers)}"
    place.mkdir()
    world = World.make(place, brokers_file, organise, rules=rules, known=known)
    try:
        world.start()
        yield Ours(world)
    finally:
        world.close()


def organise(*, suffix: str = "", rules: int = 1, known: int = 0) -> Organisation:
    """One type, one agent, a meter and its reader, as many policies as wanted that all hold."""
    text = AttributeType("string")
    kind = TypeSpec(
        "Reading", None, tuple(AttributeSpec(f"text{n}", text, ()) for n in range(PIECES))
    )
    policies = [Policy("meters", "publish", "Reading", 'subject.role == "meter"')]
    policies += [
        Policy(f"readers-{number}", "subscribe", "Reading", 'subject.role == "reader"',
               f'!(event.text0 == "no such text {number}")')
        for number in range(rules)
    ]  # fmt: skip
    alpha = "alpha" + suffix
    homes = {"a": alpha}
    others = [
        Client(f"p-{number}{suffix}", {"role": "reader", "company": f"c{number}"}, homes)
        for number in range(known)
    ]
    clients = [
        Client("p-meter" + suffix, {"role": "meter"}, homes),
        Client("p-reader" + suffix, {"role": "reader"}, homes),
        *others,
    ]
    return Organisation(
        domain="bench",
        types=(kind,),
        policies=tuple(policies),
        agents={alpha: Agent(alpha, "a")},
        clients={client.handle: client for client in clients},
    )


# -- the tables --------------------------------------------------------------------------------


def _latencies(plain: Plain, copying: Copying, ours: Ours, sizes: Sizes) -> list[Aim]:
    aims = []
    for size in sizes.payloads:
        events = max(20, sizes.events if size < 500_000 else sizes.events // 10)
        payload = b"x" * size
        found: dict[str, list[float]] = {"plain ActiveMQ": [], "copying agent": [], "ours": []}
        for way in (plain, copying, ours):
            for _ in range(20):
                way.once(payload)
        # One after the other, so that all three see the same weather.
        for _ in range(events):
            for name, way in zip(found, (plain, copying, ours), strict=True):
                found[name].append(way.once(payload))
        base = statistics.median(found["plain ActiveMQ"])
        rows = [_row(name, taken, base) for name, taken in found.items()]
        columns = ["way", "median", "p95", "p99", "added to plain", "distribution, 0 to 4 x median"]
        table(f"publisher to subscriber, {size:,} bytes, {events:,} events each", columns, rows)
        if size == sizes.payloads[0]:
            copied = statistics.median(found["copying agent"]) - base
            added = statistics.median(found["ours"]) - base
            print(f"  sealing, opening and signing alone take {human(_sealing(ours, payload))}")
            print(f"  the paper's agent added {human(PAPER)}, ours {human(added)}")
            aims.append(Aim("added latency at 1 KB", "the paper's 8 ms", 8.0, PAPER / added))
            aims.append(Aim("added latency at 1 KB", "copying agent", 1 / 1.1, copied / added))
    return aims


def _row(name: str, taken: list[float], base: float) -> list[str]:
    ordered = sorted(taken)
    p95, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * q))] for q in (0.95, 0.99))
    middle = statistics.median(ordered)
    return [name, human(middle), human(p95), human(p99), human(max(0.0, middle - base)),
            _drawn(ordered, 4 * middle)]  # fmt: skip


def _drawn(values: list[float], high: float, columns: int = 32) -> str:
    """A histogram of a line: how many values lie where between 0 and `high`."""
    counts = [0] * columns
    for value in values:
        counts[min(columns - 1, int(value / high * columns))] += 1
    shades, most = " .:-=+*#%@", max(counts)
    return "".join(shades[-(-count * 9 // most)] for count in counts)


def _sealing(ours: Ours, payload: bytes) -> float:
    """Seconds for sealing, signing and opening what one event needs, by itself."""
    from policyengine.primitives.hpke import generate_sealing_key, open_sealed, seal_to
    from policyengine.primitives.signatures import sign, verify

    key, signing = generate_sealing_key(), generate_signing_key()
    taken = []
    for _ in range(50):
        start = time.perf_counter()
        for _hop in range(3):  # publication, delivery, answer
            sealed = seal_to(key.public, payload, info=b"bench")
            open_sealed(key, sealed, info=b"bench")
            verify(signing.public, sign(signing, b"bench", payload), b"bench", payload)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def _throughput(copying: Copying, ours: Ours, sizes: Sizes) -> Aim:
    payload = b"x" * 1_000
    copied = copying.burst(payload, sizes.burst)
    own = ours.burst(payload, sizes.burst)
    rows = [
        ["copying agent", f"{copied:,.0f}", times(1.0)],
        ["ours", f"{own:,.0f}", times(own / copied)],
    ]
    table("throughput at 1 KB, persistent", ["way", "events/s", "ratio"], rows)
    print(f"  memory of our agent afterwards: {ours.memory() / 2**20:,.0f} MiB")
    return Aim("throughput at 1 KB", "copying agent", 0.9, own / copied)


def _rules(folder: Path, brokers_file: Callable[[str], Path], sizes: Sizes) -> None:
    payload, rows, first = b"x" * 1_000, [], 0.0
    for rules in sizes.rules:
        with _ours(folder, brokers_file, rules=rules) as ours:
            for _ in range(20):
                ours.once(payload)
            taken = [ours.once(payload) for _ in range(sizes.events)]
            memory = ours.memory()
        middle = statistics.median(taken)
        first = first or middle
        rows.append([f"{rules}", human(middle), times(middle / first), f"{memory / 2**20:.0f} MiB"])
    table("1 KB, rules that hold", ["rules", "median", "of the first", "agent's memory"], rows)


def _growth(sizes: Sizes) -> None:
    """An agent's work for one event by how many subscribers it knows, without a broker."""
    rows, first = [], 0.0
    for known in sizes.known:
        # A process of its own, so that its memory is its own.
        answer = subprocess.run(
            [sys.executable, "-m", "benchmarks.known_subscribers", str(known)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(answer.stdout)
        first = first or found["event"]
        rows.append(
            [f"{known:,}", human(found["event"]), times(found["event"] / first),
             human(found["build"]), f"{found['memory'] / 2**20:,.0f} MiB"]
        )  # fmt: skip
    columns = ["subscribers", "event", "of the first", "snapshot built", "memory"]
    table("an agent's own work for an event of 1 KB, one subscription met", columns, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
