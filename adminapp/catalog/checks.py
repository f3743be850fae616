"""Whether a domain's model fits together; run inside the transaction of every change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adminapp.catalog import mapping, selectors
from adminapp.catalog.models import Attribute, EventType, SubjectAttribute
from adminapp.core.errors import Problem
from adminapp.identity.models import Domain, Principal
from policyengine.attributes import AttributeType, unknown
from policyengine.errors import GateError, InputError
from policyengine.privacy import gate


def subject_values(domain: Domain, values: Mapping[str, Any]) -> Iterator[Problem]:
    """What a principal may not say of itself."""
    declared = {
        row.name: AttributeType.from_json(row.type)
        for row in SubjectAttribute.objects.filter(domain=domain)
    }
    yield from _wrong_values(values, declared)


def principals(domain: Domain) -> Iterator[Problem]:
    """Principals whose values a changed declaration no longer allows."""
    declared = {
        row.name: AttributeType.from_json(row.type)
        for row in SubjectAttribute.objects.filter(domain=domain)
    }
    rows = domain.principals.filter(state=Principal.State.ACTIVE)
    for name, values in rows.values_list("name", "attributes"):
        for problem in _wrong_values(values, declared):
            yield Problem("", f"principal `{name}`: {problem.message}", problem.kind)


def _wrong_values(
    values: Mapping[str, Any], declared: Mapping[str, AttributeType]
) -> Iterator[Problem]:
    for name, value in values.items():
        try:
            if name not in declared:
                raise unknown("subject attribute", name, declared)
            declared[name].check(value, name)
        except InputError as error:
            yield Problem.from_input_error(error, f"/attributes/{name}")


def event_types(domain: Domain) -> Iterator[Problem]:
    """Trees that the engine refuses, one name with two types, classes without protection."""
    rows = selectors.domain_types(domain)
    try:
        mapping.event_types(rows)
    except InputError as error:
        yield Problem.from_input_error(error, "")
        return
    yield from _ambiguous(rows)
    for row in rows:
        for attribute in row.attributes.all():
            yield from gate_problems(attribute)


def gate_problems(attribute: Attribute) -> Iterator[Problem]:
    """What the privacy gate has against how an attribute is protected."""
    try:
        gate(attribute.pia_class, has_keys=bool(attribute.keys.all()), overlays=())
    except GateError as error:
        for reason in error.reasons:
            yield Problem(
                f"/attributes/{attribute.name}", f"`{attribute.name}`: {reason}", "invalid"
            )


def _ambiguous(rows: list[EventType]) -> Iterator[Problem]:
    """Two types of one tree that declare a name differently: a policy above could not say which."""
    by_id = {row.pk: row for row in rows}
    seen: dict[tuple[int, str], tuple[Any, str]] = {}
    for row in rows:
        root = row
        while root.parent_id:
            root = by_id[root.parent_id]
        for attribute in row.attributes.all():
            first = seen.setdefault((root.pk, attribute.name), (attribute.type, row.name))
            if first[0] != attribute.type:
                yield Problem(
                    f"/attributes/{attribute.name}",
                    f"`{attribute.name}` has one type in `{first[1]}` and another in `{row.name}`"
                    f" of the same tree",
                )
