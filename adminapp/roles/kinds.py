"""Roles and appointments as kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.dateparse import parse_datetime

from adminapp.core import moments
from adminapp.core.errors import Invalid
from adminapp.identity import kinds
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.models import Domain, Principal, User
from adminapp.roles import mapping, reading, services
from adminapp.roles.models import Appointment, AppointmentRule, Role, RoleSettings

RULE_DEFAULTS = {
    "role": None,
    "prerequisites": [],
    "appointments": [],
    "constraints": [],
    "membership": [],
}

SETTINGS = "roles"  # the one key of the one object of its kind


def register_all() -> None:
    """Make the kinds of this area known."""
    kinds.register(ROLE)
    kinds.register(ROLE_SETTINGS)
    kinds.register(APPOINTMENT_RULE)
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


# -- who may appoint -------------------------------------------------------------------------


def _appointment_rules(domain: Domain) -> dict[str, Document]:
    rows = AppointmentRule.objects.filter(domain=domain).order_by("name")
    return {row.name: mapping.appointment_rule(row) for row in rows}


def _normal_appointment_rule(_domain: Domain | None, document: Document) -> Document:
    parameters = reading.read_parameters(document["parameters"])
    names = {each.name for each in parameters}
    return {
        **document,
        "parameters": [each.to_json() for each in parameters],
        "by": reading.read_appointers(document["by"], names),
    }


APPOINTMENT_RULE = Kind(
    name="appointment-rule",
    rank=30,
    documents=_appointment_rules,
    find=lambda domain, key: AppointmentRule.objects.filter(domain=domain, name=key).first(),
    create=lambda actor, domain, _key, document: services.create_appointment_rule(
        actor=actor, domain=domain, **document
    ),
    update=lambda actor, row, document: services.update_appointment_rule(
        actor=actor,
        appointment_rule=row,
        data={name: value for name, value in document.items() if name != "name"},
    ),
    delete=lambda actor, row: services.delete_appointment_rule(actor=actor, appointment_rule=row),
    document=mapping.appointment_rule,
    defaults={
        "title": "",
        "parameters": [],
        "by": [],
        "longest": None,
        "lapses_with_issuer": False,
    },
    normal=_normal_appointment_rule,
    inherits=True,
)


# -- how roles count -------------------------------------------------------------------------


def _settings(domain: Domain) -> dict[str, Document]:
    row = RoleSettings.objects.filter(domain=domain, by_session=True).first()
    return {} if row is None else {SETTINGS: mapping.settings(row)}


def _set_settings(actor: User | None, domain: Domain, document: Document) -> RoleSettings:
    return services.set_role_settings(actor=actor, domain=domain, by_session=document["by_session"])


ROLE_SETTINGS = Kind(
    name="role-settings",
    rank=5,
    documents=_settings,
    find=lambda domain, _key: RoleSettings.objects.filter(domain=domain, by_session=True).first(),
    create=lambda actor, domain, _key, document: _set_settings(actor, domain, document),
    update=lambda actor, row, document: _set_settings(actor, row.domain, document),
    delete=lambda actor, row: services.set_role_settings(
        actor=actor, domain=row.domain, by_session=False
    ),
    document=mapping.settings,
    required=(),
    defaults={"by_session": False},
    key=lambda _document: SETTINGS,
)


# -- appointments ----------------------------------------------------------------------------


def _appointments(domain: Domain) -> dict[str, Document]:
    rows = Appointment.objects.filter(
        principal__domain=domain, principal__state=Principal.State.ACTIVE, closed__isnull=True
    )
    held = rows.lasting().select_related("principal", "issued_by")
    held = held.order_by("principal__name", "atom", "number")
    documents = [mapping.appointment(row) for row in held]
    return {mapping.appointment_key(document): document for document in documents}


def _find_appointment(domain: Domain, key: str) -> Appointment | None:
    principal, _, text = key.partition("/")
    rows = Appointment.objects.filter(principal__domain=domain, principal__name=principal)
    atom, number = _numbered(text)
    named = rows.lasting().filter(atom=atom, number=number, closed__isnull=True)
    return named.select_related("principal__domain", "issued_by").first()


def _numbered(text: str) -> tuple[str, int]:
    """`badge(7)#2` in its two parts."""
    atom, mark, number = text.rpartition("#")
    if mark and number.isdecimal() and (atom.isidentifier() or atom.endswith(")")):
        return atom, int(number)
    return text, 1


def _normal_appointment(domain: Domain | None, document: Document) -> Document:
    """Values in their one form; where no start is named, that of the appointment that is there."""
    name = str(document["name"])
    found = {**document, "parameters": list(reading.read_terms(document["parameters"], name))}
    for field in ("starts", "ends"):
        found[field] = moments.moment(_moment(document, field))
    if found["starts"] is None and domain is not None:
        row = _find_appointment(domain, mapping.appointment_key(found))
        found["starts"] = None if row is None else moments.moment(row.starts)
    return found


def _appoint(actor: User | None, domain: Domain, _key: str, document: Document) -> Appointment:
    return services.appoint(
        actor=actor,
        principal=_principal(domain, document["principal"], "/principal"),
        name=document["name"],
        parameters=document["parameters"],
        number=document["number"],
        starts=_moment(document, "starts"),
        ends=_moment(document, "ends"),
        issued_by=_principal(domain, document["issued_by"], "/issued_by")
        if document["issued_by"] is not None
        else None,
        reason=document["reason"],
    )


def _principal(domain: Domain, name: str, pointer: str) -> Principal:
    rows = Principal.objects.filter(domain=domain, state=Principal.State.ACTIVE)
    found = rows.filter(name=name).select_related("domain").first()
    if found is None:
        raise Invalid.at(pointer, f"there is no active principal `{name}`", "unknown")
    return found


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
    defaults={
        "parameters": [],
        "number": 1,
        "starts": None,
        "ends": None,
        "issued_by": None,
        "reason": "",
    },
    key=mapping.appointment_key,
    normal=_normal_appointment,
    person=True,
)
