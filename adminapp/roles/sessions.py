"""Live sessions: a principal's roles, activated together, and the cascade when something falls.

The engine's `Session` decides. A row keeps what it activated and on which grounds; whenever
something changes that a role may rest on, the session is taken up again from its row, and what
must end ends in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid, Problem
from adminapp.core.journal import Item, Journal
from adminapp.identity import permissions
from adminapp.identity.lineage import descendants
from adminapp.identity.models import Domain, Principal, User
from adminapp.identity.services import record_row
from adminapp.roles import mapping, selectors, standing
from adminapp.roles.appointing import end_appointment
from adminapp.roles.models import MAX_ATOM, RoleSession, SessionRole
from policyengine.errors import InputError
from policyengine.roles import (
    Fallen,
    Outcome,
    Session,
    activation_to_json,
)

MAX_ROLES = 1000


@audit.change
def open_session(
    *, actor: User | None, principal: Principal, roles: Iterable[str] | None = None
) -> RoleSession:
    """Activate roles of a principal, on its behalf.

    Args:
        roles: such as `officer(7)`, each after those that it needs; None for all that can be
            activated.

    Raises:
        Invalid: a role cannot be activated; the problem says what the nearest rule lacks.
    """
    permissions.require_manager(actor, principal.domain)
    if principal.state == Principal.State.REVOKED:
        raise Invalid.at("/principal", f"`{principal.name}` was revoked")
    now = timezone.now()
    held = standing.Surroundings.of(principal.domain, now)
    session = held.session(principal)
    if roles is None:
        for atom in held.order(standing.possible_atoms(principal, at=now)):
            session.activate(atom.text)
    else:
        _activate(session, roles)
    row = versions.create(RoleSession(principal=principal, opened=now, opened_by=actor))
    _add(row, session, held, now)
    _record(actor, row, "session.opened", None)
    return row


@audit.change
def change_session(
    *,
    actor: User | None,
    session: RoleSession,
    activate: Iterable[str] = (),
    deactivate: Iterable[str] = (),
    expected_version: int | None = None,
) -> RoleSession:
    """Deactivate roles of an open session, and those that rest on them, and activate others."""
    domain = session.principal.domain
    permissions.require_manager(actor, domain)
    row = _open(session, expected_version)
    before, now = mapping.session(row), timezone.now()
    held = standing.Surroundings.of(domain, now)
    live, fallen = held.resume(row)
    fallen += _deactivate(live, deactivate)
    _end(row, fallen, now)
    _activate(live, activate)
    _add(row, live, held, now)
    versions.save(row)
    _record(actor, row, "session.changed", before)
    return row


@audit.change
def close_session(
    *,
    actor: User | None,
    session: RoleSession,
    reason: str = "",
    expected_version: int | None = None,
) -> RoleSession:
    """End a session and every role in it; the row stays as a record."""
    permissions.require_manager(actor, session.principal.domain)
    row = _open(session, expected_version)
    _close(actor, row, reason.strip() or "it was closed", timezone.now())
    return row


def settle(book: Journal) -> None:
    """At the end of a change: end what rested on something that the change ended.

    Appointments that lapse with their issuer end first; what they end may end others, so this
    goes on until nothing more falls.
    """
    seen = 0
    while seen < len(book.items):
        items, seen = book.items[seen:], len(book.items)
        concerned = _concerned(items)
        if concerned.names or concerned.everybody:
            _lapse_with_issuers(concerned)
            _settle_sessions(concerned)


@dataclass
class _Concerned:
    """Whose roles a change may have ended: principals by domain, or everybody of a domain."""

    names: dict[str, set[str]] = field(default_factory=dict)
    everybody: set[str] = field(default_factory=set)


def _concerned(items: Iterable[Item]) -> _Concerned:
    found = _Concerned()
    for item in items:
        if item.kind == "appointment":
            found.names.setdefault(item.domain, set()).add(item.key.partition("/")[0])
        elif item.kind == "principal":
            found.names.setdefault(item.domain, set()).add(item.key)
        elif item.kind in ("role", "environment-variable", "environment", "domain"):
            found.everybody.add(item.domain)
    many = {domain for domain, names in found.names.items() if len(names) > standing.FEW}
    found.everybody |= many
    for domain in many:
        del found.names[domain]
    for domain in Domain.objects.filter(name__in=found.everybody - many):
        found.everybody.update(below.name for below in descendants(domain))
    return found


def settle_domain(domain: Domain, *, now: datetime | None = None) -> int:
    """End what must have ended by now, as the clock asks for; returns how many roles fell."""
    concerned = _Concerned(everybody={domain.name})
    with audit.changing():
        _lapse_with_issuers(concerned)
        return _settle_sessions(concerned, now)


def _settle_sessions(concerned: _Concerned, now: datetime | None = None) -> int:
    moment, count = now or timezone.now(), 0
    rows = RoleSession.objects.filter(closed__isnull=True).select_related("principal__domain")
    everybody = list(rows.filter(principal__domain__name__in=concerned.everybody))
    named = [
        row
        for domain, names in sorted(concerned.names.items())
        if domain not in concerned.everybody
        for row in rows.filter(principal__domain__name=domain, principal__name__in=names)
    ]
    held: dict[int, standing.Surroundings] = {}
    for row in sorted([*everybody, *named], key=lambda row: row.pk):
        domain = row.principal.domain
        if domain.pk not in held:
            held[domain.pk] = standing.Surroundings.of(domain, moment)
        count += _settle_session(versions.locked(row, None), held[domain.pk], moment)
    return count


def _settle_session(row: RoleSession, held: standing.Surroundings, now: datetime) -> int:
    if row.principal.state == Principal.State.REVOKED:
        return _close(None, row, f"`{row.principal.name}` was revoked", now)
    before = mapping.session(row)
    _, fallen = held.resume(row)
    if fallen:
        _end(row, fallen, now)
        versions.save(row)
        _record(None, row, "session.fell", before)
    return len(fallen)


def _lapse_with_issuers(concerned: _Concerned) -> None:
    for appointment in selectors.orphaned(concerned.names, concerned.everybody):
        issuer = appointment.issued_by
        assert issuer is not None
        reason = f"`{issuer.name}`, who issued it, may not appoint to it any more"
        end_appointment(actor=None, appointment=appointment, reason=reason)


# -- rows ------------------------------------------------------------------------------------


def _open(session: RoleSession, expected_version: int | None) -> RoleSession:
    row = versions.locked(session, expected_version)
    if row.closed is not None:
        raise InUse("this session has ended already")
    return row


def _activate(session: Session, roles: Iterable[str]) -> None:
    for index, text in enumerate(roles):
        found = _done(f"/activate/{index}", session.activate, text)
        if not found.ok:
            raise Invalid.at(f"/activate/{index}", found.reason, "denied")


def _deactivate(session: Session, roles: Iterable[str]) -> tuple[Fallen, ...]:
    fallen: tuple[Fallen, ...] = ()
    for index, text in enumerate(roles):
        found = _done(f"/deactivate/{index}", session.deactivate, text)
        if not found.ok:
            raise Invalid.at(f"/deactivate/{index}", found.reason)
        fallen += found.fallen
    return fallen


def _done(pointer: str, step: Any, text: str) -> Outcome:
    try:
        found: Outcome = step(text)
    except InputError as error:
        raise Invalid([Problem.from_input_error(error, pointer)]) from error
    return found


def _add(row: RoleSession, session: Session, held: standing.Surroundings, now: datetime) -> None:
    """Keep what was activated; end what was deactivated by name."""
    active = {each.role.text: each for each in session.activations}
    if len(active) > MAX_ROLES:
        raise Invalid.at("/activate", f"a session has at most {MAX_ROLES} roles")
    known = set()
    for each in row.roles.filter(ended__isnull=True):
        known.add(each.atom)
        if each.atom not in active:
            SessionRole.objects.filter(pk=each.pk).update(
                ended=now, chain=[f"`{each.atom}` was deactivated"]
            )
    if any(len(text) > MAX_ATOM for text in active):
        raise Invalid.at("/activate", f"a role has over {MAX_ATOM} characters")
    SessionRole.objects.bulk_create(
        SessionRole(
            session=row,
            atom=text,
            rule=held.rule_of(activation),
            grounds=activation_to_json(activation),
            since=now,
        )
        for text, activation in active.items()
        if text not in known
    )


def _end(row: RoleSession, fallen: Iterable[Fallen], now: datetime) -> None:
    for each in fallen:
        row.roles.filter(atom=each.role.text, ended__isnull=True).update(
            ended=now, chain=list(each.chain)
        )


def _close(actor: User | None, row: RoleSession, reason: str, now: datetime) -> int:
    before = mapping.session(row)
    chain = [f"the session ended: {reason}"]
    count = row.roles.filter(ended__isnull=True).update(ended=now, chain=chain)
    row.closed, row.reason = now, reason[:500]
    versions.save(row)
    _record(actor, row, "session.closed", before)
    return count


def _record(actor: User | None, row: RoleSession, action: str, before: Any) -> None:
    domain = row.principal.domain
    record_row(
        actor,
        domain,
        action,
        row,
        key=f"{row.principal.name}/{row.pk}",
        before=before,
        after=mapping.session(row),
        # Sessions count for policies only where the domain says so.
        affects_agents=selectors.by_session(domain),
        # A session is no change of the model: opening one gives nothing that was not given.
        revokes=True,
    )
