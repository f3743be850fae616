"""Domains and principals as kinds: how files and change sets speak of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adminapp.core.errors import InUse, Invalid
from adminapp.identity import kinds, mapping, selectors, services
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.models import Agent, Domain, Principal, User

_REST_OF_DOMAIN = ("title", "description", "lease_seconds", "decision_days", "encoding", "approval")
_QUOTAS = ("max_objects", "max_principals", "requests_per_minute")


def register_all() -> None:
    """Make the kinds of this area known."""
    kinds.register(DOMAIN)
    kinds.register(PRINCIPAL)


# -- domains ---------------------------------------------------------------------------------


def _find_domain(_domain: Domain | None, key: str) -> Domain | None:
    return Domain.objects.filter(name=key).first()


def _create_domain(actor: User | None, _domain: None, _key: str, document: Document) -> Domain:
    return services.create_domain(actor=actor, **{**document, "parent": _parent(document)})


def _update_domain(actor: User | None, row: Domain, document: Document) -> Domain:
    data = {name: document[name] for name in _REST_OF_DOMAIN}
    # Only operators change these: a manager's file may repeat them as they are.
    data |= {name: document[name] for name in _QUOTAS if document[name] != getattr(row, name)}
    parent = _parent(document)
    if parent != row.parent:
        data["parent"] = parent
    return services.update_domain(actor=actor, domain=row, data=data)


def _delete_domain(actor: User | None, row: Domain) -> None:
    services.delete_domain(actor=actor, domain=row)


def _parent(document: Mapping[str, Any]) -> Domain | None:
    name = document["parent"]
    if name is None:
        return None
    found = Domain.objects.filter(name=name).first()
    if found is None:
        raise Invalid.at("/parent", f"there is no domain `{name}`", "unknown")
    return found


DOMAIN = Kind(
    name="domain",
    rank=0,
    documents=lambda domain: {domain.name: mapping.domain(domain)},
    find=_find_domain,
    create=_create_domain,
    update=_update_domain,
    delete=_delete_domain,
    document=mapping.domain,
    required=("name", "title"),
    defaults={
        "description": "",
        "parent": None,
        "lease_seconds": 30,
        "decision_days": 0,
        "encoding": "bloom",
        "approval": "never",
        "max_objects": None,
        "max_principals": None,
        "requests_per_minute": None,
    },
    after=lambda document: [document["parent"]] if document.get("parent") else [],
)


# -- principals ------------------------------------------------------------------------------


def _principals(domain: Domain) -> dict[str, Document]:
    rows = selectors.active_principals(domain).order_by("name")
    return {row.name: mapping.principal(row) for row in rows}


def _find_principal(domain: Domain, key: str) -> Principal | None:
    return selectors.with_homes(Principal.objects.filter(domain=domain, name=key)).first()


def _create_principal(
    actor: User | None, domain: Domain, key: str, document: Document
) -> Principal:
    row = services.create_principal(
        actor=actor,
        domain=domain,
        name=key,
        kind=document["kind"],
        attributes=document["attributes"],
        agents=_agents(document, "agents"),
        fallbacks=_agents(document, "fallbacks"),
        broker=_broker(document),
    )
    return _register(actor, row, document)


def _update_principal(actor: User | None, row: Principal, document: Document) -> Principal:
    if row.state == Principal.State.REVOKED:
        raise InUse(f"`{row.name}` was revoked; nobody who was revoked comes back")
    if _broker(document) != row.broker:
        raise Invalid.at("/broker", "which broker agent a principal is cannot be changed")
    row = services.update_principal(
        actor=actor,
        principal=row,
        data={"kind": document["kind"], "attributes": document["attributes"]},
        agents=_agents(document, "agents"),
        fallbacks=_agents(document, "fallbacks"),
    )
    return _register(actor, row, document)


def _register(actor: User | None, row: Principal, document: Document) -> Principal:
    keys = {name: document[name] for name in ("sealing_key", "verify_key", "certificate")}
    same = keys == {name: getattr(row, name) for name in keys}
    if row.broker is not None or same or not any(keys.values()):
        return row
    given = {name: value or None for name, value in keys.items()}
    return services.register_credentials(actor=actor, principal=row, **given)


def _delete_principal(actor: User | None, row: Principal) -> None:
    services.delete_principal(actor=actor, principal=row)


def _broker(document: Mapping[str, Any]) -> Agent | None:
    name = document["broker"]
    if name is None:
        return None
    found = Agent.objects.filter(name=name).first()
    if found is None:
        raise Invalid.at("/broker", f"there is no agent `{name}`", "unknown")
    return found


def _agents(document: Mapping[str, Any], field: str) -> list[Agent]:
    wanted = dict(document[field])
    found = {
        agent.name: agent
        for agent in Agent.objects.filter(name__in=wanted.values()).select_related("overlay")
    }
    for overlay, name in wanted.items():
        if name not in found or found[name].overlay.name != overlay:
            raise Invalid.at(
                f"/{field}/{overlay}",
                f"there is no agent `{name}` on overlay `{overlay}`",
                "unknown",
            )
    return [found[name] for name in wanted.values()]


PRINCIPAL = Kind(
    name="principal",
    rank=40,
    documents=_principals,
    find=_find_principal,
    create=_create_principal,
    update=_update_principal,
    delete=_delete_principal,
    document=mapping.principal,
    count=lambda domain: selectors.active_principals(domain).count(),
    required=("name", "kind"),
    defaults={
        "attributes": {},
        "agents": {},
        "fallbacks": {},
        "broker": None,
        "sealing_key": "",
        "verify_key": "",
        "certificate": "",
        "state": Principal.State.ACTIVE.value,
    },
    person=True,
    kept=("sealing_key", "verify_key"),
)
