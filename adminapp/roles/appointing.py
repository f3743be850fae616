"""Changes of appointments, and of who may appoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import journal, versions
from adminapp.core.errors import InUse, Invalid, Problem
from adminapp.identity import permissions, ports
from adminapp.identity.models import Domain, Principal, User
from adminapp.identity.services import record_row
from adminapp.roles import checks, mapping, reading, selectors
from adminapp.roles.models import MAX_ATOM, Appointment, AppointmentRule
from policyengine.errors import InputError
from policyengine.roles.crowds import Terms

RULE_FIELDS = frozenset({"title", "parameters", "by", "longest", "lapses_with_issuer"})
_WAITING = "appointments to verify"


# -- who may appoint -------------------------------------------------------------------------


@audit.change
def create_appointment_rule(
    *,
    actor: User | None,
    domain: Domain,
    name: str,
    title: str = "",
    parameters: Iterable[Any] = (),
    by: Iterable[str] = (),
    longest: int | None = None,
    lapses_with_issuer: bool = False,
) -> AppointmentRule:
    """Say who may appoint to `name`, beside managers.

    Args:
        parameters: names of what such an appointment says, in order, as those of a role.
        by: roles; a role's parameters name those of the appointment that must be the same.
        longest: how many seconds such an appointment may last.
        lapses_with_issuer: whether it ends when who issued it no longer has such a role.
    """
    permissions.require_change(actor, domain, "appointment-rule", name)
    row = AppointmentRule(
        domain=domain,
        name=name,
        title=title,
        parameters=list(parameters),
        by=list(by),
        longest=longest,
        lapses_with_issuer=lapses_with_issuer,
    )
    _read_rule(row)
    versions.create(row)
    _verify(row)
    record_row(actor, domain, "appointment-rule.created", row, after=mapping.appointment_rule(row))
    return row


@audit.change
def update_appointment_rule(
    *,
    actor: User | None,
    appointment_rule: AppointmentRule,
    data: Mapping[str, Any],
    expected_version: int | None = None,
) -> AppointmentRule:
    """Change who may appoint from now on; appointments that were given stay."""
    domain = appointment_rule.domain
    permissions.require_change(actor, domain, "appointment-rule", appointment_rule.name)
    row = versions.locked(appointment_rule, expected_version)
    before = mapping.appointment_rule(row)
    versions.assign(row, data, RULE_FIELDS)
    _read_rule(row)
    versions.save(row)
    _verify(row)
    after = mapping.appointment_rule(row)
    record_row(actor, domain, "appointment-rule.updated", row, before=before, after=after)
    return row


@audit.change
def delete_appointment_rule(
    *,
    actor: User | None,
    appointment_rule: AppointmentRule,
    expected_version: int | None = None,
) -> None:
    """From now on managers alone appoint to it, to whatever and for as long as they like."""
    domain = appointment_rule.domain
    permissions.require_change(actor, domain, "appointment-rule", appointment_rule.name)
    row = versions.locked(appointment_rule, expected_version)
    before, pk = mapping.appointment_rule(row), row.pk
    row.delete()
    row.pk = pk
    record_row(actor, domain, "appointment-rule.deleted", row, before=before)


def _read_rule(row: AppointmentRule) -> None:
    """Bring parameters and roles into their one form."""
    parameters = reading.read_parameters(row.parameters)
    row.parameters = [each.to_json() for each in parameters]
    row.by = reading.read_appointers(row.by, {each.name for each in parameters})


def _verify(row: AppointmentRule) -> None:
    try:
        ports.verify_model(row.domain)
    except Invalid as error:
        place = f"/appointment-rules/{row.name}"
        raise Invalid(checks.seen_from(place, each) for each in error.problems) from error


# -- appointments ----------------------------------------------------------------------------


@audit.change
def appoint(
    *,
    actor: User | None,
    principal: Principal,
    name: str,
    parameters: Iterable[Any] = (),
    starts: datetime | None = None,
    ends: datetime | None = None,
    issued_by: Principal | None = None,
    reason: str = "",
    number: int | None = None,
) -> Appointment:
    """Give a principal a standing, from now or `starts` on, for good or until `ends`.

    Args:
        parameters: values of what it is about: `["7", "West"]` of `badge(7, West)`.
        issued_by: the principal that gives it, when it is not a manager who does.
        number: tells it from others of the principal that say the same; the least free one by
            default.

    Raises:
        Forbidden: the actor may not appoint to this.
        Invalid: the appointment is none that the domain knows, or `issued_by` may not give it.
    """
    domain = principal.domain
    permissions.require_change(actor, domain, "appointment", name)
    if principal.state == Principal.State.REVOKED:
        raise Invalid.at("/principal", f"`{principal.name}` was revoked")
    begin = starts or timezone.now()
    if ends is not None and ends <= begin:
        raise Invalid.at("/ends", "the end must come after the beginning")
    terms = reading.read_terms(list(parameters), name)
    rule = selectors.appointment_rule(domain, name)
    if rule is not None:
        _check_known(rule, terms, begin, ends)
    row = Appointment(
        principal=principal,
        name=name,
        parameters=list(terms),
        starts=begin,
        ends=ends,
        issuer=actor,
        issued_by=issued_by,
        reason=reason.strip(),
    )
    _place(row, number)
    if issued_by is not None:
        _check_issuer(row)
    versions.create(row)
    after = mapping.appointment(row)
    record_row(
        actor, domain, "appointment.given", row, key=mapping.appointment_key(after), after=after
    )
    return row


@audit.change
def end_appointment(
    *,
    actor: User | None,
    appointment: Appointment,
    reason: str = "",
    expected_version: int | None = None,
) -> Appointment:
    """End an appointment now; the row stays as a record."""
    domain = appointment.principal.domain
    permissions.require_change(actor, domain, "appointment", appointment.name)
    row = versions.locked(appointment, expected_version)
    now = timezone.now()
    if row.closed is not None or (row.ends is not None and row.ends <= now):
        raise InUse("this appointment has ended already")
    before = mapping.appointment(row)
    row.ends = row.closed = now
    row.starts = min(row.starts, now)
    row.reason = reason.strip() or row.reason
    versions.save(row)
    _record(actor, row, "appointment.ended", before, mapping.appointment(row))
    return row


@audit.change
def lapse(*, actor: User | None, appointment: Appointment) -> bool:
    """Record that an appointment is over by itself; it holds no more since its end, recorded or
    not. Returns False when that is recorded already, or it is not over.
    """
    permissions.require_manager(actor, appointment.principal.domain)
    row = versions.locked(appointment, None)
    if row.closed is not None or row.ends is None or row.ends > timezone.now():
        return False
    before = mapping.appointment(row)
    row.closed = row.ends
    versions.save(row)
    _record(actor, row, "appointment.lapsed", before, None)
    return True


def _record(actor: User | None, row: Appointment, action: str, before: Any, after: Any) -> None:
    record_row(
        actor,
        row.principal.domain,
        action,
        row,
        key=mapping.appointment_key(before),
        before=before,
        after=after,
        revokes=True,
    )


def _check_known(
    rule: AppointmentRule, terms: Terms, begin: datetime, ends: datetime | None
) -> None:
    """Whether an appointment is what its rule speaks of."""
    declared = reading.read_parameters(rule.parameters)
    if len(terms) != len(declared):
        plural = "" if len(declared) == 1 else "s"
        message = f"`{rule.name}` has {len(declared)} parameter{plural}, and here {len(terms)}"
        raise Invalid.at("/parameters", message)
    for index, (parameter, term) in enumerate(zip(declared, terms, strict=True)):
        try:
            parameter.type.check(term, parameter.name)
        except InputError as error:
            raise Invalid([Problem.from_input_error(error, f"/parameters/{index}")]) from error
    longest = None if rule.longest is None else timedelta(seconds=rule.longest)
    if longest is not None and (ends is None or ends - begin > longest):
        raise Invalid.at("/ends", f"a `{rule.name}` lasts at most {longest}; give it an end")


def _place(row: Appointment, number: int | None) -> None:
    """Give an appointment its number among those that say the same."""
    atom = mapping.atom_text(row)
    if len(atom) > MAX_ATOM:
        raise Invalid.at("/parameters", f"the values have over {MAX_ATOM} characters together")
    same = Appointment.objects.filter(principal=row.principal, atom=atom, closed__isnull=True)
    for over in same.filter(ends__lte=timezone.now()):
        lapse(actor=None, appointment=over)
    taken = set(same.values_list("number", flat=True))
    if number is None:
        number = next(each for each in range(1, len(taken) + 2) if each not in taken)
    elif number in taken:
        message = f"`{row.principal.name}` has a `{atom}` number {number} already"
        raise Invalid.at("/number", message)
    row.number = number


def _check_issuer(row: Appointment) -> None:
    """Whether the principal that appoints may do so.

    Within a batch it waits for the end: what makes it an appointer may come with the same batch.
    """
    book = journal.current()
    if book is not None and book.batch:
        book.extra.setdefault(_WAITING, []).append(row)
        ports.verify_model(row.principal.domain)
        return
    problem = _issuer_problem(row)
    if problem is not None:
        raise Invalid([problem])


def issuers(domain: Domain) -> Iterator[Problem]:
    """At the end of a batch: appointments in it that were given by who may not."""
    book = journal.current()
    for row in book.extra.get(_WAITING, ()) if book is not None else ():
        problem = _issuer_problem(row) if row.principal.domain_id == domain.pk else None
        if problem is not None:
            key = mapping.appointment_key(mapping.appointment(row))
            yield Problem("", f"appointment `{key}`: {problem.message}", problem.kind)


def _issuer_problem(row: Appointment) -> Problem | None:
    issuer, problem = row.issued_by, None
    assert issuer is not None
    if issuer.pk == row.principal_id:
        problem = f"`{issuer.name}` cannot appoint itself"
    elif issuer.domain_id != row.principal.domain_id:
        problem = f"`{issuer.name}` belongs to another domain"
    elif issuer.state == Principal.State.REVOKED:
        problem = f"`{issuer.name}` was revoked"
    else:
        problem = selectors.appointing_problem(issuer, row)
    return None if problem is None else Problem("/issued_by", problem, "forbidden")
