"""Order-preserving matching: the index against brute force, Paillier and an enclave (paper 003).

The paper's workload: four attributes, integers from 0 to 1000, interval subscriptions, events
drawn evenly. Baselines in the same run: brute force in numpy, on the ciphertexts and on the
clear numbers; a matcher in the manner of Nabeel et al. (Paillier; blinding factors cancel in a
product, one product a bound); one in the manner of SCBR (the comparator opens each sealed
subscription). The last two touch every subscription, so that they are measured on a few and
scaled by their number. A bitmap is made when an event first needs it; times are taken after.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import struct
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import phe
from numpy.typing import NDArray

from benchmarks.aims import Aim
from benchmarks.tables import human, seconds, table, times
from policyengine.attributes import AttributeType
from policyengine.ope import (
    COMPACT_ROWS,
    Broker,
    Client,
    EncryptedEvent,
    EncryptedSubscription,
    KeyedComparator,
    OrderTable,
    Question,
    Range,
    TableCipher,
    answers_from_bytes,
    answers_to_bytes,
    cipher_of,
    questions_from_bytes,
    questions_to_bytes,
    sbm1_broker,
    sbm1_client,
    sbm2_broker,
    sbm2_client,
)
from policyengine.primitives.aead import open_, seal
from policyengine.primitives.rand import SYSTEM_RANDOM

KEY = bytes(range(32))
TOP = 1000
NAMES = ("a1", "a2", "a3", "a4")
SCHEMA = {name: AttributeType("int", 0, TOP) for name in NAMES}
EVENTS = 200
BOUNDS = struct.Struct(">8H")


class Workload:
    """Intervals, (attributes, subscriptions) low and high, and events.

    Args:
        count: number of subscriptions.
    """

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(3)
        ends = np.sort(rng.integers(0, TOP + 1, (4, count, 2), dtype=np.uint16), axis=2)
        self.low = np.ascontiguousarray(ends[:, :, 0])
        self.high = np.ascontiguousarray(ends[:, :, 1])
        self.events = rng.integers(0, TOP + 1, (EVENTS, 4)).tolist()

    def encrypted(self, client: Client) -> list[EncryptedEvent]:
        """Encrypt the events."""
        return [client.encrypt_event(dict(zip(NAMES, e, strict=True))) for e in self.events]


def brute(low: NDArray[Any], high: NDArray[Any], values: Sequence[Any]) -> NDArray[np.int64]:
    """Compare an event with every subscription and list those that match."""
    return np.flatnonzero(covering(low, high, values))


def covering(low: NDArray[Any], high: NDArray[Any], values: Sequence[Any]) -> NDArray[np.bool_]:
    """Compare an event with every subscription."""
    hit: NDArray[np.bool_] = low[0] <= values[0]
    hit &= high[0] >= values[0]
    for place in range(1, 4):
        hit &= low[place] <= values[place]
        hit &= high[place] >= values[place]
    return hit


def each(work: Callable[[Any], object], events: Sequence[Any]) -> float:
    """Measure an event's share of matching all of them."""
    return seconds(lambda: [work(event) for event in events]) / len(events)


def subscriptions(load: Workload) -> Iterator[tuple[str, EncryptedSubscription]]:
    """Encrypt the subscriptions with SBM-I's tables."""
    client = sbm1_client(KEY, SCHEMA)
    columns: list[tuple[list[bytes], list[int], list[int]]] = []
    for place, name in enumerate(NAMES):
        cipher = cipher_of(client.layout.columns[name], KEY)
        known = [cipher.encrypt(value) for value in range(TOP + 1)]
        columns.append((known, load.low[place].tolist(), load.high[place].tolist()))
    for number in range(load.low.shape[1]):
        ranges = tuple(
            (name, (Range(known[low[number]], known[high[number]]),))
            for name, (known, low, high) in zip(NAMES, columns, strict=True)
        )
        yield f"s{number}", EncryptedSubscription("sbm1", ranges)


def fill(broker: Broker, load: Workload) -> None:
    """Register the subscriptions in pieces."""
    piece: dict[str, EncryptedSubscription] = {}
    for name, subscription in subscriptions(load):
        piece[name] = subscription
        if len(piece) == 50_000:
            broker.add_many(piece)
            piece = {}
    broker.add_many(piece)


