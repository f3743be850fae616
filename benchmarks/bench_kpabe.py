"""Key-policy encryption (paper 001): encrypting, opening, keys, and narrowing keys.

The paper's polynomial T(X) stands beside the random oracle H, and both modes open what they
encrypted in the same run.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Callable, Sequence

from benchmarks.tables import human, seconds, table, times
from policyengine.abe import (
    KpMode,
    decapsulate,
    delegate,
    encapsulate,
    encode_ciphertext,
    encode_filter_key,
    encode_public,
    keygen,
    pairings,
    public_key,
    setup,
)
from policyengine.abe.group import (
    BASE_1,
    BASE_2,
    base_1,
    base_2,
    gt_power,
    hash_to_g1,
    pair,
    power,
    random_scalar,
)
from policyengine.attributes import (
    AttributeType,
    Element,
    Gate,
    Leaf,
    Ranges,
    Schema,
    Value,
    access_tree,
    elements_of,
    parse,
)
from policyengine.primitives.rand import SYSTEM_RANDOM

MODES: tuple[KpMode, ...] = ("hash", "polynomial")
RANGES: tuple[Ranges, ...] = ("dyadic", "bits")


def group(repeat: int) -> None:
    """Measure the single operations of the pairing group."""
    scalar = random_scalar(SYSTEM_RANDOM)
    first, second = base_1(scalar), base_2(scalar)
    whole = pair(first, second)
    work: list[tuple[str, Callable[[], object]]] = [
        ("pairing", lambda: pair(first, second)),
        ("G1, any point", lambda: power(first, scalar)),
        ("G1, the generator's table", lambda: base_1(scalar)),
        ("G2, any point", lambda: power(second, scalar)),
        ("G2, the generator's table", lambda: base_2(scalar)),
        ("GT", lambda: gt_power(whole, scalar)),
        ("hash to G1", lambda: hash_to_g1("benchmark", bytes(32))),
    ]
    if pair(BASE_1, BASE_2) == whole:
        raise AssertionError("the scalar is one")
    rows = [[name, human(seconds(one, repeat=repeat))] for name, one in work]
    table("the group, BLS12-381", ["", "time"], rows)


def attributes(count: int, repeat: int) -> None:
    """Encrypt for so many attributes and open with a filter that asks for all of them."""
    elements = [Element(f"attribute{number}==", str(number)) for number in range(count)]
    tree = Gate(count, tuple(Leaf(element) for element in elements))
    rows = []
    base = 0.0
    for mode in MODES:
        master = setup(mode, elements=count)
        public, key = public_key(master), keygen(master, tree)
        secret, sent = encapsulate(public, elements)
        if decapsulate(key, sent) != secret:
            raise AssertionError("what was encrypted does not open")
        encrypting = seconds(lambda: encapsulate(public, elements), repeat=repeat)  # noqa: B023
        opening = seconds(lambda: decapsulate(key, sent), repeat=repeat)  # noqa: B023
        making = seconds(lambda: keygen(master, tree), repeat=repeat)  # noqa: B023
        base = base or encrypting
        rows.append(
            [
                mode,
                human(encrypting),
                times(encrypting / base),
                human(opening),
                pairings(key, sent),
                human(making),
                f"{len(encode_public(public)):,}",
                f"{len(encode_ciphertext(sent)):,}",
                f"{len(encode_filter_key(key)):,}",
            ]
        )
    table(
        f"an event of {count} attributes, a filter that asks for all of them",
        ["", "encrypt", "ratio", "open", "pairings", "key", "public, B", "event, B", "key, B"],
        rows,
    )


def filters(repeat: int) -> None:
    """Open an event of four numbers of ten bits and a string with filters of the language."""
    numbers = {f"a{number}": AttributeType("int", 0, 1023) for number in range(4)}
    schema: Schema = {**numbers, "zone": AttributeType("string")}
    values: dict[str, Value] = {"a0": 1, "a1": 500, "a2": 900, "a3": 1023, "zone": "West"}
    texts = [
        "a1 >= 10 && a2 >= 19",
        "a0 < 100 && a1 > 400 && a2 > 777 && a3 > 1000",
        'zone != "East" && a1 > 400',
        'atLeast(2, [a0 > 500, a1 > 400, zone startsWith "We"])',
    ]
    rows = []
    for ranges in RANGES:
        elements = elements_of(values, schema, ranges=ranges)
        master = setup()
        public = public_key(master)
        secret, sent = encapsulate(public, elements)
        for text in texts:
            tree = access_tree(parse(text, schema), schema, ranges=ranges)
            key = keygen(master, tree)
            if decapsulate(key, sent) != secret:
                raise AssertionError("what was encrypted does not open")
            narrower = Gate(2, (tree, Leaf(elements[-1])))
            rows.append(
                [
                    f"{ranges}: {text}",
                    len(key.leaves),
                    pairings(key, sent),
                    human(seconds(lambda: decapsulate(key, sent), repeat=repeat)),  # noqa: B023
                    human(seconds(lambda: keygen(master, tree), repeat=repeat)),  # noqa: B023
                    human(
                        seconds(lambda: delegate(public, key, narrower), repeat=repeat)  # noqa: B023
                    ),
                ]
            )
    table("filters of the language", ["", "leaves", "pairings", "open", "key", "narrow"], rows)


def memory(count: int) -> None:
    """Show what Python holds for an event's encryption; tables of the group are made before."""
    elements = [Element(f"attribute{number}==", str(number)) for number in range(count)]
    rows = []
    for mode in MODES:
        public = public_key(setup(mode, elements=count))
        encapsulate(public, elements)
        tracemalloc.start()
        encapsulate(public, elements)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append([mode, f"{peak / 1024:.0f} KiB"])
    table(f"most memory of one encryption of {count} attributes", ["", "peak"], rows)


def main(argv: Sequence[str]) -> None:
    """Run with sizes from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_kpabe")
    parser.add_argument("--attributes", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=21)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args(argv)
    repeat = 5 if options.quick else options.repeat
    group(repeat)
    attributes(options.attributes, repeat)
    filters(repeat)
    memory(options.attributes)


if __name__ == "__main__":
    main(sys.argv[1:])
