"""The digest that a result is checked by."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark.digests import RowDigest
from spark.errors import PipelineError
from spark.results import COLUMNS
from spark.schemas import ENCODED, INDEX

SCHEMA = pa.schema([ENCODED.field(name) for name in COLUMNS])
ROWS = [
    (7, "rule", "1", 0, b"aa"),
    (7, "rule", "1", 1, b""),
    (7, "rule", "10", 0, b"bbbb"),
    (7, "subject", "1", 0, b"c"),
]


def batch(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [[] for _ in COLUMNS]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def digest(*batches: pa.RecordBatch) -> str:
    total = RowDigest(COLUMNS)
    for one in batches:
        total.update(one)
    return total.hexdigest()


def test_the_digest_does_not_depend_on_how_rows_are_cut() -> None:
    whole = digest(batch(ROWS))
    for cut in range(len(ROWS) + 1):
        assert digest(batch(ROWS[:cut]), batch(ROWS[cut:])) == whole
        assert digest(batch(ROWS).slice(0, cut), batch(ROWS).slice(cut)) == whole


@pytest.mark.parametrize("column", range(5))
def test_every_column_counts(column: int) -> None:
    other: list[object] = list(ROWS[3])
    other[column] = {0: 8, 1: "surplus", 2: "2", 3: 1, 4: b"d"}[column]
    assert digest(batch([*ROWS[:3], tuple(other)])) != digest(batch(ROWS))


def test_bytes_cannot_move_from_one_value_to_the_next() -> None:
    moved = [(7, "rule", "1", 0, b"a"), (7, "rule", "1", 1, b"a"), *ROWS[2:]]
    assert digest(batch(moved)) != digest(batch(ROWS))


def test_the_digest_of_the_index_ignores_the_encodings() -> None:
    changed = [(*row[:4], b"other") for row in ROWS]
    one, two = RowDigest(COLUMNS), RowDigest(COLUMNS)
    one.update(batch(ROWS))
    two.update(batch(changed))
    assert one.hexdigest(INDEX) == two.hexdigest(INDEX)
    assert one.hexdigest() != two.hexdigest()


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 0, 1, 2), (0, 2, 1, 3), (3, 0, 1, 2)])
def test_disorder_and_doubles_are_refused(order: tuple[int, ...]) -> None:
    rows = [ROWS[place] for place in order]
    with pytest.raises(PipelineError, match="out of order"):
        digest(batch(rows))
    with pytest.raises(PipelineError, match="out of order"):
        digest(*[batch([row]) for row in rows])


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(PipelineError, match="`encoded` is missing"):
        digest(batch([(7, "rule", "1", 0, None)]))
