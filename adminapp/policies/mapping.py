"""A policy as a snapshot: what versions and the audit keep, and what a restore reads back."""

from __future__ import annotations

from typing import Any

from adminapp.policies.models import Policy


def snapshot(row: Policy) -> dict[str, Any]:
    return {
        "name": row.name,
        "title": row.title,
        "action": row.action,
        "event_type": row.event_type.name,
        "expression": row.expression,
        "attributes": row.attributes,
        "enabled": row.enabled,
        "valid_from": row.valid_from.isoformat() if row.valid_from else None,
        "valid_until": row.valid_until.isoformat() if row.valid_until else None,
    }
