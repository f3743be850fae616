"""A snapshot whose rows lie in a table of PostgreSQL, for clusters that share no large files.

The table of contents stays a file, as it holds the sealed keys. The password is in a file of mode
0600 in PostgreSQL's own format, which libpq and the JDBC driver read by themselves: only its path
is in a setting, so the password is in no command line, configuration, plan or event log.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark.digests import RowDigest
from spark.errors import PipelineError
from spark.schemas import INDEX, KINDS, SNAPSHOT

if TYPE_CHECKING:
    import psycopg

# PostgreSQL's library is loaded where it is used: Spark's workers have no use for it.
_NAME = re.compile(r"portcullis_snapshot_[a-z0-9]{1,40}")
_BATCH = 20_000
_COLUMNS = ("number", "agent", "epoch", "kind", "key", "position", "tokens")
_TYPES = ("int8", "text", "int4", "text", "text", "int4", "text[]")
_INDEX = pa.schema([SNAPSHOT.field(name) for name in INDEX])

# Agent, kind, key, position, tokens.
Row = tuple[str, str, str, int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class SnapshotTable:
    """Where a snapshot's rows are; nothing secret.

    Args:
        host: of the server, as driver and executors reach it over TCP.
        port: of the server.
        database: its database.
        user: who reads.
        name: the table, `portcullis_snapshot_` and letters or digits.
    """

    host: str
    port: int
    database: str
    user: str
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise PipelineError("the snapshot names a table that is none of ours")
        if not re.fullmatch(r"[A-Za-z0-9_.:-]+", self.host):
            raise PipelineError("spark reads a database over TCP: name its host")

    @property
    def url(self) -> str:
        """The address for JDBC, without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"jdbc:postgresql://{host}:{self.port}/{self.database}"

    def to_json(self) -> dict[str, Any]:
        """As a table of contents has it."""
        return asdict(self)

    def connect(self, password_file: Path) -> psycopg.Connection[Any]:
        """Open a connection as the control plane does.

        Raises:
            PipelineError: the server cannot be reached or lets nobody in.
        """
        import psycopg

        check_private(password_file)
        try:
            return psycopg.connect(
                host=self.host,
                port=self.port,
                dbname=self.database,
                user=self.user,
                passfile=str(password_file),
                connect_timeout=10,
            )
        except psycopg.OperationalError:
            # The driver's message names user and address; the reason stands in the server's log.
            raise PipelineError("the database of the snapshot cannot be reached") from None


def write_password_file(path: Path, table: SnapshotTable, password: str) -> None:
    """Write a new file that holds the password for the table's database (format of `.pgpass`)."""
    fields = (table.host, str(table.port), table.database, table.user, password)
    if any("\n" in field for field in fields):
        raise PipelineError("a password of two lines cannot be written to a password file")
    line = ":".join(field.replace("\\", "\\\\").replace(":", "\\:") for field in fields)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(line + "\n")


def check_private(path: Path) -> None:
    """Raise PipelineError unless a file is there and its owner's alone."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise PipelineError(f"`{path}` cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise PipelineError(f"`{path}` must be a file of mode 0600")


def write_rows(
    table: SnapshotTable,
    password_file: Path,
    *,
    epoch: int,
    agents: Sequence[str],
    rows: Iterable[Row],
) -> dict[str, dict[str, Any]]:
    """Fill the table, anew if it is there, in one transaction.

    Args:
        agents: all names, those without rows included.
        rows: sorted by agent, kind, key and position.

    Returns:
        By agent what the table of contents says of its rows.

    Raises:
        PipelineError: rows are out of order, doubled, or of an unknown agent or kind.
    """
    from psycopg import sql

    name = sql.Identifier(table.name)
    contents = {agent: _Contents() for agent in agents}
    columns = sql.SQL(", ").join(map(sql.Identifier, _COLUMNS))
    with table.connect(password_file) as connection, connection.cursor() as cursor:
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(name))
        cursor.execute(
            sql.SQL(
                "CREATE TABLE {} (number bigint PRIMARY KEY, agent text NOT NULL, "
                "epoch integer NOT NULL, kind text NOT NULL, key text NOT NULL, "
                "position integer NOT NULL, tokens text[] NOT NULL)"
            ).format(name)
        )
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(name, columns)
        with cursor.copy(statement) as copy:
            copy.set_types(list(_TYPES))
            for number, row in enumerate(_ordered(rows)):
                agent, kind, key, position, tokens = row
                if agent not in contents or kind not in KINDS or position < 0:
                    raise PipelineError("a row is of an unknown agent, kind or position")
                contents[agent].add(number, row)
                copy.write_row((number, agent, epoch, kind, key, position, list(tokens)))
    return {agent: content.finish() for agent, content in contents.items()}


def read_rows(
    table: SnapshotTable, password_file: Path, entry: Mapping[str, Any]
) -> Iterator[tuple[str, str, int, tuple[str, ...]]]:
    """Give kind, key, position and tokens of one agent's rows, in order, checked at the end.

    Args:
        entry: `first`, `rows` and `sha256` of the table of contents.

    Raises:
        PipelineError: rows are missing or were changed.
    """
    from psycopg import sql

    digest = hashlib.sha256()
    statement = sql.SQL(
        "SELECT agent, kind, key, position, tokens FROM {} "
        "WHERE number >= %s AND number < %s ORDER BY number"
    ).format(sql.Identifier(table.name))
    with table.connect(password_file) as connection, connection.cursor(name="rows") as cursor:
        cursor.itersize = _BATCH
        cursor.execute(statement, (entry["first"], entry["first"] + entry["rows"]))
        for agent, kind, key, position, tokens in cursor:
            _add(digest, (agent, kind, key, position, tuple(tokens)))
            yield kind, key, position, tuple(tokens)
    if digest.hexdigest() != entry["sha256"]:
        raise PipelineError(f"rows of the table `{table.name}` are missing or were changed")


def drop(table: SnapshotTable, password_file: Path) -> None:
    """Remove the table, whether it is there or not."""
    from psycopg import sql

    with table.connect(password_file) as connection:
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(table.name)))


def _ordered(rows: Iterable[Row]) -> Iterator[Row]:
    last: tuple[str, str, str, int] | None = None
    for row in rows:
        if last is not None and row[:4] <= last:
            raise PipelineError("rows for a table must come sorted, each once")
        last = row[:4]
        yield row


def _add(digest: Any, row: Row) -> None:
    for text in (row[0], row[1], row[2], str(row[3]), str(len(row[4])), *row[4]):
        data = text.encode()
        digest.update(len(data).to_bytes(4, "big") + data)


class _Contents:
    """What is said of one agent's rows."""

    def __init__(self) -> None:
        self._first, self._count = 0, 0
        self._digest, self._index = hashlib.sha256(), RowDigest(INDEX)
        self._buffer: list[tuple[str, str, int]] = []

    def add(self, number: int, row: Row) -> None:
        if not self._count:
            self._first = number
        self._count += 1
        _add(self._digest, row)
        self._buffer.append(row[1:4])
        if len(self._buffer) >= _BATCH:
            self._flush()

    def finish(self) -> dict[str, Any]:
        self._flush()
        return {
            "rows": self._count,
            "file": None,
            "sha256": self._digest.hexdigest(),
            "index": self._index.hexdigest(),
            "first": self._first,
        }

    def _flush(self) -> None:
        rows, self._buffer = self._buffer, []
        columns = list(zip(*rows, strict=True)) or [() for _ in INDEX]
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, _INDEX, strict=True)]
        self._index.update(pa.RecordBatch.from_arrays(arrays, schema=_INDEX))
