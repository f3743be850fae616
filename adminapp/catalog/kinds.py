"""Attribute keys, subject attributes and event types as kinds."""

from __future__ import annotations

from typing import Any

from adminapp.catalog import mapping, selectors, services
from adminapp.catalog.models import AttributeKey, EventType, SubjectAttribute
from adminapp.core.errors import Invalid
from adminapp.identity import kinds
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.lineage import lineage, nearest
from adminapp.identity.models import Domain, User

ATTRIBUTE_DEFAULTS = {"keys": [], "pia_class": "non-confidential", "pia_reason": ""}


def register_all() -> None:
    """Make the kinds of this area known."""
    for kind in (ATTRIBUTE_KEY, SUBJECT_ATTRIBUTE, EVENT_TYPE):
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
    above = lineage(domain)
    found = nearest(EventType.objects.filter(domain__in=above, name=name), above).get(name)
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


EVENT_TYPE = Kind(
    name="event-type",
    rank=20,
    documents=_event_types,
    find=_find(EventType),
    create=_create_event_type,
    update=_update_event_type,
    delete=lambda actor, row: services.delete_event_type(actor=actor, event_type=row),
    document=mapping.event_type,
    defaults={"parent": None, "title": "", "description": "", "attributes": []},
    after=lambda document: [document["parent"]] if document.get("parent") else [],
    normal=_normal_event_type,
    inherits=True,
)
