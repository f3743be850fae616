"""Changes of domains, overlays and agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid
from adminapp.identity import credentials, mapping, permissions, ports
from adminapp.identity.lineage import MAX_DEPTH, lineage
from adminapp.identity.models import (
    Agent,
    Domain,
    Overlay,
    User,
)
from adminapp.identity.recording import delete_row, record_row

QUOTAS = frozenset({"max_objects", "max_principals", "requests_per_minute"})
OPERATORS_FIELDS = frozenset({"parent"}) | QUOTAS
DOMAIN_FIELDS = OPERATORS_FIELDS | {
    "title",
    "description",
    "lease_seconds",
    "decision_days",
    "encoding",
    "approval",
}
_UNHEARD = QUOTAS | {"approval"}


@audit.change
def create_domain(
    *,
    actor: User | None,
    name: str,
    title: str,
    description: str = "",
    parent: Domain | None = None,
    lease_seconds: int = 30,
    decision_days: int = 0,
    encoding: str = Domain.Encoding.BLOOM,
    approval: str = Domain.Approval.NEVER,
    max_objects: int | None = None,
    max_principals: int | None = None,
    requests_per_minute: int | None = None,
) -> Domain:
    """A new domain, below `parent` if there is one; quotas that are None are the platform's."""
    permissions.require_operator(actor)
    domain = Domain(
        name=name,
        title=title,
        description=description,
        parent=parent,
        lease_seconds=lease_seconds,
        decision_days=decision_days,
        encoding=encoding,
        approval=approval,
        max_objects=max_objects,
        max_principals=max_principals,
        requests_per_minute=requests_per_minute,
    )
    _check_depth(parent, height=1)
    versions.create(domain)
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
    """Change title, description, lease, encoding or approval; operators also parent and quotas."""
    permissions.require_manager(actor, domain)
    if OPERATORS_FIELDS & set(data):
        permissions.require_operator(actor)
    row = versions.locked(domain, expected_version)
    before, parent_id = mapping.domain(row), row.parent_id
    versions.assign(row, data, DOMAIN_FIELDS)
    _check_ancestors(row)
    versions.save(row)
    moved = row.parent_id != parent_id
    if moved:
        ports.moved(row)
        ports.verify_model(row)
    record_row(
        actor,
        row,
        "domain.updated",
        row,
        before=before,
        after=mapping.domain(row),
        affects_agents=not data or not _UNHEARD.issuperset(data),
        below=moved,
    )
    return row


def _check_ancestors(domain: Domain) -> None:
    """Refuse circles; two changes at once cannot make one, since changes queue up."""
    seen, above = {domain.pk}, domain.parent
    while above is not None:
        if above.pk in seen:
            raise Invalid.at("/parent", "a domain cannot stand below itself")
        seen.add(above.pk)
        above = above.parent
    _check_depth(domain.parent, height=_height(domain))


def _height(domain: Domain) -> int:
    height, level = 0, [domain.pk]
    while level and height <= MAX_DEPTH:
        height += 1
        level = list(Domain.objects.filter(parent_id__in=level).values_list("pk", flat=True))
    return height


def _check_depth(parent: Domain | None, *, height: int) -> None:
    depth = 0 if parent is None else len(lineage(parent))
    if depth + height > MAX_DEPTH:
        raise Invalid.at("/parent", f"domains stand at most {MAX_DEPTH} deep")


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
    credentials.mirror(row)
    record_row(actor, None, "agent.updated", row, before=before, after=mapping.agent(row))
    return row


def set_agent_state(
    *, actor: User | None, agent: Agent, state: str, expected_version: int | None = None
) -> Agent:
    """Ban an agent, or let a banned one back."""
    return update_agent(
        actor=actor, agent=agent, data={"state": state}, expected_version=expected_version
    )
