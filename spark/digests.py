"""One digest over many rows, whatever files they lie in.

Each column is hashed as one stream of lengths and one stream of bytes, so the digest
does not depend on how the rows are cut into batches, row groups and files, and costs
no Python work a row. Rows must come in the order of `schemas.INDEX`, each once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark.errors import PipelineError
from spark.schemas import INDEX

_VERSION = b"portcullis/recompute/1"


class RowDigest:
    """SHA-256 over the rows of one agent.

    Args:
        columns: names of the columns that count, the index columns among them.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._streams = {name: (hashlib.sha256(), hashlib.sha256()) for name in columns}
        self._last: pa.RecordBatch | None = None
        self.rows = 0

    def update(self, batch: pa.RecordBatch) -> None:
        """Add rows that follow the rows before.

        Raises:
            PipelineError: a row is out of order or doubled, or a value is missing.
        """
        if batch.num_rows == 0:
            return
        self._check_order(batch)
        for name, (lengths, content) in self._streams.items():
            column = batch.column(name)
            if column.null_count:
                raise PipelineError(f"a value of column `{name}` is missing")
            sizes, data = _flat(column)
            lengths.update(sizes)
            content.update(data)
        self.rows += batch.num_rows

    def hexdigest(self, columns: Sequence[str] | None = None) -> str:
        """Give the digest over all columns, or over some of them."""
        total = hashlib.sha256(_VERSION)
        for name in columns or tuple(self._streams):
            lengths, content = self._streams[name]
            total.update(name.encode() + b"\0" + lengths.digest() + content.digest())
        return total.hexdigest()

    def _check_order(self, batch: pa.RecordBatch) -> None:
        index = batch.select(list(INDEX))
        if self._last is not None:
            joint = pa.Table.from_batches([self._last, index.slice(0, 1)]).combine_chunks()
            _require_rising(joint.to_batches()[0])
        _require_rising(index)
        self._last = index.slice(index.num_rows - 1)


def _require_rising(index: pa.RecordBatch) -> None:
    """Raise unless each row's index is greater than the one before."""
    count = index.num_rows - 1
    if count < 1:
        return
    rising: object = pa.scalar(False)
    for name in reversed(INDEX):
        before, after = index.column(name).slice(0, count), index.column(name).slice(1)
        rising = pc.or_(pc.less(before, after), pc.and_(pc.equal(before, after), rising))
    if not pc.all(rising).as_py():
        raise PipelineError("rows are out of order, doubled or incomplete")


def _flat(column: pa.Array) -> tuple[memoryview, memoryview]:
    """Give a column's lengths (empty for numbers) and its bytes, without copies."""
    if pa.types.is_integer(column.type):
        return memoryview(b""), column.to_numpy(zero_copy_only=False).astype("<i4").data
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    body = memoryview(data)[int(ends[0]) : int(ends[-1])] if data is not None else memoryview(b"")
    return np.diff(ends).astype("<i4").data, body
