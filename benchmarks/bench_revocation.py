"""From T0 to enforcement, a key's rotation at 1,000 agents, a recompute, deltas against wholes.

Enforcement: real agents, many to a process, on a real ActiveMQ, beside the control plane in
processes of its own (PostgreSQL and Redis; `--embedded` for SQLite and folders). T0 is the commit
of a revocation; an agent enforces it from the moment that its own log names. The baseline, in the
same run, is a plain persistent message of a notice's size to as many connections of the same
processes, each of which answers it.

`make bench-revocation` runs all parts at full size, `make bench-revocation ARGS="--small"` small
ones in about three minutes; `--parts`, `--agents` and the other options choose.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.aims import Aim, summary
from benchmarks.alone import alone
from benchmarks.tables import human, table, times

REPOSITORY = Path(__file__).resolve().parent.parent
PARTS = ("enforcement", "rotation", "recompute", "deltas")
P50, P99, NEVER = 1.0, 5.0, 30.0
"""Seconds that design/figures.md asks for at 200 agents, until every one of them enforces."""
SMALL = {"agents": "10", "revocations": 5, "at_rest": 1, "rotation": 50}
STAGES = {
    "recomputing": "made, wrapped and sent",
    "staging": "the new key staged everywhere",
    "switching": "in use everywhere",
    "draining": "the old one drained",
    "retiring": "the old one gone everywhere",
}


def main(argv: Sequence[str]) -> list[Aim]:
    """Measure the parts that are asked for and print what was found; returns the aims."""
    options = _options(argv)
    parts: Mapping[str, Callable[[argparse.Namespace], list[Aim]]] = {
        "enforcement": _enforcement,
        "rotation": _rotation,
        "recompute": _recompute,
        "deltas": _deltas,
    }
    aims: list[Aim] = []
    for name in options.parts:
        print(f"\n-- {name}", flush=True)
        aims += parts[name](options)
    return aims


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench_revocation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--small", "--quick", action="store_true", help="all parts, small")
    parser.add_argument("--parts", default="enforcement,rotation", help=", ".join(PARTS))
    parser.add_argument("--agents", help="how many, one size after the other; 10,50,200")
    parser.add_argument("--revocations", type=int, help="of each size, one after the other; 30")
    parser.add_argument("--at-rest", type=int, help="of each size, each after the last is over; 5")
    parser.add_argument("--rotation", type=int, help="agents of the rotation; 1000")
    parser.add_argument("--embedded", action="store_true", help="SQLite, folders as transport")
    parser.add_argument("--customers", type=int, help="of a recompute with tokens; 1000000")
    parser.add_argument("--bloom-customers", type=int, help="of one with Bloom filters; 200000")
    parser.add_argument("--no-cluster", action="store_true", help="recompute without a cluster")
    options = parser.parse_args(argv)
    options.parts = options.parts.split(",")
    if unknown := sorted(set(options.parts) - set(PARTS)):
        parser.error(f"no such part: {', '.join(unknown)}")
    full = {"agents": "10,50,200", "revocations": 30, "at_rest": 5, "rotation": 1000}
    for name, value in (SMALL if options.small else full).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.agents = [int(number) for number in str(options.agents).split(",")]
    return options


def run(module: str, *arguments: object) -> dict[str, Any]:
    """Run one measurement in a process of its own; its last line is what it found.

    Raises:
        RuntimeError: it failed; it has said why.
    """
    words = [sys.executable, "-m", f"benchmarks.{module}", *(str(each) for each in arguments)]
    with subprocess.Popen(
        words, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT)  # it ends what it has started, in its own time
            process.wait()
            raise
    if process.returncode:
        raise RuntimeError(f"benchmarks.{module} failed")
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


# -- enforcement --------------------------------------------------------------------------------


def _enforcement(options: argparse.Namespace) -> list[Aim]:
    found = [
        run(
            "enforcement",
            *("--agents", agents, "--revocations", options.revocations),
            *("--at-rest", options.at_rest),
            *(("--embedded",) if options.embedded else ()),
        )
        for agents in options.agents
    ]
    return report_enforcement(found)


def report_enforcement(found: Sequence[Mapping[str, Any]]) -> list[Aim]:
    """Print what was measured, one entry a size; returns the aims of the largest."""
    ways = (("at rest", "at_rest"), ("one after the other", "one_after_another"))
    each: list[list[str]] = []
    until_all: list[list[str]] = []
    known: list[list[str]] = []
    for size in found:
        agents = f"{size['agents']} agents"
        base = percentile(together(size["plain"]), 0.5)
        base_all = percentile(lasts(size["plain"]), 0.5)
        each.append([f"{agents}, plain message", *_spread(together(size["plain"])), times(1.0)])
        until_all.append([f"{agents}, plain message", *_spread(lasts(size["plain"])), times(1.0)])
        for title, name in ways:
            if rows := size[name]:
                each.append(_line(f"{agents}, {title}", together(rows), base))
                until_all.append(_line(f"{agents}, {title}", lasts(rows), base_all))
        known.append(_beside(agents, size))
    columns = ["", "p50", "p95", "p99", "longest", "of plain, p50"]
    table("T0 to enforcement at each agent", columns, each)
    table("T0 until every agent enforces it", columns, until_all)
    table(
        "beside it, medians",
        ["", "T0 itself", "all acknowledged", "receipt signed", "told by notice", "missing",
         "control plane", "ActiveMQ", "an agent"],
        known,
    )  # fmt: skip
    load = ", ".join(f"{value:.1f}" for value in found[-1]["load"])
    database = "SQLite, folders" if found[-1]["embedded"] else "PostgreSQL, Redis"
    print(f"  {database}; {platform.machine()}, {os.cpu_count()} cores, load at the end {load}")
    return aims_of(found[-1])


def aims_of(size: Mapping[str, Any]) -> list[Aim]:
    """Hold the revocations of one size against what is to be reached."""
    found = []
    for title, name in (("at rest", "at_rest"), ("one after the other", "one_after_another")):
        if not size[name]:
            continue
        taken = lasts(size[name])
        what = f"enforced by all of {size['agents']}, {title}"
        missing = sum(row["missing"] for row in size[name])
        found += [
            Aim(f"{what}, p50", f"{P50:g} s", 1.0, P50 / percentile(taken, 0.5)),
            Aim(f"{what}, p99", f"{P99:g} s", 1.0, P99 / percentile(taken, 0.99)),
            Aim(f"{what}, never beyond", f"{NEVER:g} s", 1.0,
                0.0 if missing else NEVER / max(taken)),
        ]  # fmt: skip
    return found


def _beside(agents: str, size: Mapping[str, Any]) -> list[str]:
    rest = size["at_rest"]
    rows = [*rest, *size["one_after_another"]]
    told = sum(row["by_notice"] for row in rows) / sum(len(row["seconds"]) for row in rows)
    memory = size["memory"]
    return [
        agents,
        human(percentile([row["asked"] for row in rows], 0.5)),
        human(percentile([row["known"] for row in rest], 0.5)) if rest else "-",
        human(percentile([row["complete"] for row in rest], 0.5)) if rest else "-",
        f"{told:.0%}",
        str(sum(row["missing"] for row in rows)),
        *(f"{memory[part] / 2**20:,.0f} MB" for part in ("control plane", "ActiveMQ")),
        f"{memory['one agent'] / 2**20:,.1f} MB",
    ]


def _line(title: str, taken: list[float], base: float) -> list[str]:
    return [title, *_spread(taken), times(percentile(taken, 0.5) / base)]


def _spread(taken: list[float]) -> list[str]:
    return [*(human(percentile(taken, part)) for part in (0.5, 0.95, 0.99)), human(max(taken))]


def together(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Every agent's seconds, of all rounds."""
    return [taken for row in rows for taken in row["seconds"]]


