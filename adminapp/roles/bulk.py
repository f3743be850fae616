"""Appointments of many new principals at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils import timezone

from adminapp.core import names
from adminapp.identity import permissions
from adminapp.identity.models import Domain, Principal
from adminapp.identity.ports import Appointments
from adminapp.identity.recording import BulkChange, record_many
from adminapp.roles import mapping, selectors
from adminapp.roles.models import Appointment

BATCH = 2000


def appointments(domain: Domain, actor: Any) -> Appointments:
    """How `actor` gives appointments without parameters to new principals of a domain."""
    answers: dict[str, str | None] = {}

    def problem(name: str) -> str | None:
        if name not in answers:
            answers[name] = _problem(domain, actor, name)
        return answers[name]

    def give(wanted: Iterable[tuple[Principal, tuple[str, ...]]]) -> None:
        now = timezone.now()
        rows = [
            Appointment(principal=principal, name=name, starts=now, issuer=actor)
            for principal, given in wanted
            for name in given
        ]
        Appointment.objects.bulk_create(rows, batch_size=BATCH)
        record_many(actor, domain, "appointment.given", map(_change, rows))

    return Appointments(problem, give)


def _problem(domain: Domain, actor: Any, name: str) -> str | None:
    if not names.identifier.regex.match(name):
        return f"`{name[:64]}` is no name of an appointment"
    if not permissions.may_change(actor, domain, "appointment", name):
        return f"you may not appoint `{name}`"
    rule = selectors.appointment_rule(domain, name)
    if rule is not None and (rule.parameters or rule.longest is not None):
        return f"a `{name}` needs parameters or an end; appoint to it one by one"
    return None


def _change(row: Appointment) -> BulkChange:
    after = mapping.appointment(row)
    return BulkChange(row, after, mapping.appointment_key(after))
