"""Changes of principals: who they are, where they are at home, which keys they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import Conflict, InUse, Invalid
from adminapp.identity import credentials, mapping, permissions, ports
from adminapp.identity.homes import set_homes
from adminapp.identity.models import (
    Agent,
    Domain,
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
    fallbacks: Iterable[Agent] = (),
    broker: Agent | None = None,
    handle: str | None = None,
) -> Principal:
    """A new principal with the declared `attributes`.

    Args:
        agents: its home agents, one on each overlay.
        fallbacks: who serves it where a home agent is banned or does not answer, at most one on
            each overlay.
        broker: for the kind `agent` the platform's agent that it is; at home with itself.
    """
    permissions.require_manager(actor, domain)
    ports.verify_subject(domain, attributes or {})
    row = Principal(domain=domain, name=name, kind=kind, attributes=dict(attributes or {}))
    if handle is not None:
        row.handle = handle
    homes = list(agents)
    _check_broker(kind, broker)
    if broker is not None:
        if broker.state == Agent.State.BANNED:
            raise Invalid.at("/broker", f"`{broker.name}` is banned")
        row.broker = broker
        row.sealing_key, row.verify_key = broker.sealing_key, broker.verify_key
        homes = homes or [broker]
    versions.create(row)
    set_homes(row, homes, fallbacks)
    record_row(actor, domain, "principal.created", row, after=mapping.principal(row))
    return row


@audit.change
def update_principal(
    *,
    actor: User | None,
    principal: Principal,
    data: Mapping[str, Any],
    agents: Iterable[Agent] | None = None,
    fallbacks: Iterable[Agent] | None = None,
    expected_version: int | None = None,
) -> Principal:
    """Change name, kind, attributes, or the home agents and fallbacks (all of them at once)."""
    permissions.require_manager(actor, principal.domain)
    row = versions.locked(principal, expected_version)
    if row.erased_at is not None:
        raise InUse("this principal was erased; nothing of it comes back")
    before = mapping.principal(row)
    versions.assign(row, data, PRINCIPAL_FIELDS)
    _check_broker(row.kind, row.broker)
    ports.verify_subject(row.domain, row.attributes)
    versions.save(row)
    if agents is not None or fallbacks is not None:
        set_homes(row, agents, fallbacks)
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
    if (row.sealing_key or row.verify_key) and row.state == Principal.State.ACTIVE:
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
    sealing_key: bytes | str | None = None,
    verify_key: bytes | str | None = None,
    certificate: str | None = None,
    expected_version: int | None = None,
) -> Principal:
    """Take a client's public keys (32 bytes each), or a certificate; they replace any it had.

    Args:
        sealing_key: X25519; may be left out beside a certificate.
        verify_key: Ed25519; may be left out beside a certificate, which has it.
        certificate: X.509 in PEM, valid now, over an Ed25519 key. Its keys serve until it expires.
    """
    permissions.require_manager(actor, principal.domain)
    row = versions.locked(principal, expected_version)
    if row.state == Principal.State.REVOKED:
        raise InUse("a revoked principal gets no credentials")
    if row.broker is not None:
        raise InUse("a broker agent has the keys that operators gave it, and no others")
    before = mapping.principal(row)
    credentials.assign(
        row,
        sealing_key=sealing_key,
        verify_key=verify_key,
        certificate=certificate,
        now=timezone.now(),
    )
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


@audit.change
def withdraw_attribute(
    *,
    actor: User | None,
    principal: Principal,
    name: str,
    expected_version: int | None = None,
) -> Principal:
    """Take one attribute away from a principal; waits for no approval.

    Whoever calls it makes sure that nobody gains anything by it: policies may ask for what
    somebody does not have.
    """
    permissions.require_manager(actor, principal.domain)
    row = versions.locked(principal, expected_version)
    if name not in row.attributes:
        raise Invalid.at("/attribute", f"`{row.name}` has no attribute `{name}`", "unknown")
    before = mapping.principal(row)
    row.attributes = {key: value for key, value in row.attributes.items() if key != name}
    ports.verify_subject(row.domain, row.attributes)
    versions.save(row)
    after = mapping.principal(row)
    record_row(
        actor, row.domain, "principal.updated", row, before=before, after=after, revokes=True
    )
    return row


@audit.change
def clear_credentials(
    *, actor: User | None, principal: Principal, expected_version: int | None = None
) -> Principal:
    """Trust a client's keys no longer: it gets nothing before it registers others."""
    permissions.require_manager(actor, principal.domain)
    row = versions.locked(principal, expected_version)
    if row.broker is not None:
        raise InUse("a broker agent has the keys that operators gave it; revoke the agent")
    if not (row.sealing_key or row.verify_key):
        raise InUse("this principal has no keys")
    before = mapping.principal(row)
    row.sealing_key = row.verify_key = ""
    credentials.clear_certificate(row)
    versions.save(row)
    after = mapping.principal(row)
    record_row(
        actor, row.domain, "principal.credentials", row, before=before, after=after, revokes=True
    )
    return row


def _check_broker(kind: str, broker: Agent | None) -> None:
    if kind == Principal.Kind.AGENT and broker is None:
        raise Invalid.at("/broker", "say which broker agent this principal is", "missing")
    if kind != Principal.Kind.AGENT and broker is not None:
        raise Invalid.at("/kind", f"`{broker.name}` is a broker agent, and so is the principal")
