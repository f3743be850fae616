"""The two tables of a recompute, for Arrow and for Spark.

A snapshot says what must be encoded, a result how it is encoded. `epoch` is the
encoding epoch, `kind` is `subject` or `rule`, `key` the handle or the rule's number,
`position` the conjunction within it, from 0.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

SUBJECT: Final = "subject"
RULE: Final = "rule"
KINDS: Final = frozenset({SUBJECT, RULE})

INDEX: Final = ("kind", "key", "position")
"""What names a row within one agent and epoch; rows are kept in this order."""

SNAPSHOT: Final = pa.schema(
    [
        pa.field("agent", pa.string(), nullable=False),
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("tokens", pa.list_(pa.string()), nullable=False),
    ]
)

ENCODED: Final = pa.schema(
    [
        pa.field("agent", pa.string()),
        pa.field("epoch", pa.int32()),
        pa.field("kind", pa.string()),
        pa.field("key", pa.string()),
        pa.field("position", pa.int32()),
        pa.field("encoded", pa.binary()),
    ]
)

SNAPSHOT_DDL: Final = (
    "agent string, epoch int, kind string, key string, position int, tokens array<string>"
)
ENCODED_DDL: Final = (
    "agent string, epoch int, kind string, key string, position int, encoded binary"
)
