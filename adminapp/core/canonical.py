"""Canonical JSON text for the audit: one value, one text."""

from __future__ import annotations

import json
from typing import Any


def dumps(value: Any) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def loads(text: str) -> Any:
    return json.loads(text)
