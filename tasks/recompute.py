"""Runs a recompute: in this process for few rows, with Spark in a process of its own for many.

A run that is cut off, by `kill -9` too, is taken up again: its folder stays, the pipeline keeps
the agents that it had finished, and nothing is imported before every row was checked.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from django.conf import settings
from django.db import DatabaseError, connection

from adminapp.distribution import recompute as service
from adminapp.distribution.encodings import Item
from adminapp.distribution.models import RecomputeJob
from spark import snapshots, tables
from spark.errors import PipelineError
from tasks import pipelines

log = logging.getLogger("portcullis.recompute")

BEAT_SECONDS = 5.0


class RunFailed(Exception):
    """The pipeline did not finish; the message is fit for the job's page."""


def run(job_id: int, *, beat: Callable[[], None]) -> None:
    """Carry a recompute out, unless it is finished or somebody else is at it.

    Raises:
        RunFailed: it broke and may be tried again.
    """
    job = service.take(job_id)
    if job is None:
        return
    try:
        with _alive(job, beat):
            _carry_out(job)
    except (RunFailed, PipelineError, OSError) as error:
        log.exception("a recompute failed")
        if service.fail(job, str(error)):
            raise RunFailed(str(error)) from error
        _discard(_folder(job))
        return
    service.finish(job)


