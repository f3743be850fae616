"""Rows as what the audit keeps of them, and as the engine's values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adminapp.core.errors import Invalid
from adminapp.identity.models import (
    Agent,
    ApiToken,
    Delegation,
    Domain,
    HomeAgent,
    Membership,
    Overlay,
    Principal,
    User,
)
from policyengine.errors import DecodeError
from policyengine.primitives.canonical import b64, unb64

KEY_SIZE = 32


def user(row: User) -> dict[str, Any]:
    return {
        "username": row.username,
        "email": row.email,
        "operator": row.is_superuser,
        "active": row.is_active,
    }


def domain(row: Domain) -> dict[str, Any]:
    return {
        "name": row.name,
        "title": row.title,
        "description": row.description,
        "parent": row.parent.name if row.parent else None,
        "lease_seconds": row.lease_seconds,
        "decision_days": row.decision_days,
        "encoding": row.encoding,
        "approval": row.approval,
        "max_objects": row.max_objects,
        "max_principals": row.max_principals,
        "requests_per_minute": row.requests_per_minute,
    }


def membership(row: Membership) -> dict[str, Any]:
    return {"user": row.user.username, "role": row.role}


def delegation(row: Delegation) -> dict[str, Any]:
    return {
        "user": row.user.username,
        "roles": row.roles,
        "event_types": row.event_types,
        "begins": row.begins.isoformat(),
        "ends": row.ends.isoformat(),
        "granted_by": row.granted_by.username if row.granted_by else None,
    }


def overlay(row: Overlay) -> dict[str, Any]:
    return {"name": row.name, "title": row.title, "operator": row.operator}


def agent(row: Agent) -> dict[str, Any]:
    return {
        "name": row.name,
        "overlay": row.overlay.name,
        "sealing_key": row.sealing_key,
        "verify_key": row.verify_key,
        "state": row.state,
    }


def principal(row: Principal) -> dict[str, Any]:
    return principal_at(row, _homes(row))


def principal_at(row: Principal, at: Iterable[HomeAgent]) -> dict[str, Any]:
    """The document of a principal that is at home there."""
    homes = sorted(at, key=lambda home: home.overlay.name)
    return {
        "name": row.name,
        "kind": row.kind,
        "attributes": row.attributes,
        # A broker agent's keys are the platform's to change, and no part of the domain.
        "sealing_key": "" if row.broker else row.sealing_key,
        "verify_key": "" if row.broker else row.verify_key,
        "certificate": row.certificate,
        "broker": row.broker.name if row.broker else None,
        "state": row.state,
        "agents": {home.overlay.name: home.agent.name for home in homes},
        "fallbacks": {
            home.overlay.name: home.fallback.name for home in homes if home.fallback is not None
        },
    }


def _homes(row: Principal) -> list[HomeAgent]:
    """Home agents, without a query when they were fetched with the row."""
    if "homes" in getattr(row, "_prefetched_objects_cache", {}):
        return list(row.homes.all())
    return list(
        HomeAgent.objects.filter(principal=row).select_related("overlay", "agent", "fallback")
    )


def token(row: ApiToken) -> dict[str, Any]:
    return {
        "name": row.name,
        "user": row.user.username,
        "scopes": row.scopes,
        "expires": row.expires.isoformat(),
        "domains": _domains_of(row),
    }


def _domains_of(token: ApiToken) -> list[str] | None:
    if not token.restricted:
        return None
    return sorted(token.domains.values_list("name", flat=True))


def public_key(value: bytes | str, field: str) -> str:
    """A public key in the form that rows keep: base64url of exactly 32 bytes.

    Raises:
        Invalid: it is something else.
    """
    try:
        raw = unb64(value) if isinstance(value, str) else bytes(value)
    except (DecodeError, ValueError) as error:
        raise Invalid.at(f"/{field}", "a key is base64url without padding") from error
    if len(raw) != KEY_SIZE:
        raise Invalid.at(f"/{field}", f"a key has {KEY_SIZE} bytes, this one {len(raw)}")
    return b64(raw)
