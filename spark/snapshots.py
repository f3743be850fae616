"""The control plane's side of a recompute: write a snapshot, read the result.

Nothing here needs Spark or Java. A snapshot is a folder with one Parquet file an
agent and `snapshot.json`, which is written last: without it there is no snapshot.
The tokens in it are the policy in plain text, so the folder is its owner's alone and
is to be removed after the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark.digests import RowDigest
from spark.errors import PipelineError
from spark.files import private_folder, read_json, remove, sha256_of, sync, write_json
from spark.keys import create_job_key, seal_encoding_key
from spark.results import ResultRow, Summary, read_results, read_summary
from spark.schemas import INDEX, KINDS, SNAPSHOT
from spark.tables import SnapshotTable, write_rows

__all__ = [
    "AgentEncoding",
    "Manifest",
    "ManifestEntry",
    "ResultRow",
    "SnapshotRow",
    "Summary",
    "create_job_key",
    "read_results",
    "read_summary",
    "write_snapshot",
    "write_table_snapshot",
]

MANIFEST = "snapshot.json"
VERSION = 1
ROW_GROUP = 20_000
_NAME = re.compile(r"[a-z0-9-]{1,64}")


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One conjunction to be encoded for one agent.

    Args:
        agent: the agent's name.
        kind: `subject` or `rule`.
        key: handle of the subject, or identifier of the rule.
        position: number of the conjunction within `key`, from 0.
        tokens: the conjunction's predicate tokens.
    """

    agent: str
    kind: str
    key: str
    position: int
    tokens: tuple[str, ...]

    @property
    def index(self) -> tuple[str, str, int]:
        """What names the row within its agent."""
        return self.kind, self.key, self.position