def matching(count: int) -> list[Aim]:
    """Match events with all subscriptions, by index and by brute force."""
    load = Workload(count)
    client = sbm1_client(KEY, SCHEMA)
    events = load.encrypted(client)
    numbers = [
        [np.uint64(int.from_bytes(value, "big")) for _, value in event.values] for event in events
    ]
    tables = [cipher_of(client.layout.columns[name], KEY) for name in NAMES]
    low, high = _concealed(load.low, tables), _concealed(load.high, tables)
    base = each(lambda values: brute(low, high, values), numbers[:20])
    clear = each(lambda values: brute(load.low, load.high, values), load.events[:20])
    mask = each(lambda values: covering(low, high, values), numbers[:20])
    rows = [
        ["brute force on ciphertexts", human(mask), "", human(base), "", ""],
        ["brute force on clear 16-bit numbers", "", "", human(clear), times(base / clear), ""],
    ]
    best, ratio = base, 0.0
    for title, most in (("SBM-I index", 4096), ("SBM-I index, 64 buckets", COMPACT_ROWS)):
        broker = sbm1_broker(rows=most)
        filling = seconds(lambda broker=broker: fill(broker, load), repeat=1)
        index = broker.index
        for event, values in zip(events, numbers, strict=True):
            found = index.match_slots(index.locate(event))
            if not np.array_equal(found, brute(low, high, values)):
                raise AssertionError("the index and brute force disagree")
        met = f"{index.nbytes / 2**20:.0f} MB"
        index.warm()
        slots = each(lambda event, index=index: index.match_slots(index.locate(event)), events)
        bits = each(lambda event, index=index: index.match_bits(index.locate(event)), events)
        best, ratio = min(best, slots), max(ratio, base / slots)
        size = f"{met}, {index.nbytes / 2**20:.0f} MB"
        rows.append(
            [title, human(bits), times(mask / bits), human(slots), times(base / slots), size]
        )
        rows.append([f"  registering all: {human(filling)}", "", "", "", "", ""])
    table(
        f"an event against {count:,} interval subscriptions ({EVENTS} events checked)",
        ["", "bitmap", "ratio", "list", "ratio", f"after {EVENTS} events, all made"],
        rows,
    )
    encrypted = paillier(count)
    table(
        f"matchers that touch each of {count:,} subscriptions (measured on a few, scaled)",
        ["", "an event", "the index is faster"],
        [
            ["Paillier, 1024 bits", human(encrypted), times(encrypted / best)],
            ["all opened in the comparator", human(taken := scbr(count)), times(taken / best)],
        ],
    )
    what = f"subscription index, {count:,} interval subscriptions"
    return [
        Aim(f"{what}, as a list", "brute force in numpy", 10, ratio),
        Aim(f"{what}, as a list", "Paillier", 10_000, encrypted / best),
    ]


def _concealed(numbers: NDArray[np.uint16], ciphers: Sequence[object]) -> NDArray[np.uint64]:
    columns = []
    for plain, cipher in zip(numbers, ciphers, strict=True):
        assert isinstance(cipher, TableCipher)
        columns.append(cipher.table.encrypt(plain))
    return np.stack(columns)


def paillier(count: int, measured: int = 2_000) -> float:
    """Match with encrypted differences, bound by bound, and scale."""
    public, _ = phe.generate_paillier_keypair(n_length=1024)
    n, square = public.n, public.nsquare
    load = Workload(measured)
    blinds = [pow(secrets.randbelow(n), n, square) for _ in NAMES]
    inverses = [pow(blind, -1, square) for blind in blinds]
    factor = secrets.randbelow(2**64) + 1

    def hide(value: int, blind: int) -> int:
        return (1 + n * (value * factor % n)) * blind % square

    low = [[hide(-v, i) for v in row] for row, i in zip(load.low.tolist(), inverses, strict=True)]
    high = [[hide(-v, i) for v in row] for row, i in zip(load.high.tolist(), inverses, strict=True)]
    half = n // 2

    def above(event: int, bound: int) -> bool:
        return (event * bound % square - 1) // n <= half

    def work(values: Sequence[int]) -> list[int]:
        sent = [hide(value, blind) for value, blind in zip(values, blinds, strict=True)]
        less = [hide(value - 1, blind) for value, blind in zip(values, blinds, strict=True)]
        return [
            number
            for number in range(measured)
            if all(
                above(sent[place], low[place][number])
                and not above(less[place], high[place][number])
                for place in range(4)
            )
        ]

    for values in load.events[:5]:
        if work(values) != brute(load.low, load.high, values).tolist():
            raise AssertionError("Paillier and brute force disagree")
    return each(work, load.events[:10]) * count / measured


