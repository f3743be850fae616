"""Classifications and splits as what the audit keeps."""

from __future__ import annotations

from typing import Any

from adminapp.catalog.models import Attribute
from adminapp.privacy.models import SplitPlan


def classification(row: Attribute) -> dict[str, Any]:
    return {
        "event_type": row.event_type.name,
        "attribute": row.name,
        "pia_class": row.pia_class,
        "pia_reason": row.pia_reason,
    }


def split_plan(row: SplitPlan) -> dict[str, Any]:
    return {"event_type": row.event_type.name, "groups": row.groups, "active": row.active}
