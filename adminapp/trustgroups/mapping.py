"""Trust groups and epochs as what the audit keeps; names of what a key is for."""

from __future__ import annotations

from typing import Any

from adminapp.trustgroups.models import KeyEpoch, TrustGroup

KEY = "key:"
OVERLAY = "overlay:"


def key_ref(name: str) -> str:
    """The group reference of an attribute key."""
    return f"{KEY}{name}"


def overlay_ref(name: str) -> str:
    """The group reference of an overlay's hop key."""
    return f"{OVERLAY}{name}"


def trust_group(row: TrustGroup) -> dict[str, Any]:
    return {
        "name": row.name,
        "kind": row.kind,
        "overlay": row.overlay.name if row.overlay else None,
        "members": sorted(agent.name for agent in row.members.all()),
        "keys": sorted(key.name for key in row.keys.all()),
    }


def key_epoch(row: KeyEpoch) -> dict[str, Any]:
    """Never the wrapped key: nobody needs it in the audit."""
    return {
        "group": row.group_ref,
        "number": row.number,
        "state": row.state,
        "reason": row.reason,
    }
