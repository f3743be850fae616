"""Moments as documents show them: ISO 8601 in UTC, always spelt the same."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(value: datetime | None) -> str | None:
    """A moment as text, such as `2026-03-01T08:00:00Z`; microseconds only where there are any."""
    if value is None:
        return None
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
