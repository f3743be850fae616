"""The entry point as a process: cut off, resumed, and on a real cluster.

PORTCULLIS_EXECUTORS_KILLS sets how many executors die there, PORTCULLIS_EXECUTORS_SEED which.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

from brokers.simulation.chance import Chance
from policyengine.anonset import size_for
from spark.snapshots import read_results
from tests.spark.cases import Case, many_rows
from tests.support.cluster import Cluster, spark_cluster
from tests.support.ports import free_port, wait_until
from tests.support.processes import Running, children_of, running, wait_gone
from tests.support.services import PostgreSQL

pytestmark = [pytest.mark.spark, pytest.mark.slow]

AGENTS = tuple(f"agent-{number}" for number in range(8))
SUBJECTS = 12_000
KILLS = int(os.environ.get("PORTCULLIS_EXECUTORS_KILLS", "3"))
SEED = os.environ.get("PORTCULLIS_EXECUTORS_SEED", "make test")


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
        process.process.wait(180)
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


def test_a_run_that_is_told_to_stop_while_spark_starts_leaves_no_jvm_behind(case: Case) -> None:
    case.write(many_rows(AGENTS[:1], 10), agents=AGENTS[:1])
    process = start(case, "--master", "local[2]")
    try:
        wait_until(lambda: bool(children_of(process.pid)), seconds=120, what="a JVM")
        started = children_of(process.pid)
        process.process.terminate()
        assert process.process.wait(120) == 128 + signal.SIGTERM, process.text()
    finally:
        process.stop()
    for child in started:
        wait_gone(child, seconds=180)


def finished_agents(case: Case, process: Running, count: int) -> None:
    """Wait until so many agents are finished and the run goes on."""
    wait_until(
        lambda: len(finished(case)) >= count or process.process.poll() is not None,
        seconds=300,
        what=f"{count} finished agents",
    )
    assert process.process.poll() is None, process.text()


def told(folder: Path) -> tuple[int, list[str]]:
    """A file of settings for a run on a cluster: its UI, its event log, and one that is ours."""
    port = free_port()
    events = folder / "events"
    events.mkdir()
    lines = [
        "# what an operator writes",
        "spark.ui.enabled true",
        f"spark.ui.port={port}",
        "spark.eventLog.enabled true",
        "spark.eventLog.compress false",
        f"spark.eventLog.dir   {events.as_uri()}",
        "spark.portcullis.mark marked by the operator",
    ]
    (folder / "spark.conf").write_text("\n".join(lines))
    return port, ["--settings", str(folder / "spark.conf")]


def page(port: int, path: str) -> bytes:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return bytes(answer.read())


def what_the_ui_says(port: int) -> bytes:
    """Its pages, and what they are made from."""
    (application,) = json.loads(page(port, "/api/v1/applications"))
    behind = f"/api/v1/applications/{application['id']}"
    pages = ("/environment/", "/jobs/", "/stages/", "/SQL/", "/executors/")
    parts = ("/environment", "/jobs", "/stages", "/sql", "/allexecutors")
    return b"".join(page(port, each) for each in (*pages, *(behind + part for part in parts)))


def seen_from_outside(case: Case, cluster: Path, ui: bytes) -> bytes:
    """Everything that the run let others see: logs of driver, workers and executors, events, UI."""
    events = [path for path in (case.folder / "events").rglob("*") if path.is_file()]
    logs = [path for path in cluster.rglob("*") if path.is_file() and path.suffix != ".jar"]
    assert any(b"SparkListenerJobEnd" in path.read_bytes() for path in events)
    assert any(path.name == "stderr" for path in logs)
    files = [*events, *logs, case.progress, case.folder / "run.log"]
    return ui + b"".join(path.read_bytes() for path in files)


def kill_executors(case: Case, process: Running, cluster: Cluster, port: int) -> bytes:
    """One before any agent is finished, then one for each that is; they are replaced.

    Returns:
        What the UI says after the last time. Then all of them go: until others have started the
        run gets no further, and cannot end.
    """
    chance = Chance(f"executors/{SEED}")
    for number in range(KILLS):
        finished_agents(case, process, number)
        alive: list[int] = []

        def there(alive: list[int] = alive) -> bool:
            alive[:] = cluster.executors()
            return bool(alive)

        wait_until(there, seconds=120, what="an executor")
        victims = alive if number == KILLS - 1 else [chance.pick(alive)]
        for victim in victims:
            with suppress(ProcessLookupError):  # a worker has ended one by itself
                os.kill(victim, signal.SIGKILL)
        for victim in victims:
            wait_gone(victim, seconds=120)
    return what_the_ui_says(port)


def test_a_cluster_loses_executors_and_the_driver_and_tells_nobody_a_secret(
    spark: SparkSession, case: Case, tmp_path: Path, postgresql: PostgreSQL
) -> None:
    """Rows come from PostgreSQL, as everything that could leak then is at work."""
    # As many elements as every subject has: without padding the bytes are always the same.
    whole = size_for(3, encoding="tokens")
    agents = (*AGENTS, *(f"agent-{number}" for number in range(len(AGENTS), KILLS + 5)))
    case.write(many_rows(agents, SUBJECTS), agents=agents, parameters=whole)
    case.run(lambda: spark)
    local = list(read_results(case.output))

    remote = Case(tmp_path / "remote", create=True)
    remote.write_table(postgresql, many_rows(agents, SUBJECTS), agents=agents, parameters=whole)
    port, options = told(remote.folder)
    logs = tmp_path / "cluster"
    with spark_cluster(logs) as cluster:
        process = start(remote, "--master", cluster.address, *options)
        try:
            ui = kill_executors(remote, process, cluster, port)
            finished_agents(remote, process, KILLS)
        finally:
            process.process.kill()
            process.process.wait(180)
        assert not (remote.output / "result.json").exists()
        complete(remote, "--master", cluster.address, *options)
    assert list(read_results(remote.output)) == local

    seen = seen_from_outside(remote, logs, ui)
    assert b"marked by the operator" in ui
    secrets = [*remote.keys.values(), remote.job_key, postgresql.password.encode()]
    for secret in secrets:
        for form in (secret, secret.hex().encode(), base64.b64encode(secret).rstrip(b"="),
                     base64.urlsafe_b64encode(secret).rstrip(b"=")):  # fmt: skip
            assert form not in seen
    for token in (b"zone==", b"carrier==", b"id=="):
        assert token not in seen


def test_help_names_every_option(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark.jobs.recompute", "--help"]
    with running(command, log=tmp_path / "help.log") as process:
        assert process.process.wait(180) == 0
        text = process.text()
    for option in ("--snapshot", "--output", "--key-file", "--progress", "--master"):
        assert option in text
