"""`python -m tests.soak`: a hundred crashes of each kind of the data plane and fifty of the control
plane, a hundred partitions, a million changed messages, and the oracles at full size.

The crashes are played in rounds, each with folders, brokers and a seed of its own, so that a
round that fails can be played again alone: `python -m tests.soak --seed SEED --only ROUND`.
What came of each round is a line of JSON in the report. A run that was cut off goes on where its
report ends: what held under the same seed is not played again. The exit status is 1 where
anything did not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tasks.local.layout import ROOT
from tests.soak import control, partitions
from tests.soak.plays import in_folder, larger
from tests.support.crashes import Campaign
from tests.support.mutation_campaign import campaign

_ORACLE = "tests/property/test_simulation_oracle.py"
_SAMPLE = "tests/integration/test_oracle_activemq.py"
_DEATHS = "tests/unit/distribution/test_revocation_deaths.py"
_MUTATIONS = 50_000  # of a round


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    options.report.parent.mkdir(parents=True, exist_ok=True)
    # Who names a round wants to see it, whatever came of it before.
    named = (options.only, options.only_partitions, options.only_control)
    alone = any(number is not None for number in named)
    known = set() if alone else _held_before(options.report)
    tasks = list(_tasks(options))
    held = [key in known for key, _ in tasks]
    with options.report.open("a", encoding="utf-8") as report:
        for place, (key, play) in enumerate(tasks):
            if not held[place]:
                held[place] = _note(report, key, play())
    print(f"{sum(held)} of {len(held)} held; see {options.report}")
    return 0 if all(held) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--each", type=int, default=100, help="crashes of each kind (100)")
    parser.add_argument("--round", type=int, default=10, help="of each kind in a round (10)")
    parser.add_argument("--seed", default=time.strftime("%Y-%m-%d"), help="today's date")
    parser.add_argument("--only", type=int, help="play this round alone, and no oracles")
    parser.add_argument(
        "--cases", type=int, default=10_000, help="of the oracle over the simulation; 0 for none"
    )
    parser.add_argument(
        "--runs", type=int, default=300, help="of the oracle over real ActiveMQ; 0 for none"
    )
    parser.add_argument(
        "--mutations", type=int, default=1_000_000, help="changed messages; 0 for none"
    )
    parser.add_argument(
        "--partitions",
        type=int,
        default=100,
        help="of agents, and of a site (100 each); 0 for none",
    )
    parser.add_argument(
        "--only-partitions", type=int, help="play this round of partitions alone, nothing else"
    )
    parser.add_argument(
        "--control", type=int, default=50, help="crashes of each part of a site (50); 0 for none"
    )
    parser.add_argument(
        "--only-control", type=int, help="play this round of them alone, nothing else"
    )
    parser.add_argument(
        "--deaths", type=int, default=280, help="writes that die in a revocation; 0 for none"
    )
    parser.add_argument(
        "--report", type=Path, default=ROOT / "var" / "soak" / "report.jsonl", help="where to"
    )
    return parser


def _tasks(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """What is to be played, one after the other, by names that say all that decides it."""
    if options.only_partitions is not None:
        yield from partitions.rounds(options.seed, options.partitions, options.only_partitions)
        return
    if options.only_control is not None:
        yield from control.rounds(options.seed, options.control, options.only_control)
        return
    left, number = options.each, 0
    while left > 0:
        kills = min(options.round, left)
        if options.only in (None, number):
            seed = f"{options.seed}/{number}"
            yield f"crashes {seed} {kills}", partial(_crashes, seed, kills)
        left, number = left - kills, number + 1
    if options.only is not None:
        return
    yield from _mutations(options.seed, options.mutations)
    yield from partitions.rounds(options.seed, options.partitions, None)
    yield from control.rounds(options.seed, options.control, None)
    if options.cases:
        key = f"oracle {options.seed} {options.cases}"
        yield key, partial(_oracle, "oracle", _ORACLE, options.seed, CASES=options.cases)
    if options.runs:
        what = "oracle over ActiveMQ"
        key = f"{what} {options.seed} {options.runs}"
        yield key, partial(_oracle, what, _SAMPLE, options.seed, RUNS=options.runs)
    if options.deaths:
        key = f"deaths in revocations {options.seed} {options.deaths}"
        yield key, partial(_deaths, options.seed, options.deaths)


def _mutations(seed: str, count: int) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Changed messages, in rounds that can be played again alone."""
    for number, start in enumerate(range(0, count, _MUTATIONS)):
        size = min(_MUTATIONS, count - start)
        each = f"{seed}/mutations/{number}"
        yield f"mutations {each} {size}", partial(_mutated, each, size)


def _mutated(seed: str, count: int) -> dict[str, Any]:
    outcome = campaign(seed, count)
    counts = {"kinds": dict(outcome.kinds), "refused": dict(outcome.refused)}
    return {"what": "mutations", **vars(outcome), **counts}


def _held_before(report: Path) -> set[str]:
    """Names of what held, from a report that was begun; what was cut off is taken away."""
    if not report.exists():
        return set()
    text = report.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    report.write_text(whole, encoding="utf-8")
    entries = [json.loads(line) for line in whole.splitlines()]
    return {entry["key"] for entry in entries if "key" in entry and not entry["problems"]}


def _crashes(seed: str, kills: int) -> dict[str, Any]:
    return in_folder("crashes", seed, partial(_play, seed, kills))


def _play(seed: str, kills: int, folder: Path) -> dict[str, Any]:
    outcome = Campaign(folder, seed).run(agents=kills, brokers=kills, clients=kills)
    return {**vars(outcome), "kills": dict(outcome.kills)}


def _oracle(what: str, test: str, seed: str, **size: int) -> dict[str, Any]:
    """A test of agents against the plain reading of policies, with more cases."""
    return larger(what, test, "ORACLE", seed, size)


def _deaths(seed: str, plays: int) -> dict[str, Any]:
    return larger("deaths in revocations", _DEATHS, "DEATHS", seed, {"PLAYS": plays})


def _note(report: Any, key: str, outcome: dict[str, Any]) -> bool:
    entry = {"key": key, **outcome}
    print(json.dumps(entry), file=report, flush=True)
    print(json.dumps(entry), flush=True)
    return not entry["problems"]


if __name__ == "__main__":
    sys.exit(main())
