"""Snapshots for the tests, small enough to check by hand."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from policyengine.anonset import Encoding, Parameters, length_for, size_for
from policyengine.primitives.rand import SeededRandom
from spark.jobs.recompute import Recompute, run
from spark.results import Summary
from spark.snapshots import (
    AgentEncoding,
    Manifest,
    SnapshotRow,
    create_job_key,
    write_snapshot,
    write_table_snapshot,
)
from spark.tables import SnapshotTable, write_password_file
from tests.support.services import PostgreSQL

DRIVER_JAR = Path("/usr/share/java/postgresql.jar")
EPOCH = 7
AGENTS = ("alpha", "beta")
RULES = {
    "1": [("zone==north", "carrier==UA")],
    "2": [("zone==south",), ("level>=3", "zone==north")],
    "3": [("role==nobody",)],
}
SUBJECTS = {
    "p-1111111111111111": [("zone==north", "carrier==UA", "level>=3")],
    "p-2222222222222222": [("zone==south", "carrier==DL"), ("zone==west",)],
    "p-3333333333333333": [("zone==east",)],
}


def parameters_of(encoding: Encoding) -> Parameters:
    """Give a size into which every conjunction above fits."""
    blinding = 0.5 if encoding == "bloom" else 0.0
    return size_for(length_for(4, blinding), encoding=encoding)


def small_rows(agents: Iterable[str] = AGENTS) -> list[SnapshotRow]:
    """Give every rule and subject above, for each agent."""
    return [
        SnapshotRow(agent, kind, key, position, tokens)
        for agent in agents
        for kind, table in (("rule", RULES), ("subject", SUBJECTS))
        for key, conjunctions in table.items()
        for position, tokens in enumerate(conjunctions)
    ]


def many_rows(agents: Sequence[str], subjects: int) -> Iterator[SnapshotRow]:
    """Give as many subjects as asked for, for each agent, in order."""
    for agent in agents:
        for number in range(subjects):
            tokens = (f"zone=={number % 17}", f"carrier=={number % 5}", f"id=={number}")
            yield SnapshotRow(agent, "subject", f"p-{number:016x}", 0, tokens)


class Case:
    """Folders, keys and a snapshot of one test."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        if create:
            folder.mkdir()
        self.folder = folder
        self.snapshot = folder / "snapshot"
        self.output = folder / "output"
        self.key_file = folder / "key"
        self.progress = folder / "progress.jsonl"
        self.password_file: Path | None = None
        self.job_key = create_job_key(self.key_file)
        self.keys: dict[str, bytes] = {}
        self.parameters = parameters_of("tokens")

    @property
    def job(self) -> Recompute:
        return Recompute(
            self.snapshot, self.output, self.key_file, self.progress, self.password_file
        )

    def write(
        self,
        rows: Iterable[SnapshotRow],
        agents: Iterable[str] = AGENTS,
        parameters: Parameters | None = None,
    ) -> Manifest:
        """Write the snapshot with keys that differ from agent to agent."""
        return write_snapshot(
            self.snapshot,
            domain="heating",
            epoch=EPOCH,
            agents=self._encodings(agents, parameters),
            rows=rows,
            job_key=self.job_key,
        )

    def write_table(
        self,
        server: PostgreSQL,
        rows: Iterable[SnapshotRow],
        agents: Iterable[str] = AGENTS,
        parameters: Parameters | None = None,
    ) -> SnapshotTable:
        """Write the same snapshot into a table of a new database."""
        name = f"snapshots{secrets.token_hex(4)}"
        server.create(name)
        table = SnapshotTable(
            "127.0.0.1", server.port, name, server.user, "portcullis_snapshot_test"
        )
        self.password_file = self.folder / "password"
        write_password_file(self.password_file, table, server.password)
        write_table_snapshot(
            self.snapshot,
            domain="heating",
            epoch=EPOCH,
            agents=self._encodings(agents, parameters),
            rows=rows,
            job_key=self.job_key,
            table=table,
            password_file=self.password_file,
        )
        return table

    def _encodings(
        self, agents: Iterable[str], parameters: Parameters | None
    ) -> dict[str, AgentEncoding]:
        self.parameters = parameters or self.parameters
        self.keys = {
            name: SeededRandom(b"key of " + name.encode()[:50]).token(32) for name in agents
        }
        return {
            name: AgentEncoding(self.parameters.to_json(), key) for name, key in self.keys.items()
        }

    def run(self, start_session: Callable[[], SparkSession]) -> Summary:
        return run(self.job, start_session)

    def command(self, *more: str) -> list[str]:
        """Give the arguments of the entry point."""
        options: list[Any] = ["--snapshot", self.snapshot, "--output", self.output]
        options += ["--key-file", self.key_file, "--progress", self.progress]
        options += ["--jdbc-driver", DRIVER_JAR]
        if self.password_file is not None:
            options += ["--password-file", self.password_file]
        return [str(option) for option in options] + list(more)


def events_of(spark: SparkSession, folder: Path) -> bytes:
    """Everything that a session has written into its event log, once it has written all of it."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def no_session() -> SparkSession:
    """Stand where a session must not be needed."""
    raise AssertionError("Spark was started")
