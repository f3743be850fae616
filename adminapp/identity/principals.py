"""Changes of principals: who they are, where they are at home, which keys they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import Conflict, InUse, Invalid
from adminapp.identity import mapping, permissions, ports
from adminapp.identity.models import (
    Agent,
    Domain,
    HomeAgent,
    Principal,
    User,
)
from adminapp.identity.recording import delete_row, record_row

PRINCIPAL_FIELDS = frozenset({"name", "kind", "attributes"})


@audit.change
def create_principal(
    *,
    actor: User | None,
    domain: Domain,
    name: str,
    kind: str,
    attributes: Mapping[str, Any] | None = None,
    agents: Iterable[Agent] = (),
    handle: str | None = None,
) -> Principal:
    """A new principal with the declared `attributes`, at home with one agent on each overlay."""
    permissions.require_manager(actor, domain)
    ports.verify_subject(domain, attributes or {})
    row = Principal(domain=domain, name=name, kind=kind, attributes=dict(attributes or {}))
    if handle is not None:
        row.handle = handle
    versions.create(row)
    _set_homes(row, agents)
    record_row(actor, domain, "principal.created", row, after=mapping.principal(row))
    return row


@audit.change
def update_principal(
    *,
    actor: User | None,
    principal: Principal,
    data: Mapping[str, Any],
    agents: Iterable[Agent] | None = None,
    expected_version: int | None = None,
) -> Principal:
    """Change name, kind, attributes, or the home agents (all of them at once)."""
    permissions.require_manager(actor, principal.domain)
    row = versions.locked(principal, expected_version)
    before = mapping.principal(row)
    versions.assign(row, data, PRINCIPAL_FIELDS)
    ports.verify_subject(row.domain, row.attributes)
    versions.save(row)
    if agents is not None:
        _set_homes(row, agents)
    after = mapping.principal(row)
    record_row(actor, row.domain, "principal.updated", row, before=before, after=after)
    return row


@audit.change
def delete_principal(
    *, actor: User | None, principal: Principal, expected_version: int | None = None
) -> None:
    """Only one that never had credentials, or whose revocation is done with, can go."""
    permissions.require_manager(actor, principal.domain)
    row = versions.locked(principal, expected_version)
    if row.sealing_key and row.state == Principal.State.ACTIVE:
        raise InUse("this principal holds credentials; revoke it first")
    before, pk, domain = mapping.principal(row), row.pk, row.domain
    delete_row(row, "this principal is part of a revocation's record")
    row.pk = pk
    record_row(actor, domain, "principal.deleted", row, before=before)


@audit.change
def register_credentials(
    *,
    actor: User | None,
    principal: Principal,
    sealing_key: bytes | str,
    verify_key: bytes | str,
    expected_version: int | None = None,
) -> Principal:
    """Take a client's two public keys (32 bytes each); they replace any it had."""
    permissions.require_manager(actor, principal.domain)
    row = versions.locked(principal, expected_version)
    if row.state == Principal.State.REVOKED:
        raise InUse("a revoked principal gets no credentials")
    before = mapping.principal(row)
    row.sealing_key = mapping.public_key(sealing_key, "sealing_key")
    row.verify_key = mapping.public_key(verify_key, "verify_key")
    versions.save(row)
    after = mapping.principal(row)
    record_row(actor, row.domain, "principal.credentials", row, before=before, after=after)
    return row


@audit.change
def mark_revoked(
    *, actor: User | None, principal: Principal, expected_version: int | None = None
) -> Principal:
    """The row's part of a revocation; `distribution` does the rest in the same transaction."""
    permissions.require_manager(actor, principal.domain)
    row = versions.locked(principal, expected_version)
    if row.state == Principal.State.REVOKED:
        raise Conflict("this principal is revoked already", expected=None, current=row.version)
    before = mapping.principal(row)
    row.state, row.revoked_at = Principal.State.REVOKED, timezone.now()
    versions.save(row)
    after = mapping.principal(row)
    record_row(
        actor, row.domain, "principal.revoked", row, before=before, after=after, revokes=True
    )
    return row


def _set_homes(principal: Principal, agents: Iterable[Agent]) -> None:
    wanted = list(agents)
    overlays = [agent.overlay_id for agent in wanted]
    if len(set(overlays)) != len(overlays):
        raise Invalid.at("/agents", "a principal has one home agent on an overlay, not two")
    banned = sorted(agent.name for agent in wanted if agent.state == Agent.State.BANNED)
    if banned:
        raise Invalid.at("/agents", f"banned agents cannot be a home: {', '.join(banned)}")
    held = {home.overlay_id: home for home in principal.homes.all()}
    for agent in wanted:
        home = held.pop(agent.overlay_id, None)
        if home is None:
            HomeAgent.objects.create(principal=principal, overlay=agent.overlay, agent=agent)
        elif home.agent_id != agent.pk:
            home.agent = agent
            versions.save(home)
    HomeAgent.objects.filter(pk__in=[home.pk for home in held.values()]).delete()
    principal.__dict__.get("_prefetched_objects_cache", {}).pop("homes", None)
