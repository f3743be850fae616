"""Changes of event types, attributes, attribute keys and what subjects may say of themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import ProtectedError

from adminapp.audit import services as audit
from adminapp.catalog import mapping, selectors
from adminapp.catalog.models import Attribute, AttributeKey, EventType, SubjectAttribute
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid, Problem
from adminapp.identity import permissions, ports
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_row

EVENT_TYPE_FIELDS = frozenset({"name", "parent", "title", "description"})
ATTRIBUTE_FIELDS = frozenset({"name", "type", "keys", "pia_class", "pia_reason"})
RESERVED = frozenset({"role"})


# -- attribute keys --------------------------------------------------------------------------


@audit.change
def create_attribute_key(
    *, actor: User | None, domain: Domain, name: str, title: str = ""
) -> AttributeKey:
    permissions.require_manager(actor, domain)
    row = versions.create(AttributeKey(domain=domain, name=name, title=title))
    record_row(actor, domain, "attribute-key.created", row, after=mapping.attribute_key(row))
    return row


@audit.change
def update_attribute_key(
    *,
    actor: User | None,
    attribute_key: AttributeKey,
    data: Mapping[str, Any],
    expected_version: int | None = None,
) -> AttributeKey:
    """Change the title; the name stands in epochs and messages and stays."""
    permissions.require_manager(actor, attribute_key.domain)
    row = versions.locked(attribute_key, expected_version)
    before = mapping.attribute_key(row)
    versions.assign(row, data, frozenset({"title"}))
    versions.save(row)
    after = mapping.attribute_key(row)
    record_row(
        actor,
        row.domain,
        "attribute-key.updated",
        row,
        before=before,
        after=after,
        affects_agents=False,
    )
    return row


@audit.change
def delete_attribute_key(
    *, actor: User | None, attribute_key: AttributeKey, expected_version: int | None = None
) -> None:
    permissions.require_manager(actor, attribute_key.domain)
    row = versions.locked(attribute_key, expected_version)
    users = sorted(str(attribute) for attribute in row.attributes.all())
    if users:
        raise InUse(f"this key protects {', '.join(users)}")
    _delete(actor, row, "attribute-key.deleted", mapping.attribute_key(row))


# -- subject attributes ----------------------------------------------------------------------


@audit.change
def create_subject_attribute(
    *,
    actor: User | None,
    domain: Domain,
    name: str,
    type: Mapping[str, Any],  # noqa: A002 - the field's own name
) -> SubjectAttribute:
    """Let policies speak of `subject.<name>`."""
    permissions.require_manager(actor, domain)
    if name in RESERVED:
        raise Invalid.at("/name", f"`subject.{name}` always exists and cannot be declared")
    declared = mapping.attribute_type(type, "/type")
    row = versions.create(SubjectAttribute(domain=domain, name=name, type=declared.to_json()))
    record_row(
        actor, domain, "subject-attribute.created", row, after=mapping.subject_attribute(row)
    )
    return row


@audit.change
def update_subject_attribute(
    *,
    actor: User | None,
    subject_attribute: SubjectAttribute,
    data: Mapping[str, Any],
    expected_version: int | None = None,
) -> SubjectAttribute:
    """Change the type; principals and policies must still fit it."""
    permissions.require_manager(actor, subject_attribute.domain)
    row = versions.locked(subject_attribute, expected_version)
    before = mapping.subject_attribute(row)
    versions.assign(row, data, frozenset({"type"}))
    row.type = mapping.attribute_type(row.type, "/type").to_json()
    versions.save(row)
    ports.verify_model(row.domain)
    after = mapping.subject_attribute(row)
    record_row(actor, row.domain, "subject-attribute.updated", row, before=before, after=after)
    return row


@audit.change
def delete_subject_attribute(
    *, actor: User | None, subject_attribute: SubjectAttribute, expected_version: int | None = None
) -> None:
    permissions.require_manager(actor, subject_attribute.domain)
    row = versions.locked(subject_attribute, expected_version)
    before = mapping.subject_attribute(row)
    _delete(actor, row, "subject-attribute.deleted", before)


# -- event types -----------------------------------------------------------------------------


@audit.change
def create_event_type(
    *,
    actor: User | None,
    domain: Domain,
    name: str,
    parent: EventType | None = None,
    title: str = "",
    description: str = "",
    attributes: Iterable[Mapping[str, Any]] = (),
) -> EventType:
    """A new type.

    Args:
        attributes: its own ones in order, each `{"name", "type", "keys", "pia_class",
            "pia_reason"}`; keys by name. An inherited one is repeated only to remove keys.
    """
    permissions.require_manager(actor, domain)
    _check_parent(domain, parent)
    row = versions.create(
        EventType(domain=domain, name=name, parent=parent, title=title, description=description)
    )
    _set_attributes(row, list(attributes))
    ports.verify_model(domain)
    record_row(actor, domain, "event-type.created", row, after=mapping.event_type(row))
    return row


@audit.change
def update_event_type(
    *,
    actor: User | None,
    event_type: EventType,
    data: Mapping[str, Any],
    attributes: Iterable[Mapping[str, Any]] | None = None,
    expected_version: int | None = None,
) -> EventType:
    """Change a type; `attributes`, when given, are all of its own ones from now on."""
    permissions.require_manager(actor, event_type.domain)
    row = versions.locked(event_type, expected_version)
    before = mapping.event_type(row)
    versions.assign(row, data, EVENT_TYPE_FIELDS)
    _check_parent(row.domain, row.parent)
    versions.save(row)
    if attributes is not None:
        _set_attributes(row, list(attributes))
    ports.verify_model(row.domain)
    record_row(
        actor, row.domain, "event-type.updated", row, before=before, after=mapping.event_type(row)
    )
    return row


@audit.change
def delete_event_type(
    *, actor: User | None, event_type: EventType, expected_version: int | None = None
) -> None:
    permissions.require_manager(actor, event_type.domain)
    row = versions.locked(event_type, expected_version)
    _delete(actor, row, "event-type.deleted", mapping.event_type(row))


def _check_parent(domain: Domain, parent: EventType | None) -> None:
    if parent is not None and parent.domain_id != domain.pk:
        raise Invalid.at("/parent", "the parent is no type of this domain", "unknown")


def _set_attributes(row: EventType, items: list[Mapping[str, Any]]) -> None:
    names = [item.get("name") for item in items]
    doubled = sorted({str(name) for name in names if names.count(name) > 1})
    if doubled:
        raise Invalid.at("/attributes", f"declared twice: {', '.join(doubled)}")
    keys = {key.name: key for key in AttributeKey.objects.filter(domain=row.domain)}
    above = selectors.inherited(row)
    held = {attribute.name: attribute for attribute in Attribute.objects.filter(event_type=row)}
    for index, item in enumerate(items):
        try:
            name = str(item.get("name", ""))
            attribute = held.pop(name, None) or _new_attribute(row, name, above.get(name))
            _set_attribute(attribute, index, item, keys)
        except Invalid as error:
            raise error.below(f"/attributes/{index}") from error
    Attribute.objects.filter(pk__in=[attribute.pk for attribute in held.values()]).delete()
    row.__dict__.get("_prefetched_objects_cache", {}).pop("attributes", None)


def _new_attribute(row: EventType, name: str, inherited: Attribute | None) -> Attribute:
    attribute = Attribute(event_type=row, name=name)
    if inherited is not None:  # a repetition removes keys; its class stays what it is above
        attribute.pia_class = inherited.pia_class
        attribute.pia_reason = inherited.pia_reason
    return attribute


def _set_attribute(
    attribute: Attribute, index: int, item: Mapping[str, Any], keys: Mapping[str, AttributeKey]
) -> None:
    unknown = sorted(set(item) - ATTRIBUTE_FIELDS)
    if unknown:
        raise Invalid(Problem(f"/{name}", f"`{name}` cannot be set", "unknown") for name in unknown)
    attribute.type = mapping.attribute_type(item.get("type"), "/type").to_json()
    attribute.order = index
    attribute.pia_class = item.get("pia_class", attribute.pia_class)
    attribute.pia_reason = item.get("pia_reason", attribute.pia_reason)
    if attribute.pk is None:
        versions.create(attribute)
    else:
        versions.save(attribute)
    if "keys" in item:
        attribute.keys.set(_keys(item["keys"], keys))


def _keys(names: Iterable[str], keys: Mapping[str, AttributeKey]) -> list[AttributeKey]:
    missing = [name for name in names if name not in keys]
    if missing:
        raise Invalid(
            Problem("/keys", f"`{name}` is no attribute key of this domain", "unknown")
            for name in missing
        )
    return [keys[name] for name in names]


# -- shared ----------------------------------------------------------------------------------


def _delete(actor: User | None, row: Any, action: str, before: Any) -> None:
    pk, domain = row.pk, row.domain
    try:
        row.delete()
    except ProtectedError as error:
        raise InUse("sub-types or policies still stand on it") from error
    try:
        ports.verify_model(domain)
    except Invalid as error:
        raise InUse(f"it is still needed: {error.message}") from error
    row.pk = pk
    record_row(actor, domain, action, row, before=before)
