"""Attribute keys, subject attributes and event types as kinds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from adminapp.catalog import acceptances, mapping, naming, protections, selectors, services
from adminapp.catalog.models import AttributeKey, EventType, RiskAcceptance, SubjectAttribute
from adminapp.core.errors import Invalid
from adminapp.core.moments import moment
from adminapp.identity import kinds
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.models import Domain, User

ATTRIBUTE_DEFAULTS = {
    "keys": [],
    "pia_class": "non-confidential",
    "pia_reason": "",
    "protection": None,
}


def register_all() -> None:
    """Make the kinds of this area known."""
    for kind in (ATTRIBUTE_KEY, SUBJECT_ATTRIBUTE, EVENT_TYPE, RISK_ACCEPTANCE):
        kinds.register(kind)


def _find(model: Any) -> Any:
    return lambda domain, key: model.objects.filter(domain=domain, name=key).first()


ATTRIBUTE_KEY = Kind(
    name="attribute-key",
    rank=10,
    documents=lambda domain: {
        row.name: mapping.attribute_key(row)
        for row in AttributeKey.objects.filter(domain=domain).order_by("name")
    },
    find=_find(AttributeKey),
    create=lambda actor, domain, _key, document: services.create_attribute_key(
        actor=actor, domain=domain, **document
    ),
    update=lambda actor, row, document: services.update_attribute_key(
        actor=actor, attribute_key=row, data={"title": document["title"]}
    ),
    delete=lambda actor, row: services.delete_attribute_key(actor=actor, attribute_key=row),
    document=mapping.attribute_key,
    defaults={"title": ""},
    inherits=True,
)


def _normal_subject_attribute(_domain: Domain | None, document: Document) -> Document:
    return {**document, "type": mapping.attribute_type(document["type"], "/type").to_json()}


SUBJECT_ATTRIBUTE = Kind(
    name="subject-attribute",
    rank=10,
    documents=lambda domain: {
        row.name: mapping.subject_attribute(row)
        for row in SubjectAttribute.objects.filter(domain=domain).order_by("name")
    },
    find=_find(SubjectAttribute),
    create=lambda actor, domain, _key, document: services.create_subject_attribute(
        actor=actor, domain=domain, **document
    ),
    update=lambda actor, row, document: services.update_subject_attribute(
        actor=actor, subject_attribute=row, data={"type": document["type"]}
    ),
    delete=lambda actor, row: services.delete_subject_attribute(actor=actor, subject_attribute=row),
    document=mapping.subject_attribute,
    required=("name", "type"),
    normal=_normal_subject_attribute,
    inherits=True,
)


# -- event types -----------------------------------------------------------------------------


def _event_types(domain: Domain) -> dict[str, Document]:
    rows = selectors.with_attributes(EventType.objects.filter(domain=domain).order_by("name"))
    return {row.name: mapping.event_type(row) for row in rows}


def _create_event_type(
    actor: User | None, domain: Domain, _key: str, document: Document
) -> EventType:
    values = {**document, "parent": _parent(domain, document["parent"])}
    return services.create_event_type(actor=actor, domain=domain, **values)


def _update_event_type(actor: User | None, row: EventType, document: Document) -> EventType:
    data = {name: value for name, value in document.items() if name not in ("name", "attributes")}
    return services.update_event_type(
        actor=actor,
        event_type=row,
        data={**data, "parent": _parent(row.domain, document["parent"])},
        attributes=document["attributes"],
    )


def _parent(domain: Domain, name: str | None) -> EventType | None:
    if name is None:
        return None
    found = selectors.find_type(domain, name)
    if found is None:
        raise Invalid.at("/parent", f"there is no event type `{name}`", "unknown")
    return found


def _normal_event_type(_domain: Domain | None, document: Document) -> Document:
    attributes = document["attributes"]
    if not isinstance(attributes, list) or not all(isinstance(item, dict) for item in attributes):
        raise Invalid.at("/attributes", "this is a list of objects", "type")
    return {
        **document,
        "attributes": [
            _normal_attribute(item, f"/attributes/{index}") for index, item in enumerate(attributes)
        ],
    }


def _normal_attribute(item: Document, pointer: str) -> Document:
    declared = mapping.attribute_type(item.get("type"), f"{pointer}/type").to_json()
    whole = {**ATTRIBUTE_DEFAULTS, **item, "type": declared}
    return {**whole, "keys": sorted(whole["keys"])}


def _first_ones(document: Mapping[str, Any]) -> list[str]:
    """The parent, and for `Departure@3` the versions before it."""
    base, number = naming.parts(str(document.get("name", "")))
    earlier = [f"{base}{naming.MARK}{each}" for each in range(2, number)]
    first = [base, *earlier] if number > 1 else []
    return [*first, *([document["parent"]] if document.get("parent") else [])]


EVENT_TYPE = Kind(
    name="event-type",
    rank=20,
    documents=_event_types,
    find=_find(EventType),
    create=_create_event_type,
    update=_update_event_type,
    delete=lambda actor, row: services.delete_event_type(actor=actor, event_type=row),
    document=mapping.event_type,
    defaults={
        "parent": None,
        "title": "",
        "description": "",
        "profile": "",
        "retired": False,
        "attributes": [],
    },
    after=_first_ones,
    normal=_normal_event_type,
    parts={"attributes": ATTRIBUTE_DEFAULTS},
    inherits=True,
)


# -- acceptances of risks --------------------------------------------------------------------


def _acceptances(domain: Domain) -> dict[str, Document]:
    rows = RiskAcceptance.objects.filter(event_type__domain=domain).select_related("event_type")
    return dict(sorted((str(row), mapping.risk_acceptance(row)) for row in rows))


def _find_acceptance(domain: Domain, key: str) -> RiskAcceptance | None:
    type_name, _, attribute = key.rpartition(".")
    return RiskAcceptance.objects.filter(
        event_type__domain=domain, event_type__name=type_name, attribute=attribute
    ).first()


def _create_acceptance(
    actor: User | None, domain: Domain, _key: str, document: Document
) -> RiskAcceptance:
    row = EventType.objects.filter(domain=domain, name=document["event_type"]).first()
    if row is None:
        name = document["event_type"]
        raise Invalid.at("/event_type", f"`{name}` is no event type of this domain", "unknown")
    values = {**document, "event_type": row, "until": _until(document["until"])}
    return services.accept_risk(actor=actor, **values)


def _update_acceptance(
    actor: User | None, row: RiskAcceptance, document: Document
) -> RiskAcceptance:
    data = {name: document[name] for name in acceptances.FIELDS}
    return services.update_acceptance(
        actor=actor, risk_acceptance=row, data={**data, "until": _until(document["until"])}
    )


def _until(text: Any) -> datetime:
    try:
        found = parse_datetime(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise Invalid.at("/until", "this is a moment such as `2027-03-01T00:00:00Z`", "type")
    return found


def _normal_acceptance(_domain: Domain | None, document: Document) -> Document:
    return {**document, "until": moment(_until(document["until"]))}


RISK_ACCEPTANCE = Kind(
    name="risk-acceptance",
    rank=25,
    documents=_acceptances,
    find=_find_acceptance,
    create=_create_acceptance,
    update=_update_acceptance,
    delete=lambda actor, row: services.withdraw_acceptance(actor=actor, risk_acceptance=row),
    document=mapping.risk_acceptance,
    required=("event_type", "attribute", "pia_class", "justification", "accepted_by", "until"),
    defaults={"protection": protections.ACCEPTABLE},
    key=lambda document: f"{document.get('event_type', '')}.{document.get('attribute', '')}",
    normal=_normal_acceptance,
    inherits=True,  # sub-domains have the attribute, and lose it with the acceptance
)
