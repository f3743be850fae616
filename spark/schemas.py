"""The tables of a recompute and of the activity, for Arrow and for Spark.

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

DECISION: Final = pa.schema(
    [
        pa.field("stream", pa.string(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("at", pa.int64(), nullable=False),
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("action", pa.string(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("policies", pa.list_(pa.string()), nullable=False),
        pa.field("subscriptions", pa.list_(pa.string()), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)
"""A decision of an agent, in a file below `date=<day>/agent=<name>`; `stream`, `sequence` and
`position` name it within its agent, so that what was stored twice counts once."""

DECISION_DDL: Final = (
    "stream string, sequence long, position int, at long, revision long, epoch long, "
    "action string, client string, type string, outcome string, reason string, "
    "policies array<string>, subscriptions array<string>, count long, date string, agent string"
)
PAIR_DDL: Final = "left string, right string"
"""What belongs together: a policy and a role that it names, a client and a role that it has."""
PAIR: Final = pa.schema([pa.field("left", pa.string()), pa.field("right", pa.string())])
REVOKED_DDL: Final = (
    "revocation string, party string, name string, since long, until long, floor long, "
    "ended array<struct<action: string, type: string, policy: string, before: long, "
    "partly: boolean>>"
)
"""A client (by handle) or an agent (by name; `party` says which) that lost something: by which
revocation, when that was, from when on nothing of it may pass, the first revision that knows
of it, and what ended: an empty action, type or policy is any, `before` the first revision that
gives it again, `partly` what the policy gives in part still."""
REVOKED: Final = pa.schema(
    [
        pa.field("revocation", pa.string()),
        pa.field("party", pa.string()),
        pa.field("name", pa.string()),
        pa.field("since", pa.int64()),
        pa.field("until", pa.int64()),
        pa.field("floor", pa.int64()),
        pa.field(
            "ended",
            pa.list_(
                pa.struct(
                    [
                        pa.field("action", pa.string()),
                        pa.field("type", pa.string()),
                        pa.field("policy", pa.string()),
                        pa.field("before", pa.int64()),
                        pa.field("partly", pa.bool_()),
                    ]
                )
            ),
        ),
    ]
)