@contextmanager
def _alive(job: RecomputeJob, beat: Callable[[], None]) -> Iterator[None]:
    """Say that the run is alive while it lasts, however long a single step of it takes."""
    end = threading.Event()

    def say() -> None:
        try:
            while not end.wait(BEAT_SECONDS):
                with suppress(DatabaseError):
                    service.alive(job)
                    beat()
        finally:
            connection.close()

    thread = threading.Thread(target=say, name="recompute-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _carry_out(job: RecomputeJob) -> None:
    folder = _folder(job)
    if not (folder.snapshot / snapshots.MANIFEST).exists():
        load = service.workload(job)
        if not load.wants_spark:
            service.encode_here(load)
            return
        _write_snapshot(folder, load)
    _run_pipeline(job, folder)
    service.keep(job, _encoded(job, folder))
    # The snapshot's tokens are the policy in plain text: they go as soon as they are used.
    _discard(folder)


class _Folder:
    """Where a run's files lie; only this user may enter."""

    def __init__(self, root: Path) -> None:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root = root
        self.snapshot = root / "snapshot"
        self.output = root / "output"
        self.key = root / "job.key"
        self.password = root / "password"
        self.progress = root / "progress.jsonl"
        self.log = root / "run.log"


def _folder(job: RecomputeJob) -> _Folder:
    return _Folder(Path(settings.VAR_DIR) / "recompute" / job.uid)


def _discard(folder: _Folder) -> None:
    """Remove everything of a run."""
    if folder.password.exists():
        with suppress(PipelineError):
            tables.drop(_table(folder), folder.password)
    snapshots.discard(folder.root)


def _write_snapshot(folder: _Folder, load: service.Workload) -> None:
    # Leftovers of a snapshot that was not finished; without its table of contents it is none.
    snapshots.discard(folder.snapshot, folder.key, folder.password)
    agents = sorted(load.agents, key=lambda agent: agent.name)
    content: dict[str, Any] = {
        "domain": load.domain,
        "epoch": load.epoch,
        "agents": {
            agent.name: snapshots.AgentEncoding(agent.parameters, agent.key) for agent in agents
        },
        "rows": (
            snapshots.SnapshotRow(agent.name, item.kind, item.key, item.position, item.tokens)
            for agent in agents
            for item in agent.items
        ),
        "job_key": snapshots.create_job_key(folder.key),
    }
    if settings.SPARK_SOURCE == "parquet":
        snapshots.write_snapshot(folder.snapshot, **content)
        return
    table = _table(folder)
    tables.write_password_file(folder.password, table, connection.settings_dict["PASSWORD"])
    snapshots.write_table_snapshot(
        folder.snapshot, **content, table=table, password_file=folder.password
    )


def _table(folder: _Folder) -> tables.SnapshotTable:
    """The run's table in the control plane's database."""
    held = connection.settings_dict
    return tables.SnapshotTable(
        host=held["HOST"],
        port=int(held["PORT"] or 5432),
        database=held["NAME"],
        user=held["USER"],
        name=f"portcullis_snapshot_{folder.root.name}",
    )


def _run_pipeline(job: RecomputeJob, folder: _Folder) -> None:
    command = [
        *(sys.executable, "-m", "spark.jobs.recompute"),
        *("--snapshot", str(folder.snapshot), "--output", str(folder.output)),
        *("--key-file", str(folder.key), "--progress", str(folder.progress)),
        *("--master", settings.SPARK_MASTER),
        *(("--settings", settings.SPARK_SETTINGS) if settings.SPARK_SETTINGS else ()),
        *("--jdbc-driver", settings.SPARK_JDBC_DRIVER),
        *(("--password-file", str(folder.password)) if folder.password.exists() else ()),
    ]
    follower = _Follower(folder.progress)
    status = pipelines.run(command, meanwhile=lambda: _report(job, follower), log=folder.log)
    _report(job, follower)
    if status != 0:
        raise RunFailed(f"the pipeline ended with status {status}")


def _report(job: RecomputeJob, follower: _Follower) -> None:
    for stage, (done, total) in follower.news().items():
        service.progress(job, stage, done, total)


class _Follower:
    """Reads the lines that a run adds to its progress file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def news(self) -> dict[str, tuple[int, int]]:
        """The newest `(done, total)` of each stage that moved since the last call."""
        if not self._path.exists():
            return {}
        with self._path.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        found: dict[str, tuple[int, int]] = {}
        for line in whole.splitlines():
            entry = json.loads(line)
            found[entry["stage"]] = (int(entry["done"]), int(entry["total"]))
        return found


def _encoded(job: RecomputeJob, folder: _Folder) -> Iterator[service.Encoded]:
    """The result's rows, each with the digest of the tokens that the snapshot had for it.

    Both are sorted alike within an agent, so they are read side by side.
    """
    manifest = snapshots.Manifest.load(folder.snapshot)
    manifest.check_files()
    if snapshots.read_summary(folder.output).snapshot != manifest.digest:
        raise PipelineError("the result is of another snapshot")
    marks = service.marks(job)
    sources = {
        name: _items(manifest, entry, folder.password, marks.get(name, ""))
        for name, entry in manifest.agents.items()
    }
    for row in snapshots.read_results(folder.output):
        item = next(sources[row.agent], None)
        if item is None or item.place != (row.kind, row.key, row.position):
            raise PipelineError(f"the result for agent `{row.agent}` is out of step")
        yield service.Encoded(
            row.agent, row.kind, row.key, row.position, row.encoded, item.tokens_hash
        )


def _items(
    manifest: snapshots.Manifest, entry: snapshots.ManifestEntry, password: Path, mark: str
) -> Iterator[Item]:
    for kind, key, position, tokens in _plain(manifest, entry, password):
        yield Item(kind, key, position, tokens, mark)


def _plain(
    manifest: snapshots.Manifest, entry: snapshots.ManifestEntry, password: Path
) -> Iterator[tuple[str, str, int, tuple[str, ...]]]:
    if manifest.table is not None:
        place = {"first": entry.first, "rows": entry.rows, "sha256": entry.sha256}
        yield from tables.read_rows(manifest.table, password, place)
    elif entry.file is not None:
        with pq.ParquetFile(manifest.folder / entry.file) as file:
            for batch in file.iter_batches(columns=["kind", "key", "position", "tokens"]):
                for row in batch.to_pylist():
                    yield row["kind"], row["key"], row["position"], tuple(row["tokens"])
