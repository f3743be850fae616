"""What event types come to: protections in force, what to know, and a change that is not made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.catalog import event_types, mapping, protections, selectors
from adminapp.catalog.models import EventType, RiskAcceptance
from adminapp.catalog.selectors import ResolvedAttribute
from adminapp.core.errors import Invalid, Problem
from adminapp.identity.models import Domain, User
from policyengine.privacy import Protection

SOON: Final = timedelta(days=30)


@dataclass(frozen=True)
class AttributeView:
    """An attribute as an event type has it.

    Args:
        name: its name.
        type: what values it takes.
        declared_by: the type that it is declared in.
        inherited: whether that is another type.
        keys: names of the keys that are left.
        pia_class: its class.
        protection: what is in force.
        by: "attribute", "profile" or "keys": what decided the protection.
        carried: whether agents carry it now; what they do not carry is in no event.
        reasons: why the gate refuses it.
        notes: what to know all the same.
    """

    name: str
    type: Mapping[str, Any]
    declared_by: str
    inherited: bool
    keys: tuple[str, ...]
    pia_class: str
    protection: Protection
    by: str
    carried: bool
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Preview:
    """What a change would come to.

    Args:
        problems: why it cannot be made; empty when it can.
        attributes: own and inherited ones, when it can.
    """

    problems: tuple[Problem, ...] = ()
    attributes: tuple[AttributeView, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Something that a manager should know of.

    Args:
        kind: `refused`, `note`, `expired`, `expires` or `unused`.
        event_type: the type.
        attribute: the attribute.
        message: for a person.
    """

    kind: str
    event_type: str
    attribute: str
    message: str


class _Undo(Exception):
    """Takes back what a preview did, and carries what it saw."""

    def __init__(self, seen: Preview) -> None:
        super().__init__("undone")
        self.seen = seen


def check(*, actor: User | None, domain: Domain, document: Mapping[str, Any]) -> Preview:
    """Make a type, or change the one of that name, look at it, and take it back.

    Args:
        document: the fields of a type; `parent` is a row or None.
    """
    try:
        with audit.changing():
            _look(_write(actor, domain, dict(document)))
    except _Undo as undone:
        return undone.seen
    except Invalid as error:
        return Preview(problems=error.problems)
    raise AssertionError("a preview is always taken back")


def _look(row: EventType) -> None:
    raise _Undo(Preview(attributes=tuple(attributes(row))))


def _write(actor: User | None, domain: Domain, document: dict[str, Any]) -> EventType:
    row = EventType.objects.filter(domain=domain, name=document["name"]).first()
    if row is None:
        return event_types.create_event_type(actor=actor, domain=domain, **document)
    declared = document.pop("attributes", None)
    return event_types.update_event_type(
        actor=actor, event_type=row, data=document, attributes=declared
    )


def attributes(row: EventType, *, at: datetime | None = None) -> list[AttributeView]:
    """Every attribute of a type, with the protection in force."""
    rows = selectors.domain_types(row.domain)
    held, accepted = protections.in_force(rows), protections.acceptances(rows)
    now = at or timezone.now()
    return [
        _view(each, held[row.name][each.attribute.name], accepted, now)
        for each in selectors.resolved_attributes(row, types=rows)
        if row.name in held
    ]


def _view(
    found: ResolvedAttribute, held: protections.InForce, accepted: Mapping[str, Any], now: datetime
) -> AttributeView:
    row = found.attribute
    verdict = protections.judge(row, held, accepted, now)
    return AttributeView(
        name=row.name,
        type=row.type,
        declared_by=found.declared_by,
        inherited=found.inherited,
        keys=mapping.attribute_spec(row).keys,
        pia_class=row.pia_class,
        protection=held.protection,
        by=held.by,
        carried=not verdict.reasons,
        reasons=verdict.reasons,
        notes=verdict.notes,
    )


def findings(domain: Domain, *, at: datetime | None = None) -> list[Finding]:
    """What a manager should know of the types in force in a domain."""
    rows = selectors.domain_types(domain)
    held, accepted = protections.in_force(rows), protections.acceptances(rows)
    now = at or timezone.now()
    found: list[Finding] = []
    for row in rows:
        for each in row.attributes.all():
            chosen = held[row.name][each.name]
            if chosen.declared_by == row.name:
                verdict = protections.judge(each, chosen, accepted, now)
                found += [Finding("refused", row.name, each.name, r) for r in verdict.reasons]
                found += [Finding("note", row.name, each.name, note) for note in verdict.notes]
    return [*found, *_acceptances(rows, held, now)]


def _acceptances(
    rows: list[EventType], held: Mapping[str, Mapping[str, protections.InForce]], now: datetime
) -> list[Finding]:
    found = []
    for row in RiskAcceptance.objects.filter(event_type__in=rows).select_related("event_type"):
        name = row.event_type.name
        chosen = held[name].get(row.attribute)
        ends = row.until.date().isoformat()
        if row.until <= now:
            said = f"the acceptance of `{row.accepted_by}` ended on {ends}"
            found.append(Finding("expired", name, row.attribute, said))
        elif chosen is None or chosen.protection.kind != row.protection:
            said = f"a risk is accepted that is not taken: it is not {row.protection}"
            found.append(Finding("unused", name, row.attribute, said))
        elif row.until <= now + SOON:
            said = f"the acceptance of `{row.accepted_by}` ends on {ends}"
            found.append(Finding("expires", name, row.attribute, said))
    return found
