"""The catalog's rows as the engine's values, and as what the audit keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adminapp.catalog.models import (
    Attribute,
    AttributeKey,
    EventType,
    RiskAcceptance,
    SubjectAttribute,
)
from adminapp.core.errors import Invalid, Problem
from adminapp.core.moments import moment
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


def parents_first(rows: Iterable[EventType]) -> list[EventType]:
    """Types in an order in which each follows its parent; a circle ends somewhere."""
    by_name = {row.name: row for row in rows}
    return sorted(by_name.values(), key=lambda row: (_depth(row, by_name), row.name))


def type_specs(rows: Iterable[EventType]) -> tuple[TypeSpec, ...]:
    """The event types of a domain for the engine, parents before their sub-types.

    A parent is found by its name, so that a type inherited from another domain stands below the
    type that is in force here.

    Args:
        rows: every type of the domain, attributes and keys fetched with them.
    """
    return tuple(
        TypeSpec(
            name=row.name,
            parent=parent_name(row),
            attributes=tuple(attribute_spec(attribute) for attribute in row.attributes.all()),
        )
        for row in parents_first(rows)
    )


def event_types(rows: Iterable[EventType]) -> EventTypes:
    """The engine's view of a domain's types.

    Raises:
        InputError: they do not fit together.
    """
    return EventTypes(type_specs(rows))


def parent_name(row: EventType) -> str | None:
    return row.parent.name if row.parent_id else None


def _depth(row: EventType, by_name: dict[str, EventType]) -> int:
    depth, seen = 0, {row.name}
    above = parent_name(row)
    while above in by_name and above not in seen:
        seen.add(above)
        depth += 1
        above = parent_name(by_name[above])
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
        "protection": own_protection(row),
    }


def own_protection(row: Attribute) -> dict[str, Any] | None:
    """What the attribute itself says of its protection; None leaves it to profile and keys."""
    return {"kind": row.protection, "sealed": row.sealed} if row.protection else None


def event_type(row: EventType) -> dict[str, Any]:
    """The canonical document of a type; fetch `attributes__keys` for many."""
    if "attributes" in getattr(row, "_prefetched_objects_cache", {}):
        rows = row.attributes.all()
    else:
        rows = Attribute.objects.filter(event_type=row).prefetch_related("keys")
    return {
        "name": row.name,
        "parent": parent_name(row),
        "title": row.title,
        "description": row.description,
        "profile": row.profile,
        "retired": row.retired,
        "attributes": [attribute(each) for each in rows],
    }


def risk_acceptance(row: RiskAcceptance) -> dict[str, Any]:
    return {
        "event_type": row.event_type.name,
        "attribute": row.attribute,
        "pia_class": row.pia_class,
        "protection": row.protection,
        "justification": row.justification,
        "accepted_by": row.accepted_by,
        "until": moment(row.until),
    }
