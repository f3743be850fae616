"""Reads of the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch, QuerySet

from adminapp.catalog import mapping
from adminapp.catalog.models import Attribute, AttributeKey, EventType, SubjectAttribute
from adminapp.identity.models import Domain
from policyengine.attributes import AttributeType
from policyengine.events import EventTypes


@dataclass(frozen=True)
class ResolvedAttribute:
    """An attribute as an event type has it: its own, or from the nearest type above.

    Args:
        attribute: the declaration in force.
        declared_by: name of the type that it stands in.
        inherited: whether that is another type.
    """

    attribute: Attribute
    declared_by: str
    inherited: bool


@dataclass(frozen=True)
class TypeNode:
    """An event type in its tree.

    Args:
        type: the row.
        depth: 0 for a root.
        attributes: own and inherited ones.
    """

    type: EventType
    depth: int
    attributes: tuple[ResolvedAttribute, ...]


def attribute_keys(user: Any, domain: Domain | None = None) -> QuerySet[AttributeKey]:
    found = AttributeKey.objects.visible_to(user).select_related("domain")
    return found if domain is None else found.filter(domain=domain)


def subject_attributes(user: Any, domain: Domain | None = None) -> QuerySet[SubjectAttribute]:
    found = SubjectAttribute.objects.visible_to(user).select_related("domain")
    return found if domain is None else found.filter(domain=domain)


def event_types(user: Any, domain: Domain | None = None) -> QuerySet[EventType]:
    found = with_attributes(EventType.objects.visible_to(user))
    return found if domain is None else found.filter(domain=domain)


def attributes(user: Any) -> QuerySet[Attribute]:
    return (
        Attribute.objects.visible_to(user)
        .select_related("event_type__domain")
        .prefetch_related("keys")
    )


def with_attributes(types: QuerySet[EventType]) -> QuerySet[EventType]:
    own = Attribute.objects.order_by("order", "id").prefetch_related("keys")
    return types.select_related("domain", "parent").prefetch_related(
        Prefetch("attributes", queryset=own)
    )


def domain_types(domain: Domain) -> list[EventType]:
    """Every type of a domain with its attributes, in three queries."""
    return list(with_attributes(EventType.objects.filter(domain=domain)))


def engine_types(domain: Domain) -> EventTypes:
    """The engine's view of a domain's types."""
    return mapping.event_types(domain_types(domain))


def subject_schema(domain: Domain) -> dict[str, AttributeType]:
    """What `subject.<name>` may be, roles left out."""
    return {
        f"{mapping.SUBJECT}{row.name}": AttributeType.from_json(row.type)
        for row in SubjectAttribute.objects.filter(domain=domain)
    }


def event_schema(root: str, rows: Iterable[EventType]) -> dict[str, AttributeType]:
    """What `event.<name>` may be in a policy that hangs on `root`.

    Attributes of the type, of those above it, and of those below it: a policy holds for the whole
    sub-tree, and an attribute that an event lacks makes its tests false.
    """
    types = mapping.event_types(rows)
    names = (root, *(name for name in types.subtree(root) if name != root))
    schema: dict[str, AttributeType] = {}
    for name in names:
        for spec in types.attributes(name):
            schema.setdefault(f"{mapping.EVENT}{spec.name}", spec.type)
    return schema


def tree(domain: Domain) -> list[TypeNode]:
    """The domain's types, each below its parent, brothers by name."""
    rows = domain_types(domain)
    children: dict[int | None, list[EventType]] = {}
    for row in sorted(rows, key=lambda row: row.name):
        children.setdefault(row.parent_id, []).append(row)
    nodes: list[TypeNode] = []
    stack = [(row, 0, ()) for row in reversed(children.get(None, []))]
    while stack:
        row, depth, above = stack.pop()
        resolved = _resolve(row, above)
        nodes.append(TypeNode(row, depth, resolved))
        stack += [(child, depth + 1, resolved) for child in reversed(children.get(row.pk, []))]
    return nodes


def resolved_attributes(event_type: EventType) -> tuple[ResolvedAttribute, ...]:
    """Own and inherited attributes of one type."""
    chain = [event_type]
    while chain[-1].parent is not None:
        chain.append(chain[-1].parent)
    resolved: tuple[ResolvedAttribute, ...] = ()
    for row in reversed(chain):
        resolved = _resolve(row, resolved)
    return resolved


def _resolve(row: EventType, above: tuple[ResolvedAttribute, ...]) -> tuple[ResolvedAttribute, ...]:
    own = {attribute.name: attribute for attribute in row.attributes.all()}
    inherited = [
        ResolvedAttribute(each.attribute, each.declared_by, True)
        for each in above
        if each.attribute.name not in own
    ]
    return (
        *inherited,
        *(ResolvedAttribute(attribute, row.name, False) for attribute in own.values()),
    )


def inherited(event_type: EventType) -> dict[str, Attribute]:
    """What a type has from those above it, by name."""
    if event_type.parent is None:
        return {}
    return {each.attribute.name: each.attribute for each in resolved_attributes(event_type.parent)}


def repeated_below(attribute: Attribute) -> list[Attribute]:
    """The rows by which sub-types repeat an attribute, to remove keys from it."""
    domain = attribute.event_type.domain
    below = engine_types(domain).subtree(attribute.event_type.name)
    return list(
        Attribute.objects.filter(
            event_type__domain=domain, event_type__name__in=below, name=attribute.name
        ).exclude(pk=attribute.pk)
    )
