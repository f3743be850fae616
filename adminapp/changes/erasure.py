"""Takes a person out of the change sets that speak of them."""

from __future__ import annotations

from typing import Any

from adminapp.changes.models import ChangeSet
from adminapp.identity.models import Principal


def forget(principal: Principal) -> None:
    """Remove what change sets say of a principal that is being erased.

    What an applied one did stands in the audit, sealed for that person; here are what was asked
    for and what was planned, in clear.
    """
    rows = ChangeSet.objects.filter(domain_id=principal.domain_id)
    for row in rows.only("pk", "operations", "plan", "version").iterator(chunk_size=500):
        operations = [each for each in row.operations if not _about(each, principal.name)]
        plan = None if row.plan is None else _without(row.plan, principal.name)
        if operations != row.operations or plan != row.plan:
            row.operations, row.plan, row.version = operations, plan, row.version + 1
            row.save(update_fields=["operations", "plan", "version"])


def _about(item: Any, name: str) -> bool:
    """Whether an operation, or a planned change, is that of the principal or what it was given."""
    kind, key = item.get("kind"), str(item.get("key", ""))
    if kind == "principal":
        return key == name
    return kind == "appointment" and key.startswith(f"{name}/")


def _without(plan: dict[str, Any], name: str) -> dict[str, Any]:
    kept = dict(plan)
    if "changes" in plan:
        kept["changes"] = [each for each in plan["changes"] if not _about(each, name)]
    if "effects" in plan:
        effects = dict(plan["effects"])
        for side in ("gains", "losses"):
            effects[side] = [
                line for line in effects.get(side, ()) if line.get("principal") != name
            ]
        kept["effects"] = effects
    return kept
