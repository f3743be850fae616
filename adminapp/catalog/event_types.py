"""Changes of event types and of their versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import ProtectedError

from adminapp.audit import services as audit
from adminapp.catalog import acceptances, compatibility, declarations, mapping, naming
from adminapp.catalog.models import EventType, EventTypeVersion
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid
from adminapp.identity import permissions, ports
from adminapp.identity.lineage import lineage
from adminapp.identity.models import Domain, User
from adminapp.identity.recording import record_row

FIELDS = frozenset({"name", "parent", "title", "description", "profile", "retired"})
KIND = "event-type"


@audit.change
def create_event_type(
    *,
    actor: User | None,
    domain: Domain,
    name: str,
    parent: EventType | None = None,
    title: str = "",
    description: str = "",
    profile: str = "",
    retired: bool = False,
    attributes: Iterable[Mapping[str, Any]] = (),
    note: str = "",
) -> EventType:
    """A new type.

    Args:
        parent: a type of this domain or of one above it.
        profile: presets the protection of its attributes; "" leaves it to their keys.
        attributes: its own ones in order, see `declarations.FIELDS`; keys by name. An inherited
            one is repeated only to remove keys.
        note: why, kept with the first version.
    """
    _require(actor, domain, name, parent)
    _check_parent(domain, parent)
    naming.check(domain, name)
    compatibility.remember(domain)
    row = versions.create(
        EventType(
            domain=domain,
            name=name,
            parent=parent,
            title=title,
            description=description,
            profile=profile,
            retired=retired,
        )
    )
    declarations.replace(row, list(attributes))
    ports.verify_model(domain)
    after = keep(actor, row, note)
    record_row(actor, domain, "event-type.created", row, after=after)
    return row


@audit.change
def update_event_type(
    *,
    actor: User | None,
    event_type: EventType,
    data: Mapping[str, Any],
    attributes: Iterable[Mapping[str, Any]] | None = None,
    expected_version: int | None = None,
    note: str = "",
    as_new_version: bool = False,
) -> EventType:
    """Change a type; `attributes`, when given, are all of its own ones from now on.

    Args:
        note: why, kept with the version.
        as_new_version: leave the type as it is, and put the changed one beside it under a name of
            its own (`Departure@2`), so that whoever uses the old one goes on until it is retired.

    Returns:
        The changed type, or the new one beside it.

    Raises:
        Invalid: of kind `breaking` where something in force relies on what would change.
    """
    row = versions.locked(event_type, expected_version)
    _require(actor, row.domain, row.name, data.get("parent", row.parent))
    if as_new_version:
        return _beside(actor, row, data, attributes, note)
    compatibility.remember(row.domain)
    before = mapping.event_type(row)
    keep_first(row, before)
    versions.assign(row, data, FIELDS)
    _check_parent(row.domain, row.parent)
    if row.name != before["name"]:
        naming.check(row.domain, row.name)
    versions.save(row)
    if attributes is not None:
        declarations.replace(row, list(attributes))
    ports.verify_model(row.domain)
    after = keep(actor, row, note)
    acceptances.follow(actor, row, before)
    record_row(actor, row.domain, "event-type.updated", row, before=before, after=after)
    return row


def retire_event_type(
    *,
    actor: User | None,
    event_type: EventType,
    expected_version: int | None = None,
    note: str = "",
) -> EventType:
    """Take a type out of force. Its name stays taken, so that it never means something else.

    Raises:
        Invalid: a policy or a sub-type still stands on it.
    """
    return update_event_type(
        actor=actor,
        event_type=event_type,
        data={"retired": True},
        expected_version=expected_version,
        note=note or "retired",
    )


@audit.change
def delete_event_type(
    *, actor: User | None, event_type: EventType, expected_version: int | None = None
) -> None:
    """Remove a type that nothing stands on; what stands on an override goes back to the original.

    Raises:
        InUse: sub-types, policies or a later version stand on it.
    """
    row = versions.locked(event_type, expected_version)
    _require(actor, row.domain, row.name, None)
    later = naming.later(row)
    if later:
        raise InUse(f"`{later[-1]}` is a later version of it; delete that one first")
    compatibility.remember(row.domain)
    pk, domain, before = row.pk, row.domain, mapping.event_type(row)
    acceptances.withdraw_all(actor, row)
    _hand_over(row)
    try:
        row.delete()
    except ProtectedError as error:
        raise InUse("sub-types or policies still stand on it") from error
    try:
        ports.verify_model(domain)
    except Invalid as error:
        raise InUse(f"it is still needed: {error.message}") from error
    row.pk = pk
    record_row(actor, domain, "event-type.deleted", row, before=before)


# -- versions --------------------------------------------------------------------------------


def keep(actor: User | None, row: EventType, note: str = "") -> dict[str, Any]:
    """Keep what a type is now as a version; returns its document."""
    document = mapping.event_type(row)
    EventTypeVersion.objects.create(
        event_type=row, number=row.version, document=document, actor=actor, note=note
    )
    return document


def keep_first(row: EventType, document: Mapping[str, Any]) -> None:
    """Keep what a type was where no version of it was ever kept."""
    if not EventTypeVersion.objects.filter(event_type=row).exists():
        EventTypeVersion.objects.create(
            event_type=row,
            number=row.version,
            document=document,
            note="as it was before versions were kept",
        )


def _beside(
    actor: User | None,
    row: EventType,
    data: Mapping[str, Any],
    attributes: Iterable[Mapping[str, Any]] | None,
    note: str,
) -> EventType:
    if "name" in data and data["name"] != row.name:
        raise Invalid.at("/name", "a new version is named after the type that it follows")
    unknown = sorted(set(data) - FIELDS)
    if unknown:
        raise Invalid.at(f"/{unknown[0]}", f"`{unknown[0]}` cannot be set", "unknown")
    held = {item["name"]: item for item in mapping.event_type(row)["attributes"]}
    wanted = held.values() if attributes is None else attributes
    values = {name: getattr(row, name) for name in ("parent", "title", "description", "profile")}
    return create_event_type(
        actor=actor,
        domain=row.domain,
        **{**values, **data, "name": naming.following(row), "retired": False},
        attributes=[{**held.get(str(item.get("name")), {}), **item} for item in wanted],
        note=note or f"follows {row.name}",
    )


# -- shared ----------------------------------------------------------------------------------


def _require(actor: User | None, domain: Domain, name: str, parent: EventType | None) -> None:
    below = parent.name if parent is not None else ""
    permissions.require_change(actor, domain, KIND, name, below=below)


def _check_parent(domain: Domain, parent: EventType | None) -> None:
    if parent is not None and parent.domain_id not in {each.pk for each in lineage(domain)}:
        raise Invalid.at("/parent", "the parent is no type of this domain", "unknown")


def _hand_over(row: EventType) -> None:
    """What names an override goes on with the type of that name from above."""
    above = lineage(row.domain)[1:]
    found = next((each for each in map(_named(row.name), above) if each is not None), None)
    if found is None:
        return
    for relation in EventType._meta.related_objects:
        if relation.on_delete is not None and relation.on_delete.__name__ == "PROTECT":
            field = relation.field.name
            relation.related_model._base_manager.filter(**{field: row}).update(**{field: found})


def _named(name: str) -> Any:
    return lambda domain: EventType.objects.filter(domain=domain, name=name, retired=False).first()
