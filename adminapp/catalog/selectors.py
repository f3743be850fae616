"""Reads of the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Min, Prefetch, QuerySet
from django.utils import timezone

from adminapp.catalog import mapping, protections
from adminapp.catalog.models import (
    Attribute,
    AttributeKey,
    EventType,
    EventTypeVersion,
    RiskAcceptance,
    SubjectAttribute,
)
from adminapp.identity.lineage import Inherited, descendants, lineage
from adminapp.identity.lineage import inherited as nearest_first
from adminapp.identity.models import Domain
from policyengine.attributes import AttributeType
from policyengine.events import EventTypes, TypeSpec


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
        origin: whether the type is the domain's own, hides one from above, or comes from above.
    """

    type: EventType
    depth: int
    attributes: tuple[ResolvedAttribute, ...]
    origin: str = "local"


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


def risk_acceptances(user: Any, domain: Domain | None = None) -> QuerySet[RiskAcceptance]:
    found = RiskAcceptance.objects.visible_to(user).select_related("event_type__domain")
    return found if domain is None else found.filter(event_type__domain=domain)


def type_versions(user: Any, event_type: EventType) -> QuerySet[EventTypeVersion]:
    """What an event type was, newest first."""
    return (
        EventTypeVersion.objects.visible_to(user)
        .filter(event_type=event_type)
        .select_related("actor")
        .order_by("-number")
    )


# -- the effective model: own rows, and those from above whose name is not used here ----------


def effective_types(domain: Domain) -> list[Inherited]:
    """The types in force in a domain, own and inherited, by name."""
    line = lineage(domain)
    found = nearest_first(with_attributes(EventType.objects.filter(domain__in=line)), line)
    return [each for each in found.values() if not each.row.retired]


def effective_subject_attributes(domain: Domain) -> list[Inherited]:
    """What policies of a domain may say about subjects, by name."""
    line = lineage(domain)
    rows = SubjectAttribute.objects.filter(domain__in=line).select_related("domain")
    return list(nearest_first(rows, line).values())


def effective_attribute_keys(domain: Domain) -> list[Inherited]:
    """The names of keys that attributes of a domain may be protected under, by name."""
    line = lineage(domain)
    rows = AttributeKey.objects.filter(domain__in=line).select_related("domain")
    return list(nearest_first(rows, line).values())


def domain_types(domain: Domain) -> list[EventType]:
    """Every type in force in a domain with its attributes, in a constant number of queries."""
    return [each.row for each in effective_types(domain)]


def engine_types(domain: Domain) -> EventTypes:
    """The engine's view of a domain's types."""
    return mapping.event_types(domain_types(domain))


def wire_types(domain: Domain, *, at: datetime | None = None) -> tuple[TypeSpec, ...]:
    """The types as bundles have them: no attribute that is not protected as it must be."""
    return protections.wire_specs(domain_types(domain), at or timezone.now())


def subject_types(domain: Domain) -> dict[str, AttributeType]:
    """What subjects of a domain may say of themselves, by plain name."""
    return {
        each.row.name: AttributeType.from_json(each.row.type)
        for each in effective_subject_attributes(domain)
    }


def subject_schema(domain: Domain) -> dict[str, AttributeType]:
    """What `subject.<name>` may be, roles left out."""
    return {f"{mapping.SUBJECT}{name}": kind for name, kind in subject_types(domain).items()}


def find_type(domain: Domain, name: str) -> EventType | None:
    """The type that a name means in a domain: its own, or from the nearest domain above."""
    return _find(EventType.objects.filter(name=name), domain)


def _find(rows: QuerySet[Any], domain: Domain) -> Any:
    line = lineage(domain)
    by_domain = {row.domain_id: row for row in rows.filter(domain__in=line)}
    return next((by_domain[each.pk] for each in line if each.pk in by_domain), None)


def next_boundary(domain: Domain, *, after: datetime) -> datetime | None:
    """When the next acceptance of a risk ends, so that its attribute leaves the bundles."""
    found = RiskAcceptance.objects.filter(
        event_type__domain__in=lineage(domain), until__gt=after
    ).aggregate(moment=Min("until"))
    moment: datetime | None = found["moment"]
    return moment


# -- trees -----------------------------------------------------------------------------------


def tree(domain: Domain) -> list[TypeNode]:
    """The types in force in a domain, each below its parent, brothers by name."""
    found = effective_types(domain)
    origins = {each.row.name: each.origin for each in found}
    children: dict[str | None, list[EventType]] = {}
    for each in found:
        above = mapping.parent_name(each.row)
        children.setdefault(above if above in origins else None, []).append(each.row)
    nodes: list[TypeNode] = []
    stack: list[tuple[EventType, int, tuple[ResolvedAttribute, ...]]] = [
        (row, 0, ()) for row in reversed(children.get(None, []))
    ]
    while stack:
        row, depth, above_it = stack.pop()
        resolved = _resolve(row, above_it)
        nodes.append(TypeNode(row, depth, resolved, origins[row.name]))
        stack += [(child, depth + 1, resolved) for child in reversed(children.get(row.name, []))]
    return nodes


def paths(rows: Iterable[EventType]) -> dict[str, str]:
    """The address of each type in its tree (`Flight/Departure`), by name."""
    found: dict[str, str] = {}
    for row in mapping.parents_first(rows):
        above = found.get(mapping.parent_name(row) or "")
        found[row.name] = f"{above}/{row.name}" if above else row.name
    return found


def resolved_attributes(
    event_type: EventType, *, types: Iterable[EventType] | None = None
) -> tuple[ResolvedAttribute, ...]:
    """Own and inherited attributes of one type.

    Args:
        types: the model in force, when the caller has it; that of the type's domain by default.
    """
    known = domain_types(event_type.domain) if types is None else types
    by_name = {row.name: row for row in known}
    chain, seen = [event_type], {event_type.name}
    above = by_name.get(mapping.parent_name(event_type) or "")
    while above is not None and above.name not in seen:
        seen.add(above.name)
        chain.append(above)
        above = by_name.get(mapping.parent_name(above) or "")
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


def resolved_by_type(rows: Iterable[EventType]) -> dict[str, tuple[ResolvedAttribute, ...]]:
    """Own and inherited attributes of many types that fit together, by name of the type."""
    found: dict[str, tuple[ResolvedAttribute, ...]] = {}
    for row in mapping.parents_first(rows):
        found[row.name] = _resolve(row, found.get(mapping.parent_name(row) or "", ()))
    return found


def inherited(event_type: EventType) -> dict[str, Attribute]:
    """What a type has from those above it, by name."""
    if event_type.parent_id is None:
        return {}
    types = domain_types(event_type.domain)
    above = next((row for row in types if row.name == event_type.parent.name), None)
    if above is None:
        return {}
    resolved = resolved_attributes(above, types=types)
    return {each.attribute.name: each.attribute for each in resolved}


def repeated_below(attribute: Attribute) -> list[Attribute]:
    """The rows by which sub-types, here and in domains below, repeat an attribute."""
    domain = attribute.event_type.domain
    same = Attribute.objects.filter(
        event_type__domain__in=[domain, *descendants(domain)], name=attribute.name
    ).exclude(pk=attribute.pk)
    return [
        row
        for row in same.select_related("event_type__parent")
        if attribute.event_type.name in _names_above(row.event_type)
    ]


def _names_above(row: EventType) -> set[str]:
    seen: set[str] = set()
    above = row.parent
    while above is not None and above.name not in seen:
        seen.add(above.name)
        above = above.parent
    return seen
