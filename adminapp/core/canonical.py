"""Canonical JSON text for the audit: one value, one text."""

from __future__ import annotations

import json
from typing import Any

_encoder = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def dumps(value: Any) -> str:
    return _encoder.encode(value)


def loads(text: str) -> Any:
    return json.loads(text)
