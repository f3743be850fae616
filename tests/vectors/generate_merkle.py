"""Writes the golden vectors of the audit's tree: `python -m tests.vectors.generate_merkle`.

The leaves are those of Certificate Transparency's reference tests. Run it only when a format
changes on purpose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from policyengine.primitives import merkle
from policyengine.primitives.checkpoints import Checkpoint, sign_checkpoint, verifier_key
from policyengine.primitives.signatures import SigningKey

VECTORS = Path(__file__).with_name("merkle.json")
LEAVES = (
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
    "a1",
    "a2a2",
    "a3a3a3",
)
HASHES = [merkle.leaf_hash(bytes.fromhex(leaf)) for leaf in LEAVES]
SIZES = range(len(LEAVES) + 1)
ORIGIN = "example.org/audit"
KEY = SigningKey(bytes(range(32)))


def node(height: int, place: int) -> bytes:
    """Compute a complete sub-tree's root from the leaves."""
    return merkle.root(HASHES[place << height : (place + 1) << height])


def document() -> dict[str, list[dict[str, Any]]]:
    """Make the whole file."""
    return {
        "roots": [{"leaves": LEAVES[:n], "root": merkle.root(HASHES[:n]).hex()} for n in SIZES],
        "inclusion": [
            {
                "leaves": LEAVES[:size],
                "index": index,
                "path": [part.hex() for part in merkle.inclusion_proof(index, size, node)],
            }
            for size in SIZES
            for index in range(size)
        ],
        "consistency": [
            {
                "leaves": LEAVES[:new],
                "old": old,
                "path": [part.hex() for part in merkle.consistency_proof(old, new, node)],
            }
            for new in SIZES
            for old in range(1, new + 1)
        ],
        "checkpoints": [
            {
                "leaves": LEAVES[:n],
                "time": time,
                "key": verifier_key(ORIGIN, KEY.public),
                "note": sign_checkpoint(KEY, Checkpoint(ORIGIN, n, merkle.root(HASHES[:n]), time)),
            }
            for n, time in ((0, "2026-01-01T00:00:00Z"), (7, "2026-01-01T00:00:00.250000Z"))
        ],
    }


def text() -> str:
    """Return the vectors as they stand in the file."""
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    VECTORS.write_text(text(), encoding="utf-8")
