"""Roles and appointments as kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.dateparse import parse_datetime

from adminapp.core.errors import Invalid
from adminapp.identity import kinds
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.models import Domain, Principal, User
from adminapp.roles import mapping, services
from adminapp.roles.models import Appointment, Role

RULE_DEFAULTS = {
    "role": None,
    "prerequisites": [],
    "appointments": [],
    "constraints": [],
    "membership": [],
}


def register_all() -> None:
    """Make the kinds of this area known."""
    kinds.register(ROLE)
    kinds.register(APPOINTMENT)


def _roles(domain: Domain) -> dict[str, Document]:
    rows = Role.objects.filter(domain=domain).prefetch_related("rules").order_by("name")
    return {row.name: mapping.role(row) for row in rows}


def _normal_role(_domain: Domain | None, document: Document) -> Document:
    if not isinstance(document["rules"], list):
        raise Invalid.at("/rules", "this is a list of objects", "type")
    return mapping.normal_role(document)


def _update_role(actor: User | None, row: Role, document: Document) -> Role:
    data = {name: document[name] for name in ("title", "parameters")}
    return services.update_role(actor=actor, role=row, data=data, rules=document["rules"])


ROLE = Kind(
    name="role",
    rank=30,
    documents=_roles,
    find=lambda domain, key: Role.objects.filter(domain=domain, name=key).first(),
    create=lambda actor, domain, _key, document: services.create_role(
        actor=actor, domain=domain, **document
    ),
    update=_update_role,
    delete=lambda actor, row: services.delete_role(actor=actor, role=row),
    document=mapping.role,
    defaults={"title": "", "parameters": [], "rules": []},
    normal=_normal_role,
    parts={"rules": RULE_DEFAULTS},
    inherits=True,
)


# -- appointments ----------------------------------------------------------------------------


def _appointments(domain: Domain) -> dict[str, Document]:
    rows = Appointment.objects.filter(
        principal__domain=domain, principal__state=Principal.State.ACTIVE
    )
    held = rows.lasting().select_related("principal").order_by("principal__name", "name", "id")
    documents = [mapping.appointment(row) for row in held]
    return {mapping.appointment_key(document): document for document in documents}


def _find_appointment(domain: Domain, key: str) -> Appointment | None:
    principal, _, text = key.partition("/")
    rows = Appointment.objects.filter(principal__domain=domain, principal__name=principal)
    named = rows.lasting().filter(name=text.partition("(")[0]).order_by("-id")
    return next((row for row in named if mapping.atom_text(row) == text), None)


def _appoint(actor: User | None, domain: Domain, _key: str, document: Document) -> Appointment:
    principal = Principal.objects.filter(
        domain=domain, name=document["principal"], state=Principal.State.ACTIVE
    ).first()
    if principal is None:
        name = document["principal"]
        raise Invalid.at("/principal", f"there is no active principal `{name}`", "unknown")
    return services.appoint(
        actor=actor,
        principal=principal,
        name=document["name"],
        parameters=document["parameters"],
        starts=_moment(document, "starts"),
        ends=_moment(document, "ends"),
    )


def _again(actor: User | None, row: Appointment, document: Document) -> Appointment:
    """An appointment is a record: a change of its time ends it and gives another."""
    services.end_appointment(actor=actor, appointment=row)
    return _appoint(actor, row.principal.domain, "", document)


def _moment(document: Mapping[str, Any], name: str) -> Any:
    text = document[name]
    if text is None:
        return None
    moment = parse_datetime(text) if isinstance(text, str) else None
    if moment is None or moment.tzinfo is None:
        raise Invalid.at(f"/{name}", "this is a moment such as 2026-03-01T08:00:00Z", "type")
    return moment


APPOINTMENT = Kind(
    name="appointment",
    rank=45,
    documents=_appointments,
    find=_find_appointment,
    create=_appoint,
    update=_again,
    delete=lambda actor, row: services.end_appointment(actor=actor, appointment=row),
    document=mapping.appointment,
    required=("principal", "name"),
    defaults={"parameters": [], "starts": None, "ends": None},
    key=mapping.appointment_key,
    person=True,
)
