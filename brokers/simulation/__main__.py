"""The command line: `python -m brokers.simulation <scenario or paper002> [--seed ...]`."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from brokers.simulation import figures002
from brokers.simulation.scenario import NAMED, Progress, ScenarioError, load, play


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a simulation; returns the exit code."""
    options = _parser().parse_args(arguments)
    # What agents log about single messages stands in the history.
    logging.getLogger("portcullis").addHandler(logging.NullHandler())
    logging.getLogger("portcullis").propagate = False
    progress = _progress(quiet=options.quiet)
    try:
        if options.scenario == "paper002":
            return _paper(options, progress)
        return _scenario(options, progress)
    except (ScenarioError, TimeoutError) as error:
        print(f"simulation: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"simulation: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m brokers.simulation",
        description="Many agents and clients on one virtual clock.",
    )
    known = ", ".join(NAMED)
    parser.add_argument("scenario", help=f"{known}, paper002, or a JSON file with a scenario")
    parser.add_argument("--seed", default="1", help="the same seed gives the same history")
    parser.add_argument("--report", type=Path, help="write the report as JSON to this file")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--history", type=Path, help="write every step, a JSON object a line")
    paper = parser.add_argument_group("paper002")
    paper.add_argument("--points", help="numbers of subscribers, with commas between them")
    paper.add_argument("--events", type=int, default=1000, help="events a run")
    paper.add_argument("--agents", type=int, default=50, help="agents")
    paper.add_argument("--runs", type=int, default=1, help="runs a point, averaged")
    paper.add_argument("--plots", type=Path, default=Path(), help="folder for the figures")
    return parser


def _scenario(options: argparse.Namespace, progress: Progress) -> int:
    scenario = load(options.scenario)
    world = play(scenario, options.seed, progress)
    report = {"scenario": scenario.to_json(), "seed": options.seed, **world.report()}
    text = json.dumps(report, indent=1)
    if options.history:
        lines = "".join(f"{line}\n" for line in world.history.lines)
        options.history.write_text(lines, encoding="utf-8")
    _write(options.report, text)
    print(text)
    return 0


def _paper(options: argparse.Namespace, progress: Progress) -> int:
    if options.history:
        raise ScenarioError("`--history` is for scenarios; paper002 writes figures")
    points = figures002.points(options.points)
    study = figures002.study_of(options.agents, options.events, options.runs)
    found = figures002.run(study, points, options.seed, progress)
    options.plots.mkdir(parents=True, exist_ok=True)
    for name, drawing in figures002.figures(found).items():
        (options.plots / name).write_text(drawing, encoding="utf-8")
    report = figures002.report(study, found, options.seed)
    _write(options.report, json.dumps(report, indent=1))
    print(figures002.table(found))
    print(f"figures: {', '.join(str(options.plots / name) for name in figures002.FIGURES)}")
    return 0


def _write(path: Path | None, text: str) -> None:
    if path is not None:
        path.write_text(text + "\n", encoding="utf-8")


def _progress(*, quiet: bool) -> Progress:
    shown = [0.0]

    def tell(what: str, done: float) -> None:
        now = time.monotonic()
        if not quiet and (done in (0.0, 1.0) or now - shown[0] > 1.0):
            shown[0] = now
            print(f"{what} {100 * done:3.0f} %", file=sys.stderr, flush=True)

    return tell


if __name__ == "__main__":
    sys.exit(main())
