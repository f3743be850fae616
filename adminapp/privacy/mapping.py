"""Splits as what the audit keeps."""

from __future__ import annotations

from typing import Any

from adminapp.privacy.models import SplitPlan


def split_plan(row: SplitPlan) -> dict[str, Any]:
    return {"event_type": row.event_type.name, "groups": row.groups, "active": row.active}
