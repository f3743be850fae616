"""Rows read from PostgreSQL: the same result as from files, and no password anywhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from policyengine.anonset import size_for
from spark.errors import PipelineError
from spark.jobs import recompute
from spark.results import read_results, read_summary
from spark.snapshots import Manifest, ManifestEntry, SnapshotRow
from spark.sources import pieces
from spark.tables import SnapshotTable, drop, read_rows, write_password_file
from tests.spark.cases import AGENTS, Case, events_of, many_rows, no_session, small_rows
from tests.support.services import PostgreSQL

pytestmark = pytest.mark.spark

TABLE = SnapshotTable("127.0.0.1", 5432, "db", "somebody", "portcullis_snapshot_1")
WHOLE = size_for(3, encoding="tokens")
"""As many elements as every subject has: without padding the bytes are always the same."""


@pytest.fixture
def kept(case: Case, postgresql: PostgreSQL) -> tuple[Case, SnapshotTable]:
    """The small snapshot, in a table."""
    return case, case.write_table(postgresql, small_rows())


def password_of(case: Case) -> Path:
    assert case.password_file is not None
    return case.password_file


def entry_of(case: Case, agent: str) -> dict[str, object]:
    entry = Manifest.load(case.snapshot).agents[agent]
    return {"first": entry.first, "rows": entry.rows, "sha256": entry.sha256}


def test_a_table_gives_the_same_bytes_as_files(
    spark: SparkSession, case: Case, tmp_path: Path, postgresql: PostgreSQL, event_log: Path
) -> None:
    # One agent with several pieces and a job of its own, two that share one, one without rows.
    rows = [*many_rows(["a"], 60_000), *many_rows(["b", "c"], 700)]
    agents = ["a", "b", "c", "d"]
    case.write(rows, agents=agents, parameters=WHOLE)
    case.run(lambda: spark)
    other = Case(tmp_path / "other", create=True)
    other.write_table(postgresql, rows, agents=agents, parameters=WHOLE)
    other.run(lambda: spark)
    assert list(read_results(other.output)) == list(read_results(case.output))
    assert read_summary(other.output).agents == read_summary(case.output).agents
    assert len(list(other.output.glob("agent=a/*.parquet"))) == 2
    # Neither events nor anything that the run wrote tell the password or a token.
    written = [path for path in other.folder.rglob("*") if path.is_file()]
    assert password_of(other) in written
    written.remove(password_of(other))
    seen = b"".join(path.read_bytes() for path in written) + events_of(spark, event_log)
    seen += str(spark.sparkContext.getConf().getAll()).encode()
    assert b"portcullis_snapshot_test" in seen
    assert postgresql.password.encode() not in seen
    assert b"zone==" not in seen


def test_the_table_gives_back_what_was_written(kept: tuple[Case, SnapshotTable]) -> None:
    case, table = kept
    for agent in AGENTS:
        found = list(read_rows(table, password_of(case), entry_of(case, agent)))
        wanted = sorted(
            (row.kind, row.key, row.position, row.tokens) for row in small_rows([agent])
        )
        assert found == wanted


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {} SET tokens = '{{other}}' WHERE number = 0",
        "DELETE FROM {} WHERE number = 0",
        "UPDATE {} SET key = 'p-0' WHERE number = 0",
    ],
)
def test_a_changed_row_is_seen_before_anything_is_published(
    kept: tuple[Case, SnapshotTable], postgresql: PostgreSQL, statement: str
) -> None:
    case, table = kept
    with psycopg.connect(postgresql.url(table.database)) as connection:
        connection.execute(statement.format(table.name).encode())
    with pytest.raises(PipelineError, match="missing or were changed"):
        list(read_rows(table, password_of(case), entry_of(case, "alpha")))


def test_a_row_that_got_lost_on_the_way_publishes_nothing(
    spark: SparkSession, kept: tuple[Case, SnapshotTable], postgresql: PostgreSQL
) -> None:
    case, table = kept
    with psycopg.connect(postgresql.url(table.database)) as connection:
        connection.execute(f"DELETE FROM {table.name} WHERE number = 1".encode())
    with pytest.raises(PipelineError, match="not what the snapshot asks for"):
        case.run(lambda: spark)
    assert not (case.output / "result.json").exists()


def test_a_wrong_password_is_a_reason_without_it(
    spark: SparkSession, kept: tuple[Case, SnapshotTable]
) -> None:
    case, table = kept
    write_password_file(password_of(case), table, "hunter:2\\")
    with pytest.raises(PipelineError, match="cannot be reached") as caught:
        table.connect(password_of(case))
    with pytest.raises(PipelineError, match="spark failed") as second:
        case.run(lambda: spark)
    assert "hunter" not in str(caught.value) + str(second.value)


def test_a_doubtful_password_file_is_refused(
    spark: SparkSession, kept: tuple[Case, SnapshotTable]
) -> None:
    case, _ = kept
    password_of(case).chmod(0o640)
    with pytest.raises(PipelineError, match="mode 0600"):
        case.run(lambda: spark)
    password_of(case).unlink()
    with pytest.raises(PipelineError, match="cannot be read"):
        case.run(lambda: spark)
    case.password_file = None
    with pytest.raises(PipelineError, match="name the file with its password"):
        case.run(lambda: spark)


def test_a_table_is_written_over_and_dropped(
    kept: tuple[Case, SnapshotTable], postgresql: PostgreSQL
) -> None:
    case, table = kept
    for _ in range(2):
        drop(table, password_of(case))
    with psycopg.connect(postgresql.url(table.database)) as connection:
        left = connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'").fetchall()
    assert left == []


@pytest.mark.parametrize(
    "rows",
    [
        [SnapshotRow("alpha", "rule", "2", 0, ()), SnapshotRow("alpha", "rule", "1", 0, ())],
        [SnapshotRow("alpha", "rule", "1", 0, ())] * 2,
        [SnapshotRow("omega", "rule", "1", 0, ())],
        [SnapshotRow("alpha", "role", "1", 0, ())],
    ],
)
def test_rows_that_make_no_snapshot_leave_none(
    case: Case, postgresql: PostgreSQL, rows: list[SnapshotRow]
) -> None:
    with pytest.raises(PipelineError):
        case.write_table(postgresql, rows)
    assert not (case.snapshot / "snapshot.json").exists()


def test_a_missing_driver_is_named(
    kept: tuple[Case, SnapshotTable], capsys: pytest.CaptureFixture[str]
) -> None:
    case, _ = kept
    assert recompute.main(case.command("--jdbc-driver", "/nowhere/postgresql.jar")) == 1
    said = capsys.readouterr().err
    assert "`/nowhere/postgresql.jar`: install libpostgresql-jdbc-java" in said


def test_a_table_of_somebody_else_is_refused() -> None:
    for change in ({"name": "identity_user"}, {"name": 'x"; DROP'}, {"host": ""}, {"host": "/run"}):
        with pytest.raises(PipelineError):
            dataclasses.replace(TABLE, **change)
    assert dataclasses.replace(TABLE, host="::1").url == "jdbc:postgresql://[::1]:5432/db"


def test_pieces_cover_every_row_once_and_never_two_agents() -> None:
    def entry(first: int, rows: int) -> ManifestEntry:
        return ManifestEntry({}, "", rows, None, "", "", first)

    share = {"a": entry(10, 120_000), "b": entry(120_010, 1), "c": entry(0, 10)}
    found = pieces(share)
    numbers = [number for low, high in found for number in range(low, high)]
    assert sorted(numbers) == list(range(120_011))
    assert all(low < high for low, high in found)
    ends = {10, 120_010, 120_011}
    assert all(not any(low < end < high for end in ends) for low, high in found)


def test_nothing_in_a_table_needs_no_spark(case: Case, postgresql: PostgreSQL) -> None:
    case.write_table(postgresql, [])
    assert case.run(no_session).rows == 0
