"""A policy as a snapshot: what versions and the audit keep, and what a restore reads back."""

from __future__ import annotations

from typing import Any

from adminapp.core.moments import moment
from adminapp.policies.models import EnvironmentVariable, Policy, Representative


def snapshot(row: Policy) -> dict[str, Any]:
    return {
        "name": row.name,
        "title": row.title,
        "action": row.action,
        "event_type": row.event_type.name,
        "expression": row.expression,
        "attributes": row.attributes,
        "rules": row.rules,
        "enabled": row.enabled,
        "valid_from": moment(row.valid_from),
        "valid_until": moment(row.valid_until),
        "limit_count": row.limit_count,
        "limit_seconds": row.limit_seconds,
    }


def variable(row: EnvironmentVariable) -> dict[str, Any]:
    """What a variable is; what it is set to is a fact of the moment, and in no file."""
    return {"name": row.name, "title": row.title, "type": row.type}


def representative(row: Representative) -> dict[str, Any]:
    return {
        "user": row.user.username,
        "principal": row.principal.name,
        "begins": moment(row.begins),
        "ends": moment(row.ends),
        "given_by": row.given_by.username if row.given_by else None,
    }
