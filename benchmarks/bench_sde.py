"""Searchable encryption: what each step costs, and what remembering trapdoors saves (paper 001).

The baseline of matching is the paper's own form (section 5.4): for every event, walk the
tree of every filter and compare its leaves with the event's trapdoors until the result is
certain, nothing kept from one event to the next.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median

from benchmarks.aims import Aim
from benchmarks.tables import human, seconds, table, times
from policyengine.attributes import (
    AttributeType,
    Schema,
    Value,
    access_tree,
    leaves,
    parse,
)
from policyengine.sde import (
    EncryptedEvent,
    EncryptedFilter,
    GroupName,
    MasterKey,
    Matcher,
    Shares,
    UserEvent,
    UserFilter,
    UserKey,
    encrypt_event,
    encrypt_filter,
    init,
    keygen,
    matches,
)
from policyengine.sde.matching import Target, inverse_of

LEAVES = 2_649
SPAN = 256
SCHEMA: Schema = {
    "symbol": AttributeType("enum", values=tuple(f"S{number}" for number in range(40))),
    "price": AttributeType("int", 0, SPAN - 1),
    "volume": AttributeType("int", 0, SPAN - 1),
    "market": AttributeType("enum", values=("XETR", "XNYS", "XLON", "XTKS", "XPAR")),
}


def quotes() -> Iterator[dict[str, Value]]:
    """Give events whose values come again, as those of a market do."""
    for number in itertools.count():
        yield {
            "symbol": f"S{number * 7 % 40}",
            "price": number * 37 % SPAN,
            "volume": number * 101 % SPAN,
            "market": ("XETR", "XNYS", "XLON", "XTKS", "XPAR")[number % 5],
        }


def wishes() -> Iterator[str]:
    """Give filters: a symbol, a range of prices, now and then more."""
    for number in itertools.count():
        low = number * 53 % 200
        text = (
            f'symbol == "S{number * 3 % 40}" && price > {low} && price <= {low + 17 + number % 100}'
        )
        if number % 3 == 0:
            text += f" && volume >= {number * 29 % 220}"
        if number % 4 == 0:
            text = f'({text}) || (market == "XETR" && volume < {1 + number % 9})'
        yield text


class Site:
    """A publisher, a subscriber and their broker."""

    def __init__(self, group: GroupName) -> None:
        self.master: MasterKey = init(group)
        self.broker = Shares()
        self.publisher = self._user("publisher")
        self.subscriber = self._user("subscriber")

    def _user(self, name: str) -> UserKey:
        key, share = keygen(self.master, name)
        self.broker.add(share)
        return key

    def event(self, values: dict[str, Value]) -> EncryptedEvent:
        """Encrypt an event, both halves."""
        return self.broker.event(encrypt_event(self.publisher, values, SCHEMA).event)

    def filters(self, most: int) -> list[EncryptedFilter]:
        """Encrypt filters until they have so many leaves."""
        found: list[EncryptedFilter] = []
        left = most
        for text in wishes():
            tree = access_tree(parse(text, SCHEMA), SCHEMA)
            left -= sum(1 for _ in leaves(tree))
            found.append(self.broker.filter(encrypt_filter(self.subscriber, tree).filter))
            if left <= 0:
                return found
        raise AssertionError("the filters never end")


def steps(group: GroupName) -> list[list[str]]:
    """Measure the parts of one trapdoor and one leaf."""
    site = Site(group)
    _, values = quotes(), next(quotes())
    prepared = encrypt_event(site.publisher, values, SCHEMA).event
    count = len(prepared.trapdoors)
    tree = access_tree(parse(next(wishes()), SCHEMA), SCHEMA)
    leaf_count = sum(1 for _ in leaves(tree))
    asked = encrypt_filter(site.subscriber, tree).filter
    data, asked_data = prepared.encode(), asked.encode()
    event, stored = site.broker.event(prepared), site.broker.filter(asked)
    inverses = [inverse_of(event.system.arithmetic, one) for one in event.trapdoors]
    target = Target(stored)

    def compare() -> None:
        for inverse in inverses:
            target.leaves_of(inverse)

    def each(work: object, share: int) -> str:
        assert callable(work)
        return human(seconds(work, repeat=7) / share)

    return [
        [
            group,
            each(lambda: encrypt_event(site.publisher, values, SCHEMA), count),
            each(lambda: UserEvent.decode(data), count),
            each(lambda: site.broker.event(prepared), count),
            each(lambda: encrypt_filter(site.subscriber, tree), leaf_count),
            each(lambda: UserFilter.decode(asked_data), leaf_count),
            each(lambda: site.broker.filter(asked), leaf_count),
            each(compare, count * leaf_count),
        ]
    ]


def matching(most: int, warm: int, measured: int, naive: int) -> list[Aim]:
    """Match events with many filters, with and without memory."""
    site = Site("curve")
    filters = site.filters(most)
    size = sum(len(one.leaves) for one in filters)
    events = [site.event(values) for values in itertools.islice(quotes(), warm + measured)]
    before = _resident()
    matcher = Matcher(site.master.system)
    for number, encrypted in enumerate(filters):
        matcher.add(str(number), encrypted)
    start = time.perf_counter()
    for event in events[:warm]:
        matcher.match(event)
    warming = (time.perf_counter() - start) / warm
    memory = _resident() - before
    taken, found = [], []
    for event in events[warm:]:
        start = time.perf_counter()
        found.append(matcher.match(event))
        taken.append(time.perf_counter() - start)
    without = []
    for event, remembered in list(zip(events[warm:], found, strict=True))[:naive]:
        start = time.perf_counter()
        plain = {str(number) for number, one in enumerate(filters) if matches(one, event)}
        without.append(time.perf_counter() - start)
        if plain != remembered:
            raise AssertionError("matching with and without memory disagree")
    base = mean(without)
    table(
        f"{len(filters)} filters, {size:,} leaves, {len(events[0].trapdoors)} trapdoors an event;"
        f" {measured} events after {warm} ({naive} results compared)",
        ["", "mean", "median", "ratio of means"],
        [
            ["no memory", human(base), human(median(without)), times(1.0)],
            ["while it learns", human(warming), "", times(base / warming)],
            ["remembered", human(mean(taken)), human(median(taken)), times(base / mean(taken))],
        ],
    )
    print(
        f"  {matcher.remembered:,} entries remembered,"
        f" about {memory / 2**20:.1f} MiB with the filters' leaves"
    )
    what = f"searchable match of an event with {size:,} leaves"
    return [Aim(what, "no memory", 1000, base / mean(taken))]


def _resident() -> int:
    """Give the memory of this process in bytes (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main(argv: Sequence[str]) -> list[Aim]:
    """Run with sizes from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_sde")
    parser.add_argument("--leaves", type=int, default=LEAVES)
    parser.add_argument("--warm", type=int, default=300, help="events seen before measuring")
    parser.add_argument("--events", type=int, default=400, help="events measured")
    parser.add_argument("--quick", action="store_true", help="a tenth of the leaves and events")
    options = parser.parse_args(argv)
    small = 10 if options.quick else 1
    table(
        "one trapdoor, one leaf, one comparison",
        [
            "group",
            "trapdoor",
            "read",
            "re-encrypt",
            "leaf",
            "read",
            "re-encrypt",
            "compare",
        ],
        [*steps("curve"), *steps("zp1024")],
    )
    return matching(
        options.leaves // small, options.warm, options.events // small, max(3, 20 // small)
    )


if __name__ == "__main__":
    main(sys.argv[1:])
