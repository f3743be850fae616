"""Changes of domains, overlays and agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid
from adminapp.identity import mapping, permissions
from adminapp.identity.models import (
    Agent,
    Domain,
    Overlay,
    User,
)
from adminapp.identity.recording import delete_row, record_row

DOMAIN_FIELDS = frozenset({"title", "description", "parent", "lease_seconds", "encoding"})


@audit.change
def create_domain(
    *,
    actor: User | None,
    name: str,
    title: str,
    description: str = "",
    parent: Domain | None = None,
    lease_seconds: int = 30,
    encoding: str = Domain.Encoding.BLOOM,
) -> Domain:
    permissions.require_operator(actor)
    domain = versions.create(
        Domain(
            name=name,
            title=title,
            description=description,
            parent=parent,
            lease_seconds=lease_seconds,
            encoding=encoding,
        )
    )
    record_row(actor, domain, "domain.created", domain, after=mapping.domain(domain))
    return domain


@audit.change
def update_domain(
    *,
    actor: User | None,
    domain: Domain,
    data: Mapping[str, Any],
    expected_version: int | None = None,
) -> Domain:
    """Change title, description, parent (operators), lease or encoding."""
    permissions.require_manager(actor, domain)
    if "parent" in data:
        permissions.require_operator(actor)
    row = versions.locked(domain, expected_version)
    before = mapping.domain(row)
    versions.assign(row, data, DOMAIN_FIELDS)
    _check_ancestors(row)
    versions.save(row)
    record_row(actor, row, "domain.updated", row, before=before, after=mapping.domain(row))
    return row


def _check_ancestors(domain: Domain) -> None:
    seen, above = {domain.pk}, domain.parent
    while above is not None:
        if above.pk in seen:
            raise Invalid.at("/parent", "a domain cannot stand below itself")
        seen.add(above.pk)
        above = above.parent


@audit.change
def delete_domain(
    *, actor: User | None, domain: Domain, expected_version: int | None = None
) -> None:
    """Only a domain without principals and sub-domains can go: nobody loses service unseen."""
    permissions.require_operator(actor)
    row = versions.locked(domain, expected_version)
    if row.principals.exists() or row.children.exists():
        raise InUse("a domain with principals or sub-domains cannot be deleted")
    before, pk = mapping.domain(row), row.pk
    delete_row(row, "this domain is still in use")
    row.pk = pk
    audit.write(
        actor=actor,
        action="domain.deleted",
        domain_name=row.name,
        object_type="domain",
        object_id=pk,
        object_name=row.name,
        before=before,
    )


@audit.change
def create_overlay(*, actor: User | None, name: str, title: str, operator: str = "") -> Overlay:
    permissions.require_operator(actor)
    overlay = versions.create(Overlay(name=name, title=title, operator=operator))
    after = mapping.overlay(overlay)
    record_row(actor, None, "overlay.created", overlay, after=after, affects_agents=False)
    return overlay


@audit.change
def update_overlay(
    *,
    actor: User | None,
    overlay: Overlay,
    data: Mapping[str, Any],
    expected_version: int | None = None,
) -> Overlay:
    permissions.require_operator(actor)
    row = versions.locked(overlay, expected_version)
    before = mapping.overlay(row)
    versions.assign(row, data, frozenset({"title", "operator"}))
    versions.save(row)
    record_row(
        actor,
        None,
        "overlay.updated",
        row,
        before=before,
        after=mapping.overlay(row),
        affects_agents=False,
    )
    return row


@audit.change
def delete_overlay(
    *, actor: User | None, overlay: Overlay, expected_version: int | None = None
) -> None:
    permissions.require_operator(actor)
    row = versions.locked(overlay, expected_version)
    before, pk = mapping.overlay(row), row.pk
    delete_row(row, "this overlay still has agents, homes or trust groups")
    row.pk = pk
    record_row(actor, None, "overlay.deleted", row, before=before, affects_agents=False)


@audit.change
def register_agent(
    *,
    actor: User | None,
    name: str,
    overlay: Overlay,
    sealing_key: bytes | str,
    verify_key: bytes | str,
) -> Agent:
    """Let an agent with these public keys take part on an overlay; every domain hears of it."""
    permissions.require_operator(actor)
    agent = versions.create(
        Agent(
            name=name,
            overlay=overlay,
            sealing_key=mapping.public_key(sealing_key, "sealing_key"),
            verify_key=mapping.public_key(verify_key, "verify_key"),
        )
    )
    record_row(actor, None, "agent.registered", agent, after=mapping.agent(agent))
    return agent


@audit.change
def update_agent(
    *,
    actor: User | None,
    agent: Agent,
    data: Mapping[str, Any],
    expected_version: int | None = None,
) -> Agent:
    """Give an agent new keys, ban it, or let it back.

    What was sealed to old keys stays closed to the new ones; a banned agent gets no bundles,
    leases or keys.
    """
    permissions.require_operator(actor)
    row = versions.locked(agent, expected_version)
    before = mapping.agent(row)
    versions.assign(row, data, frozenset({"sealing_key", "verify_key", "state"}))
    row.sealing_key = mapping.public_key(row.sealing_key, "sealing_key")
    row.verify_key = mapping.public_key(row.verify_key, "verify_key")
    versions.save(row)
    record_row(actor, None, "agent.updated", row, before=before, after=mapping.agent(row))
    return row


def set_agent_state(
    *, actor: User | None, agent: Agent, state: str, expected_version: int | None = None
) -> Agent:
    """Ban an agent, or let a banned one back."""
    return update_agent(
        actor=actor, agent=agent, data={"state": state}, expected_version=expected_version
    )
