"""Changes of event types, attributes, attribute keys and what subjects may say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import ProtectedError

from adminapp.audit import services as audit
from adminapp.catalog import checks, mapping
from adminapp.catalog.acceptances import accept_risk, update_acceptance, withdraw_acceptance
from adminapp.catalog.event_types import (
    create_event_type,
    delete_event_type,
    retire_event_type,
    update_event_type,
)
from adminapp.catalog.models import AttributeKey, SubjectAttribute
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid
from adminapp.identity import permissions, ports
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_row

__all__ = [
    "accept_risk",
    "create_attribute_key",
    "create_event_type",
    "create_subject_attribute",
    "delete_attribute_key",
    "delete_event_type",
    "delete_subject_attribute",
    "retire_event_type",
    "update_acceptance",
    "update_attribute_key",
    "update_event_type",
    "update_subject_attribute",
    "withdraw_acceptance",
]

# Who takes part by an agreement is known by roles and by whose principal it is.
RESERVED = frozenset({"role", "domain"})


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
        raise Invalid.at(
            "/name", f"`subject.{name}` has a meaning of its own and cannot be declared"
        )
    declared = mapping.attribute_type(type, "/type")
    row = versions.create(SubjectAttribute(domain=domain, name=name, type=declared.to_json()))
    checks.declarations_change(domain)
    ports.verify_model(domain)
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
    checks.declarations_change(row.domain)
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
    checks.declarations_change(row.domain)
    _delete(actor, row, "subject-attribute.deleted", before)


# -- shared ----------------------------------------------------------------------------------


def _delete(actor: User | None, row: Any, action: str, before: Any) -> None:
    pk, domain = row.pk, row.domain
    try:
        row.delete()
    except ProtectedError as error:
        raise InUse("something still stands on it") from error
    try:
        ports.verify_model(domain)
    except Invalid as error:
        raise InUse(f"it is still needed: {error.message}") from error
    row.pk = pk
    record_row(actor, domain, action, row, before=before)
