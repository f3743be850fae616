"""Split plans: the greedy plan and the proven one (paper 004, `split.plan`).

The baseline is the greedy plan of the same question. Small questions are also answered by
trying everything, which the solver's answer must equal.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from benchmarks.tables import human, seconds, table, times
from policyengine.privacy import Planned, plan_split, violations

PROVED_BY_TRYING = 8
Question = tuple[list[str], list[list[str]]]


def question(attributes: int, sets: int, seed: int) -> Question:
    """Draw risky sets of two to four attributes from a keyed stream."""
    names = [f"attribute{number:02}" for number in range(attributes)]
    risky = []
    for number in range(sets):
        drawn = blake2b(f"{attributes}/{seed}/{number}".encode(), digest_size=9).digest()
        size = 2 + drawn[0] % 3
        places = dict.fromkeys(byte % attributes for byte in drawn[1:])
        risky.append([names[place] for place in places][:size])
    return names, [one for one in risky if len(one) > 1]


def questions(attributes: int, count: int) -> Iterator[Question]:
    """Give questions with three to five sets an attribute."""
    for seed in range(count):
        yield question(attributes, attributes * (3 + seed % 3), seed)


def tried(names: Sequence[str], risky: Sequence[Sequence[str]], c: int, overlays: int) -> list[int]:
    """Return the fewest encrypted attributes and then overlays, by trying every placement."""
    best = [len(names), 0]
    for places in itertools.product(range(-1, overlays), repeat=len(names)):
        score = [places.count(-1), len(set(places) - {-1})]
        if score < best:
            at = dict(zip(names, places, strict=True))
            touched = ([at[name] for name in one] for one in risky)
            if all(-1 in one or len(set(one)) > c for one in touched):
                best = score
    return best


def timed(asked: Question, c: int, overlays: int, limit: float) -> tuple[Planned, float]:
    """Plan once; return the plan, checked, and the time it took."""
    names, risky = asked
    made: list[Planned] = []

    def work() -> None:
        made.append(plan_split(names, risky, colluding=c, max_overlays=overlays, time_limit=limit))

    taken = seconds(work, repeat=1)
    if violations(made[0].plan, risky, c):
        raise AssertionError("a plan exposes a risky set")
    return made[0], taken


def plans(attributes: int, c: int, overlays: int, count: int, limit: float) -> list[object]:
    """Plan some questions both ways; return a row of the table."""
    asked = list(questions(attributes, count))
    greedy = [timed(one, c, overlays, 0) for one in asked]
    proven = [timed(one, c, overlays, limit) for one in asked]
    if attributes <= PROVED_BY_TRYING:
        best = proven[0][0].plan
        if [len(best.encrypted), len(best.overlays)] != tried(*asked[0], c, overlays):
            raise AssertionError("trying everything finds another plan")
    quick, exact = (sum(taken for _, taken in made) for made in (greedy, proven))
    hidden, fewest = (sum(len(one.plan.encrypted) for one, _ in made) for made in (greedy, proven))
    used, least = (sum(len(one.plan.overlays) for one, _ in made) for made in (greedy, proven))
    return [
        f"{attributes} attributes, c = {c}, {overlays} overlays",
        human(quick / count),
        human(exact / count),
        times(exact / quick),
        f"{hidden / count:.1f}",
        f"{fewest / count:.1f}",
        times(hidden / fewest) if fewest else "-",
        f"{used / count:.1f}",
        f"{least / count:.1f}",
        f"{sum(one.optimal for one, _ in proven)}/{count}",
    ]


def loading() -> None:
    """Plan something that needs the solver, so that loading it is not measured."""
    plan_split(list("abc"), ["ab", "bc", "ac"], colluding=1, max_overlays=2)


def main(argv: Sequence[str]) -> None:
    """Run with sizes from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_split")
    parser.add_argument("--questions", type=int, default=10)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds a plan")
    parser.add_argument("--quick", action="store_true", help="three questions of each size")
    options = parser.parse_args(argv)
    count = 3 if options.quick else options.questions
    print(f"loading the solver: {human(seconds(loading, repeat=1))}")
    sizes = [(size, *rest) for size in (8, 12, 20) for rest in ((1, 2), (1, 3), (2, 4))]
    rows = [plans(*size, count, options.limit) for size in sizes]
    columns = ["", "greedy", "proven", "ratio", "encrypted", "proven", "ratio", "overlays"]
    table(f"plans of {count} questions each, means", [*columns, "proven", "optimal"], rows)


if __name__ == "__main__":
    main(sys.argv[1:])
