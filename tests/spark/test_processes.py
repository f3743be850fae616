"""The entry point as a process: cut off, resumed, and on a real cluster."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from policyengine.anonset import size_for
from spark.snapshots import read_results
from tests.spark.cases import Case, many_rows
from tests.support.cluster import spark_cluster
from tests.support.ports import wait_until
from tests.support.processes import Running, running

pytestmark = [pytest.mark.spark, pytest.mark.slow]

AGENTS = tuple(f"agent-{number}" for number in range(8))
SUBJECTS = 12_000


def start(case: Case, *more: str) -> Running:
    command = [sys.executable, "-m", "spark.jobs.recompute", *case.command(*more)]
    return Running(command, log=case.folder / "run.log")


def finished(case: Case) -> list[Path]:
    return sorted(case.output.glob(".finished/*.json"))


def expected(case: Case) -> set[tuple[str, str, str]]:
    return {(row.agent, row.kind, row.key) for row in many_rows(AGENTS, SUBJECTS)}


def cut_off(case: Case, number: signal.Signals) -> Running:
    """Start a run and send it a signal as soon as two agents are finished."""
    process = start(case, "--master", "local[2]")
    try:
        wait_until(
            lambda: len(finished(case)) >= 2 or process.process.poll() is not None,
            seconds=300,
            what="two finished agents",
        )
        assert process.process.poll() is None, process.text()
    finally:
        process.process.send_signal(number)
        process.process.wait(60)
    return process


def complete(case: Case, *more: str) -> None:
    process = start(case, *more)
    try:
        assert process.process.wait(300) == 0, process.text()
    finally:
        process.stop()


def test_a_killed_run_goes_on_where_it_was(case: Case) -> None:
    case.write(many_rows(AGENTS, SUBJECTS), agents=AGENTS)
    assert cut_off(case, signal.SIGKILL).process.returncode == -signal.SIGKILL
    assert not (case.output / "result.json").exists()

    damaged, kept = (
        next(case.output.glob(f"agent={record.stem}/*.parquet")) for record in finished(case)[:2]
    )
    damaged.write_bytes(damaged.read_bytes()[:-100])
    inode = kept.stat().st_ino
    complete(case, "--master", "local[2]")

    assert kept.stat().st_ino == inode
    assert not damaged.exists()
    rows = list(read_results(case.output))
    assert len(rows) == len(AGENTS) * SUBJECTS
    assert {(row.agent, row.kind, row.key) for row in rows} == expected(case)
    assert {path.name for path in case.output.iterdir()} == {
        "result.json", ".lock", *(f"agent={name}" for name in AGENTS)
    }  # fmt: skip
    last = json.loads(case.progress.read_text().splitlines()[-1])
    assert (last["stage"], last["done"]) == ("done", len(rows))


def test_a_run_that_is_told_to_stop_cleans_up(case: Case) -> None:
    case.write(many_rows(AGENTS, SUBJECTS), agents=AGENTS)
    process = cut_off(case, signal.SIGTERM)
    assert process.process.returncode == 128 + signal.SIGTERM
    assert {path.name for path in case.output.iterdir()} <= {
        ".lock", ".finished", *(f"agent={name}" for name in AGENTS)
    }  # fmt: skip
    assert len(finished(case)) >= 2
    assert "Traceback" not in process.text()


def test_a_standalone_cluster_gives_the_same_result(
    spark: SparkSession, case: Case, tmp_path: Path
) -> None:
    # As many elements as every subject has: without padding the bytes are always the same.
    whole = size_for(3, encoding="tokens")
    case.write(many_rows(AGENTS[:2], SUBJECTS), agents=AGENTS[:2], parameters=whole)
    case.run(lambda: spark)
    local = list(read_results(case.output))
    case.output = tmp_path / "cluster-output"
    with spark_cluster(tmp_path / "cluster") as master:
        complete(case, "--master", master)
        assert list((tmp_path / "cluster" / "worker").glob("app-*/*/stderr"))
    assert list(read_results(case.output)) == local


def test_help_names_every_option(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark.jobs.recompute", "--help"]
    with running(command, log=tmp_path / "help.log") as process:
        assert process.process.wait(60) == 0
        text = process.text()
    for option in ("--snapshot", "--output", "--key-file", "--progress", "--master"):
        assert option in text
