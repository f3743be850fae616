"""Policies as a kind."""

from __future__ import annotations

from typing import Any

from django.utils.dateparse import parse_datetime

from adminapp.core.errors import Invalid
from adminapp.identity import kinds
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.models import Domain, User
from adminapp.policies import mapping, services, variables
from adminapp.policies.models import EnvironmentVariable, Policy
from adminapp.policies.valuerules import canonical


def register_all() -> None:
    """Make the kinds of this area known."""
    kinds.register(VARIABLE)
    kinds.hand_down("environment")  # what a variable is set to
    kinds.register(POLICY)


def _documents(domain: Domain) -> dict[str, Document]:
    rows = Policy.objects.filter(domain=domain).select_related("event_type").order_by("name")
    return {row.name: mapping.snapshot(row) for row in rows}


def _create(actor: User | None, domain: Domain, _key: str, document: Document) -> Policy:
    return services.create_policy(actor=actor, domain=domain, **_values(document))


def _update(actor: User | None, row: Policy, document: Document) -> Policy:
    return services.update_policy(actor=actor, policy=row, data=_values(document))


def _values(document: Document) -> dict[str, Any]:
    moments = {name: _moment(document[name], name) for name in ("valid_from", "valid_until")}
    return {**document, **moments}


def _moment(text: Any, name: str) -> Any:
    if text is None:
        return None
    moment = parse_datetime(text) if isinstance(text, str) else None
    if moment is None or moment.tzinfo is None:
        raise Invalid.at(f"/{name}", "this is a moment such as 2026-03-01T08:00:00Z", "type")
    return moment


def _normal(_domain: Domain | None, document: Document) -> Document:
    return {**document, "rules": canonical(document["rules"], str(document["action"]))}


def _variables(domain: Domain) -> dict[str, Document]:
    rows = EnvironmentVariable.objects.filter(domain=domain).order_by("name")
    return {row.name: mapping.variable(row) for row in rows}


def _normal_variable(_domain: Domain | None, document: Document) -> Document:
    return {**document, "type": variables.declared(document["type"]).to_json()}


VARIABLE = Kind(
    name="environment-variable",
    rank=25,
    documents=_variables,
    find=lambda domain, key: EnvironmentVariable.objects.filter(domain=domain, name=key).first(),
    create=lambda actor, domain, _key, document: variables.declare_variable(
        actor=actor, domain=domain, **document
    ),
    update=lambda actor, row, document: variables.update_variable(
        actor=actor, variable=row, data=document
    ),
    delete=lambda actor, row: variables.delete_variable(actor=actor, variable=row),
    document=mapping.variable,
    required=("name", "type"),
    defaults={"title": ""},
    normal=_normal_variable,
    inherits=True,
)

POLICY = Kind(
    name="policy",
    rank=60,
    documents=_documents,
    find=lambda domain, key: Policy.objects.filter(domain=domain, name=key).first(),
    create=_create,
    update=_update,
    delete=lambda actor, row: services.delete_policy(actor=actor, policy=row),
    document=mapping.snapshot,
    required=("name", "action", "event_type", "expression"),
    defaults={
        "title": "",
        "attributes": None,
        "rules": [],
        "enabled": True,
        "valid_from": None,
        "valid_until": None,
        "limit_count": None,
        "limit_seconds": None,
    },
    normal=_normal,
    inherits=True,
)
