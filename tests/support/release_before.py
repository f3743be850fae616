"""The release before, as it reads records: strictly, by the members that it knew.

It knows nothing of this release's code: what it knew was written down by its own
(`tests/vectors/generate_release.py`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BEFORE = Path(__file__).parents[1] / "vectors" / "release_before"


class Reader:
    """What the release before makes of a record."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = json.loads((BEFORE / "records.json").read_text("utf-8"))
        self.records: dict[str, dict[str, Any]] = self.document["records"]
        self.requests: list[str] = self.document["requests"]
        self.control: list[str] = self.document["control"]

    def reads(self, record: str, data: bytes) -> bool:
        """Whether it reads a record's JSON, with all that is inside."""
        return self.knows(record, json.loads(data))

    def knows(self, record: str, document: Any) -> bool:
        """Whether it knows every member of a JSON value, and misses none."""
        shape = self.records[record]
        if not isinstance(document, dict):
            return False
        needed, known = set(shape["members"]), {*shape["members"], *shape["later"]}
        if not needed <= set(document) <= known:
            return False
        inside = [(name, inner) for name, inner in shape["inside"].items() if name in document]
        return all(self._all(inner, document[name]) for name, inner in inside)

    def _all(self, record: str, value: Any) -> bool:
        """A record, a list of them, a map of them, or none."""
        if value is None:
            return True
        if isinstance(value, list):
            return all(self._all(record, one) for one in value)
        if self.knows(record, value):
            return True
        values = value.values() if isinstance(value, dict) else ()
        return (
            bool(values)
            and all(isinstance(one, dict) for one in values)
            and all(self.knows(record, one) for one in values)
        )
