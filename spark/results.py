"""Results of a recompute: how they are laid out, checked, published and read.

A result is a folder with one sub-folder of Parquet files an agent (`agent=<name>`) and
`result.json`, which is written last: without it there is no result. Every reader
checks every row against the digests in `result.json` before it hands out the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark.digests import RowDigest
from spark.errors import PipelineError
from spark.files import read_json, write_json
from spark.schemas import ENCODED, INDEX

RESULT = "result.json"
COLUMNS = ("epoch", *INDEX, "encoded")
_BATCH = 4096
_STORED = pa.schema([ENCODED.field(name) for name in COLUMNS])


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One encoded conjunction.

    Args:
        agent: the agent it is for.
        epoch: the encoding epoch.
        kind: `subject` or `rule`.
        key: handle of the subject, or identifier of the rule.
        position: number of the conjunction within `key`, from 0.
        encoded: the encoding.
    """

    agent: str
    epoch: int
    kind: str
    key: str
    position: int
    encoded: bytes


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What was computed for one agent.

    Args:
        rows: number of rows.
        sha256: digest over all rows (see `digests`).
    """

    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What `result.json` says.

    Args:
        domain: name of the domain.
        epoch: the encoding epoch that was computed.
        snapshot: digest of the snapshot that the result was computed from.
        agents: rows and digest by agent.
    """

    domain: str
    epoch: int
    snapshot: str
    agents: Mapping[str, AgentResult]

    @property
    def rows(self) -> int:
        """Number of rows of all agents."""
        return sum(agent.rows for agent in self.agents.values())


def agent_folder(folder: Path, agent: str) -> Path:
    """Name the folder of an agent's files within a result."""
    return folder / f"agent={agent}"


def publish(folder: Path, summary: Summary) -> None:
    """Write `result.json`: from here on the result is there."""
    document = {
        "version": 1,
        "domain": summary.domain,
        "epoch": summary.epoch,
        "snapshot": summary.snapshot,
        "rows": summary.rows,
        "agents": {
            name: {"rows": agent.rows, "sha256": agent.sha256}
            for name, agent in summary.agents.items()
        },
    }
    write_json(folder / RESULT, document)


def read_summary(folder: Path) -> Summary:
    """Read `result.json`.

    Raises:
        PipelineError: the result is not complete, or the file is damaged.
    """
    path = folder / RESULT
    document = read_json(path)
    try:
        summary = Summary(
            document["domain"],
            int(document["epoch"]),
            document["snapshot"],
            {name: AgentResult(**agent) for name, agent in document["agents"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PipelineError(f"`{path}` does not describe a result") from None
    if document.get("version") != 1 or summary.rows != document.get("rows"):
        raise PipelineError(f"`{path}` has an unknown version or contradicts itself")
    return summary


def read_results(folder: Path) -> Iterator[ResultRow]:
    """Check a whole result, then hand out its rows agent by agent, each in order.

    Memory stays flat: one batch of rows is held at a time.

    Raises:
        PipelineError: the result is not complete, or a row was changed, lost or added.
    """
    summary = read_summary(folder)
    for name, agent in summary.agents.items():
        for _ in _checked(folder, name, agent, summary.epoch):
            pass
    return _rows(folder, summary)


def digest_of(folder: Path, *, epoch: int) -> tuple[AgentResult, str]:
    """Compute rows, digest and digest of the index of one agent's folder.

    Raises:
        PipelineError: rows are out of order, doubled, of another epoch or unreadable.
    """
    digest = RowDigest(COLUMNS)
    for batch in _batches(folder, epoch):
        digest.update(batch)
    return AgentResult(digest.rows, digest.hexdigest()), digest.hexdigest(INDEX)


def _rows(folder: Path, summary: Summary) -> Iterator[ResultRow]:
    for name, agent in summary.agents.items():
        for batch in _checked(folder, name, agent, summary.epoch):
            columns = [batch.column(column).to_pylist() for column in COLUMNS]
            for values in zip(*columns, strict=True):
                yield ResultRow(name, *values)


def _checked(folder: Path, name: str, agent: AgentResult, epoch: int) -> Iterator[pa.RecordBatch]:
    """Yield an agent's batches; raise at the end unless they are what was published."""
    digest = RowDigest(COLUMNS)
    for batch in _batches(agent_folder(folder, name), epoch):
        digest.update(batch)
        yield batch
    if (digest.rows, digest.hexdigest()) != (agent.rows, agent.sha256):
        raise PipelineError(f"the result for agent `{name}` was changed after it was published")


def _batches(folder: Path, epoch: int) -> Iterator[pa.RecordBatch]:
    """Yield an agent's rows in order; each file holds one unbroken piece of them."""
    try:
        for path in _in_order(folder):
            for batch in _read(path, _BATCH):
                if pc.any(pc.not_equal(batch.column("epoch"), epoch)).as_py():
                    raise PipelineError(f"`{folder.name}` holds rows of another epoch")
                yield batch
    except (pa.ArrowException, OSError, KeyError) as error:
        raise PipelineError(f"`{folder.name}` holds a file that cannot be read") from error


def _in_order(folder: Path) -> list[Path]:
    firsts = []
    for path in folder.glob("*.parquet"):
        first = next(iter(_read(path, 1)), None)
        if first is not None and first.num_rows:
            firsts.append((tuple(first.column(name)[0].as_py() for name in INDEX), path))
    return [path for _, path in sorted(firsts)]


def _read(path: Path, size: int) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(size, columns=list(COLUMNS)):
            yield batch.cast(_STORED)
