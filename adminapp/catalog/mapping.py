"""The catalog's rows as the engine's values, and as what the audit keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adminapp.catalog.models import Attribute, AttributeKey, EventType, SubjectAttribute
from adminapp.core.errors import Invalid, Problem
from policyengine.attributes import AttributeType
from policyengine.errors import InputError
from policyengine.events import AttributeSpec, EventTypes, TypeSpec

SUBJECT = "subject."
EVENT = "event."


def attribute_type(obj: Any, pointer: str) -> AttributeType:
    """Read a declared type.

    Raises:
        Invalid: it is none; the problem points at `pointer`.
    """
    try:
        return AttributeType.from_json(obj)
    except InputError as error:
        raise Invalid([Problem.from_input_error(error, pointer)]) from error


def attribute_spec(row: Attribute) -> AttributeSpec:
    return AttributeSpec(
        name=row.name,
        type=AttributeType.from_json(row.type),
        keys=tuple(sorted(key.name for key in row.keys.all())),
        pia=row.pia_class,
    )


def type_specs(rows: Iterable[EventType]) -> tuple[TypeSpec, ...]:
    """The event types of a domain for the engine, parents before their sub-types.

    Args:
        rows: every type of the domain, attributes and keys fetched with them.
    """
    by_id = {row.pk: row for row in rows}
    ordered = sorted(by_id.values(), key=lambda row: (_depth(row, by_id), row.name))
    return tuple(
        TypeSpec(
            name=row.name,
            parent=by_id[row.parent_id].name if row.parent_id else None,
            attributes=tuple(attribute_spec(attribute) for attribute in row.attributes.all()),
        )
        for row in ordered
    )


def event_types(rows: Iterable[EventType]) -> EventTypes:
    """The engine's view of a domain's types.

    Raises:
        InputError: they do not fit together.
    """
    return EventTypes(type_specs(rows))


def _depth(row: EventType, by_id: dict[int, EventType]) -> int:
    depth, seen = 0, {row.pk}
    while row.parent_id in by_id and row.parent_id not in seen:
        row = by_id[row.parent_id]
        seen.add(row.pk)
        depth += 1
    return depth


def attribute_key(row: AttributeKey) -> dict[str, Any]:
    return {"name": row.name, "title": row.title}


def subject_attribute(row: SubjectAttribute) -> dict[str, Any]:
    return {"name": row.name, "type": row.type}


def attribute(row: Attribute) -> dict[str, Any]:
    return {
        "name": row.name,
        "type": row.type,
        "keys": sorted(key.name for key in row.keys.all()),
        "pia_class": row.pia_class,
        "pia_reason": row.pia_reason,
    }


def event_type(row: EventType) -> dict[str, Any]:
    if "attributes" in getattr(row, "_prefetched_objects_cache", {}):
        rows = row.attributes.all()
    else:
        rows = Attribute.objects.filter(event_type=row).prefetch_related("keys")
    return {
        "name": row.name,
        "parent": row.parent.name if row.parent else None,
        "title": row.title,
        "description": row.description,
        "attributes": [attribute(each) for each in rows],
    }