def scbr(count: int, measured: int = 5_000) -> float:
    """Open every sealed subscription inside the comparator, compare there, and scale."""
    load = Workload(measured)
    ends = np.concatenate((load.low, load.high)).T.tolist()
    sealed = [seal(KEY, BOUNDS.pack(*one), aad=b"", random=SYSTEM_RANDOM) for one in ends]

    def work(values: Sequence[int]) -> list[int]:
        found = []
        for number, data in enumerate(sealed):
            bounds = BOUNDS.unpack(open_(KEY, data, aad=b""))
            if all(bounds[at] <= values[at] <= bounds[at + 4] for at in range(4)):
                found.append(number)
        return found

    return each(work, load.events[:10]) * count / measured


class Elsewhere:
    """A comparator in another process: the owner of the key."""

    def __init__(self) -> None:
        self._line, other = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(target=answer, args=(other,))
        self._process.start()

    def compare(self, questions: Sequence[Question]) -> list[int]:
        """Ask, and wait for the answers."""
        self._line.send_bytes(questions_to_bytes(questions))
        return answers_from_bytes(self._line.recv_bytes(), questions)

    def close(self) -> None:
        """End the process."""
        self._line.send_bytes(b"")
        self._process.join()


def answer(line: Connection) -> None:
    """Answer questions until an empty one comes."""
    comparator = KeyedComparator(KEY)
    while data := line.recv_bytes():
        line.send_bytes(answers_to_bytes(comparator.compare(questions_from_bytes(data))))


def comparing(count: int) -> None:
    """Match by SBM-II: comparator beside the broker, and round trips to the key's owner."""
    load = Workload(count)
    client = sbm2_client(KEY, SCHEMA)
    asked = {
        f"s{number}": client.encrypt_subscription(
            " && ".join(
                f"{name} >= {load.low[place][number]} && {name} <= {load.high[place][number]}"
                for place, name in enumerate(NAMES)
            )
        )
        for number in range(count)
    }
    events = load.encrypted(client)
    owner = Elsewhere()
    rows = []
    base = 0.0
    for title, comparator, search in (
        ("owner of the key, one bound a round trip", owner, "binary"),
        ("owner of the key, 15 bounds a round trip", owner, "wide"),
        ("comparator here, 15 bounds a question", KeyedComparator(KEY), "wide"),
    ):
        broker = sbm2_broker(comparator, search=search)  # type: ignore[arg-type]
        load_time = seconds(lambda broker=broker: broker.add_many(asked), repeat=1)
        for event, values in zip(events, load.events, strict=True):
            if len(broker.match(event)) != brute(load.low, load.high, values).size:
                raise AssertionError("SBM-II and brute force disagree")
        locator: Any = broker.index._locator
        locator.rounds = 0
        taken = each(broker.match, events)
        base = base or taken
        rounds = locator.rounds / EVENTS / 3
        rows.append([title, f"{rounds:.1f}", human(taken), times(base / taken), human(load_time)])
    owner.close()
    table(
        f"SBM-II, an event against {count:,} interval subscriptions",
        ["", "rounds", "an event", "ratio", "registering all"],
        rows,
    )


def encrypting() -> None:
    """Make tables of exact random order-preserving functions."""
    rows = []
    for size in (1001, 65_536, 2**20):
        made = seconds(lambda size=size: OrderTable(KEY, size).table)
        whole = OrderTable(KEY, size)
        values = np.arange(size)
        whole.encrypt(values)
        rate = seconds(lambda whole=whole, values=values: whole.encrypt(values)) / size
        rows.append([f"{size:,} values", human(made), human(rate)])
    table("exact random order-preserving functions", ["", "table", "a value after"], rows)


def memory(count: int) -> None:
    """Weigh what registering subscriptions takes in all, names and bounds included."""
    load = Workload(count)
    tracemalloc.start()
    broker = sbm1_broker(rows=COMPACT_ROWS)
    fill(broker, load)
    broker.index.warm()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"\n  64 buckets, {count:,} subscriptions, everything: {held / 2**20:.0f} MB")


def main(argv: Sequence[str]) -> list[Aim]:
    """Run with sizes from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_ope")
    parser.add_argument("--subscriptions", type=int, default=500_000)
    parser.add_argument("--compared", type=int, default=10_000, help="subscriptions of SBM-II")
    parser.add_argument("--quick", action="store_true", help="a tenth of the subscriptions")
    options = parser.parse_args(argv)
    part = 10 if options.quick else 1
    encrypting()
    aims = matching(options.subscriptions // part)
    memory(options.subscriptions // part // 10)
    comparing(options.compared // part)
    return aims


if __name__ == "__main__":
    main(sys.argv[1:])