@dataclass(frozen=True, slots=True)
class AgentEncoding:
    """How one agent's rows are encoded.

    Args:
        parameters: the encoding's parameters as JSON.
        key: the agent's encoding key in the clear; the snapshot holds it sealed.
    """

    parameters: Mapping[str, Any]
    key: bytes

    def __repr__(self) -> str:
        return f"AgentEncoding(parameters={self.parameters!r}, key=...)"


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """What `snapshot.json` says of one agent.

    Args:
        parameters: the encoding's parameters as JSON.
        sealed_key: the encoding key, sealed under the job key (base64).
        rows: number of rows.
        file: the Parquet file's name, or None where there are no rows.
        sha256: digest of that file.
        index: digest over the rows' index, which the result must have too.
        first: number of its first row where the rows are in a table.
    """

    parameters: Mapping[str, Any]
    sealed_key: str
    rows: int
    file: str | None
    sha256: str
    index: str
    first: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """A snapshot's table of contents.

    Args:
        folder: where the snapshot lies.
        domain: name of the domain.
        epoch: the encoding epoch that is computed.
        agents: the agents by name.
        digest: SHA-256 of `snapshot.json`; a result names the snapshot by it.
        table: where the rows are if they are in no files.
    """

    folder: Path
    domain: str
    epoch: int
    agents: Mapping[str, ManifestEntry]
    digest: str
    table: SnapshotTable | None = None

    @property
    def rows(self) -> int:
        """Number of rows of all agents."""
        return sum(entry.rows for entry in self.agents.values())

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read `snapshot.json`.

        Raises:
            PipelineError: it is missing, damaged or of another version.
        """
        path = folder / MANIFEST
        document = read_json(path)
        try:
            if document["version"] != VERSION:
                raise PipelineError(f"snapshot `{folder}` has an unknown version")
            agents = {name: ManifestEntry(**entry) for name, entry in document["agents"].items()}
            place = document.get("table")
            table = SnapshotTable(**place) if place else None
            manifest = cls(
                folder, document["domain"], int(document["epoch"]), agents, sha256_of(path), table
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise PipelineError(f"`{path}` is not a snapshot's table of contents") from None
        _check_names(agents)
        if manifest.rows != document.get("rows"):
            raise PipelineError(f"`{path}` contradicts itself about the number of rows")
        return manifest

    def check_files(self) -> None:
        """Compare every file with its digest.

        Raises:
            PipelineError: a file is missing or was changed.
        """
        for name, entry in self.agents.items():
            if entry.file is None:
                continue
            path = self.folder / entry.file
            if not path.is_file() or sha256_of(path) != entry.sha256:
                raise PipelineError(f"the snapshot's file for agent `{name}` is missing or damaged")


def write_snapshot(
    folder: Path,
    *,
    domain: str,
    epoch: int,
    agents: Mapping[str, AgentEncoding],
    rows: Iterable[SnapshotRow],
    job_key: bytes,
) -> Manifest:
    """Write everything that one recompute has to encode.

    Rows may come in any order. Those that come sorted by agent, kind, key and position
    are streamed; an agent whose rows do not is sorted in memory at the end.

    Args:
        folder: an empty or new folder.
        domain: name of the domain.
        epoch: the encoding epoch that is computed.
        agents: parameters and key of every agent, those without rows included.
        rows: what to encode.
        job_key: 32 bytes, from `create_job_key`; seals the encoding keys.

    Returns:
        The table of contents as written.

    Raises:
        PipelineError: a row names an unknown agent or kind, or stands there twice.
    """
    _check_names(agents)
    private_folder(folder)
    if (folder / MANIFEST).exists():
        raise PipelineError(f"`{folder}` already holds a snapshot")
    contents = _write_rows(folder, epoch, agents, rows)
    return _write_contents(
        folder, domain=domain, epoch=epoch, agents=agents, contents=contents, job_key=job_key
    )


def write_table_snapshot(
    folder: Path,
    *,
    domain: str,
    epoch: int,
    agents: Mapping[str, AgentEncoding],
    rows: Iterable[SnapshotRow],
    job_key: bytes,
    table: SnapshotTable,
    password_file: Path,
) -> Manifest:
    """Write a snapshot whose rows are in a table of PostgreSQL; as `write_snapshot` otherwise.

    Args:
        rows: what to encode, sorted by agent, kind, key and position.
        table: where to; one of that name is replaced.
        password_file: holds the password for it.

    Raises:
        PipelineError: as `write_snapshot`; or the database cannot be reached.
    """
    _check_names(agents)
    private_folder(folder)
    if (folder / MANIFEST).exists():
        raise PipelineError(f"`{folder}` already holds a snapshot")
    plain = ((row.agent, row.kind, row.key, row.position, row.tokens) for row in rows)
    contents = write_rows(table, password_file, epoch=epoch, agents=list(agents), rows=plain)
    return _write_contents(
        folder,
        domain=domain,
        epoch=epoch,
        agents=agents,
        contents=contents,
        job_key=job_key,
        table=table,
    )


def _write_contents(
    folder: Path,
    *,
    domain: str,
    epoch: int,
    agents: Mapping[str, AgentEncoding],
    contents: Mapping[str, Mapping[str, Any]],
    job_key: bytes,
    table: SnapshotTable | None = None,
) -> Manifest:
    document = {
        **({"table": table.to_json()} if table else {}),
        "version": VERSION,
        "domain": domain,
        "epoch": epoch,
        "rows": sum(content["rows"] for content in contents.values()),
        "agents": {
            name: {
                "parameters": dict(agent.parameters),
                "sealed_key": seal_encoding_key(job_key, agent.key, agent=name, epoch=epoch),
                **contents[name],
            }
            for name, agent in agents.items()
        },
    }
    write_json(folder / MANIFEST, document)
    return Manifest.load(folder)


def _write_rows(
    folder: Path, epoch: int, agents: Mapping[str, AgentEncoding], rows: Iterable[SnapshotRow]
) -> dict[str, dict[str, Any]]:
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(_AgentFile(folder, name, number, epoch))
            for number, name in enumerate(sorted(agents))
        }
        for row in rows:
            if row.agent not in writers:
                raise PipelineError(f"a row is for agent `{row.agent}`, which has no key")
            writers[row.agent].add(row)
        return {name: writer.finish() for name, writer in writers.items()}


def _check_names(agents: Iterable[str]) -> None:
    """Refuse names that are not names: folders are called after them."""
    for name in agents:
        if not _NAME.fullmatch(name):
            raise PipelineError(f"`{name}` is not an agent's name")


class _AgentFile:
    """One agent's Parquet file while it is written."""

    def __init__(self, folder: Path, agent: str, number: int, epoch: int) -> None:
        self._path = folder / f"rows-{number:05d}.parquet"
        self._agent, self._epoch = agent, epoch
        self._buffer: list[SnapshotRow] = []
        self._writer: pq.ParquetWriter | None = None
        self._last: tuple[str, str, int] | None = None
        self._sorted = True

    def __enter__(self) -> _AgentFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def add(self, row: SnapshotRow) -> None:
        if row.kind not in KINDS or row.position < 0:
            raise PipelineError(f"a row of agent `{row.agent}` has an unknown kind or position")
        if self._last is not None and row.index <= self._last:
            self._sorted = False
        self._last = row.index
        self._buffer.append(row)
        if len(self._buffer) >= ROW_GROUP:
            self._flush()

    def finish(self) -> dict[str, Any]:
        """Bring the file to the disk and describe it for the table of contents."""
        if self._buffer:
            self._flush()
        self._close()
        if not self._sorted:
            self._sort()
        digest = RowDigest(INDEX)
        if self._last is None:
            return {"rows": 0, "file": None, "sha256": "", "index": digest.hexdigest()}
        for batch in _batches(self._path):
            digest.update(batch)
        sync(self._path)
        return {
            "rows": digest.rows,
            "file": self._path.name,
            "sha256": sha256_of(self._path),
            "index": digest.hexdigest(),
        }

    def _flush(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, SNAPSHOT, compression="zstd")
        rows, self._buffer = self._buffer, []
        self._writer.write_batch(
            pa.RecordBatch.from_arrays(
                [
                    pa.array([self._agent] * len(rows), pa.string()),
                    pa.array([self._epoch] * len(rows), pa.int32()),
                    pa.array([row.kind for row in rows], pa.string()),
                    pa.array([row.key for row in rows], pa.string()),
                    pa.array([row.position for row in rows], pa.int32()),
                    pa.array([row.tokens for row in rows], pa.list_(pa.string())),
                ],
                schema=SNAPSHOT,
            )
        )

    def _sort(self) -> None:
        table = pq.read_table(self._path).sort_by([(name, "ascending") for name in INDEX])
        draft = self._path.with_suffix(".draft")
        pq.write_table(table, draft, row_group_size=ROW_GROUP, compression="zstd")
        draft.replace(self._path)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(ROW_GROUP, columns=list(INDEX))


def discard(*paths: Path) -> None:
    """Remove a run's folders and its key file once the result has been taken over."""
    for path in paths:
        remove(path)
