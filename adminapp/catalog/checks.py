"""Whether a domain's model fits together; run inside the transaction of every change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from adminapp.catalog import mapping, protections, selectors
from adminapp.catalog.models import Attribute, EventType
from adminapp.core import journal
from adminapp.core.errors import Problem
from adminapp.identity.lineage import descendants
from adminapp.identity.models import Domain, Principal
from policyengine.attributes import AttributeType, Value, unknown
from policyengine.errors import InputError
from policyengine.privacy import Protection

NUMERIC = frozenset({"int", "float"})
_DECLARED = "declarations of subjects"


def subject_values(domain: Domain, values: Mapping[str, Any]) -> Iterator[Problem]:
    """What a principal may not say of itself."""
    yield from _wrong_values(values, selectors.subject_types(domain))


def subject_reader(domain: Domain) -> Callable[[str, str], Value]:
    """Reads what a file says of a subject: text in, a value of the declared type out."""
    declared = selectors.subject_types(domain)

    def read(name: str, text: str) -> Value:
        if name not in declared:
            raise unknown("subject attribute", name, declared)
        return declared[name].check(_typed(declared[name].kind, text), name)

    return read


def _typed(kind: str, text: str) -> Any:
    """Text as a value of the kind; what cannot be stays text, and is refused as such."""
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind in NUMERIC:
        try:
            return int(text) if kind == "int" else float(text)
        except ValueError:
            return text
    return text


def declarations_change(domain: Domain) -> None:
    """Have `principals` look once the change that is running is checked."""
    book = journal.current()
    assert book is not None
    marked = book.extra.setdefault(_DECLARED, set())
    marked.update(each.pk for each in (domain, *descendants(domain)))


def principals(domain: Domain) -> Iterator[Problem]:
    """Principals whose values a changed declaration no longer allows.

    It reads every principal, so it does so only where what they may say of themselves changes: by
    a declaration, or because the domain stands elsewhere.
    """
    book = journal.current()
    if book is None or domain.pk not in book.extra.get(_DECLARED, ()):
        return
    declared = selectors.subject_types(domain)
    rows = domain.principals.filter(state=Principal.State.ACTIVE)
    for name, values in rows.values_list("name", "attributes").iterator(chunk_size=5000):
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
        yield Problem.from_input_error(error, _place(error.where, rows))
        return
    yield from _ambiguous(rows)
    yield from gate_problems(rows)


def gate_problems(rows: list[EventType], *, now: datetime | None = None) -> Iterator[Problem]:
    """What the privacy gate has against how attributes are protected."""
    held, accepted = protections.in_force(rows), protections.acceptances(rows)
    moment = now or timezone.now()
    for row in rows:
        for attribute in row.attributes.all():
            chosen = held[row.name][attribute.name]
            yield from _changed_below(row, attribute, chosen)
            for reason in protections.judge(attribute, chosen, accepted, moment).reasons:
                yield Problem(
                    f"/attributes/{attribute.name}",
                    f"`{attribute.name}` of `{row.name}`: {reason}",
                    "invalid",
                )


def _changed_below(
    row: EventType, attribute: Attribute, held: protections.InForce
) -> Iterator[Problem]:
    """A sub-type takes keys away and changes nothing else."""
    if held.declared_by == row.name or not attribute.protection:
        return
    if Protection(attribute.protection, attribute.sealed) != held.protection:
        yield Problem(
            f"/attributes/{attribute.name}/protection",
            f"`{attribute.name}` of `{row.name}` is inherited; its protection is chosen in "
            f"`{held.declared_by}`",
        )


def _ambiguous(rows: list[EventType]) -> Iterator[Problem]:
    """Two types of one tree that declare a name differently: a policy above could not say which."""
    roots: dict[str, str] = {}
    seen: dict[tuple[str, str], tuple[Any, str]] = {}
    for row in mapping.parents_first(rows):
        above = mapping.parent_name(row)
        roots[row.name] = roots[above] if above else row.name
        for attribute in row.attributes.all():
            place = (roots[row.name], attribute.name)
            first = seen.setdefault(place, (attribute.type, row.name))
            if first[0] != attribute.type:
                yield Problem(
                    f"/attributes/{attribute.name}",
                    f"`{attribute.name}` has one type in `{first[1]}` and another in `{row.name}`"
                    f" of the same tree",
                )


def _place(where: str | None, rows: list[EventType]) -> str:
    """The field that an engine's `Type` or `Type.attribute` is about."""
    named, _, attribute = (where or "").partition(".")
    if attribute:
        return f"/attributes/{attribute}"
    return "/parent" if named in {row.name for row in rows} else ""