def lasts(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """The last agent's seconds in each round."""
    return [max(row["seconds"]) for row in rows]


def percentile(values: Sequence[float], part: float) -> float:
    """The value that this part of all is not above: of few values the highest one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


# -- rotation -----------------------------------------------------------------------------------


def _rotation(options: argparse.Namespace) -> list[Aim]:
    embedded = ("--embedded",) if options.embedded else ()
    report_rotation(run("rotation", "--agents", options.rotation, *embedded))
    return []


def report_rotation(found: Mapping[str, Any]) -> None:
    """Print what a rotation took, stage by stage, beside its cryptography alone."""
    agents = found["agents"]
    columns = ["", "seconds", "wraps", "bundles", "bytes", "compile", "of it wraps", "send",
               "agents", "acknowledged", "advance"]  # fmt: skip
    rows = [_stage("everything for the first time", found["first"])]
    rows += [_stage(STAGES[stage["stage"]], stage) for stage in found["stages"]]
    table(f"a key's rotation at {agents:,} agents, seconds of one core", columns, rows)
    seconds = Counted(found["stages"], "seconds")
    alone_, count = found["sealing"], Counted(found["stages"], "count")
    made = seconds.of("wraps")
    built = seconds.of("compile") - made
    rows = [
        [f"{count.of('wraps'):,.0f} wraps", human(made), human(alone_["wraps"]),
         times(made / alone_["wraps"])],
        [f"{count.of('push'):,.0f} bundles of {alone_['size']:,.0f} bytes", human(built),
         human(alone_["bundles"]), times(built / alone_["bundles"])],
    ]  # fmt: skip
    table("of which cryptography", ["", "here", "sealing and signing alone", "ratio"], rows)
    lease = found["leases"]["seconds"]["leases"] / found["leases"]["count"]["leases"]
    memory = ", ".join(f"{name} {size / 2**20:,.0f} MB" for name, size in found["memory"].items())
    print(f"  the whole rotation {human(found['seconds'])}; a lease takes {human(lease)}; {memory}")


def _stage(title: str, stage: Mapping[str, Any]) -> list[str]:
    seconds, count = stage["seconds"], stage["count"]
    whole = sum(seconds.values()) - seconds.get("wraps", 0)
    parts = ("compile", "wraps", "push", "agents", "acknowledgements", "advance")
    return [
        title,
        f"{whole:.1f}",
        f"{count.get('wraps', 0):,}",
        f"{count.get('push', 0):,}",
        f"{stage['bytes']:,}",
        *(f"{seconds.get(part, 0):.2f}" for part in parts),
    ]


class Counted:
    """Sums over stages.

    Args:
        stages: as `benchmarks.rotation` gives them.
        name: which of their tables.
    """

    def __init__(self, stages: Sequence[Mapping[str, Any]], name: str) -> None:
        self._stages, self._name = stages, name

    def of(self, part: str) -> float:
        """One part's sum."""
        return float(sum(stage[self._name].get(part, 0) for stage in self._stages))


# -- what has benchmarks of its own -------------------------------------------------------------


def _recompute(options: argparse.Namespace) -> list[Aim]:
    words = ["--quick"] if options.small else []
    for name in ("customers", "bloom_customers"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    if options.no_cluster:
        words.append("--no-cluster")
    return alone("recompute", words)[0]


def _deltas(options: argparse.Namespace) -> list[Aim]:
    return alone("deltas", ["--quick"] if options.small else [])[0]


if __name__ == "__main__":
    print(f"Python {platform.python_version()} on {platform.machine()}; ratios count, not times")
    if reached := main(sys.argv[1:]):
        summary(reached)
