"""Where a run's rows come from: Parquet files, or a table of PostgreSQL over JDBC."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spark.errors import PipelineError
from spark.schemas import SNAPSHOT, SNAPSHOT_DDL
from spark.snapshots import Manifest, ManifestEntry
from spark.tables import SnapshotTable, check_private

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER = "org.postgresql.Driver"
PASSWORD_FILE = "org.postgresql.pgpassfile"  # noqa: S105
"""Property of the JDBC driver: path of the file that it looks passwords up in."""
_PIECE = 50_000
"""Rows read by one task: small enough for flat memory, large enough for a query of its own."""


def rows_of(
    spark: SparkSession,
    manifest: Manifest,
    share: Mapping[str, ManifestEntry],
    password_file: Path | None,
) -> DataFrame:
    """Give the rows of some agents: columns of `schemas.SNAPSHOT`, in order within a partition.

    Raises:
        PipelineError: the snapshot is in a table and there is no private password file.
    """
    if manifest.table is None:
        files = [str(manifest.folder / str(entry.file)) for entry in share.values()]
        return spark.read.schema(SNAPSHOT_DDL).parquet(*files)
    if password_file is None:
        raise PipelineError("the snapshot is in a database: name the file with its password")
    check_private(password_file)
    _tell_driver(spark, password_file)
    return _table(spark, manifest.table, share)


def pieces(share: Mapping[str, ManifestEntry]) -> list[tuple[int, int]]:
    """Divide agents' rows into ranges of numbers, none across two agents."""
    return [
        (start, min(start + _PIECE, entry.first + entry.rows))
        for entry in share.values()
        for start in range(entry.first, entry.first + entry.rows, _PIECE)
    ]


def _table(
    spark: SparkSession, table: SnapshotTable, share: Mapping[str, ManifestEntry]
) -> DataFrame:
    rows = spark.read.jdbc(
        table.url,
        table.name,
        predicates=[f"number >= {low} AND number < {high}" for low, high in pieces(share)],
        properties={"driver": DRIVER, "user": table.user, "fetchsize": "5000"},
    )
    return rows.sortWithinPartitions("number").select(*SNAPSHOT.names)


def _tell_driver(spark: SparkSession, password_file: Path) -> None:
    """Executors have the path from the session's settings; this process may be older than it."""
    spark.sparkContext._jvm.java.lang.System.setProperty(PASSWORD_FILE, str(password_file))
