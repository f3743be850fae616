"""The decision about a request: a person's, a fleet's, or time's."""

from __future__ import annotations

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import journal, versions
from adminapp.core.errors import Conflict, InUse, Invalid
from adminapp.enrolment import certificates, mapping, selectors
from adminapp.enrolment.models import Enrolment, Fleet, Kind
from adminapp.enrolment.tokens import check_agent, check_principal
from adminapp.identity import permissions
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, User
from adminapp.identity.recording import record_row

State = Enrolment.State


@audit.change
def confirm_enrolment(
    *,
    actor: User | None,
    enrolment: Enrolment,
    fingerprint: str,
    expected_version: int | None = None,
) -> Enrolment:
    """Say that the fingerprint is the one that the machine shows; its keys count from now on.

    Args:
        fingerprint: as the other end shows it; blanks do not matter.

    Raises:
        Invalid: it is another one: somebody stands in between, or it is another machine.
    """
    _require(actor, enrolment)
    row = _waiting(enrolment, expected_version)
    if "".join(fingerprint.split()) != row.fingerprint.replace(" ", ""):
        raise Invalid.at(
            "/fingerprint",
            "this is not the fingerprint of the request: do not confirm it, refuse it",
        )
    return _confirm(actor, row)


@audit.change
def refuse_enrolment(
    *,
    actor: User | None,
    enrolment: Enrolment,
    reason: str,
    expected_version: int | None = None,
) -> Enrolment:
    """Say no: the keys never count."""
    _require(actor, enrolment)
    if not reason.strip():
        raise Invalid.at("/reason", "say why, for the audit and for who asked")
    row = _waiting(enrolment, expected_version)
    return _decide(actor, row, State.REFUSED, "enrolment.refused", reason.strip()[:500])


def confirm_by_fleet(*, enrolment: Enrolment) -> Enrolment:
    """Confirm a fleet's agent without anybody looking, or refuse it with the reason."""
    with journal.source(journal.SYSTEM):
        return _confirm_by_fleet(enrolment)


@audit.change
def _confirm_by_fleet(enrolment: Enrolment) -> Enrolment:
    row = versions.locked(enrolment, None)
    fleet = row.token.fleet
    if row.state != State.PENDING or fleet is None:
        return row
    # Counted under the fleet's lock: two at once cannot both be the last one.
    held = versions.locked(fleet, None)
    reason = _fleet_refuses(held, row)
    if reason:
        return _decide(None, row, State.REFUSED, "enrolment.refused", reason)
    row.reason = f"fleet {held.name}"
    return _confirm(None, row)


def _fleet_refuses(fleet: Fleet, row: Enrolment) -> str:
    if fleet.ends <= timezone.now():
        return f"fleet {fleet.name} is over"
    if selectors.fleet_count(fleet) >= fleet.most:
        return f"fleet {fleet.name} has its {fleet.most} agents"
    if Agent.objects.filter(name=row.name).exists():
        return f"there is an agent {row.name} already"
    return ""


def current(row: Enrolment) -> Enrolment:
    """The row; one that nobody decided in time has expired."""
    if row.state == State.PENDING and row.expires <= timezone.now():
        return _expire(row)
    return row


def expire_old() -> int:
    """Note which requests nobody decided in time; returns how many."""
    late = Enrolment.objects.filter(state=State.PENDING, expires__lte=timezone.now())
    return sum(_expire(row).state == State.EXPIRED for row in late)


@audit.change
def _expire(row: Enrolment) -> Enrolment:
    held = versions.locked(row, None)
    if held.state != State.PENDING:
        return held
    return _decide(None, held, State.EXPIRED, "enrolment.expired", "nobody decided in time")


def _require(actor: User | None, row: Enrolment) -> None:
    if row.domain is None:
        permissions.require_operator(actor)
    else:
        permissions.require_manager(actor, row.domain)


def _waiting(enrolment: Enrolment, expected_version: int | None) -> Enrolment:
    row = versions.locked(enrolment, expected_version)
    if row.state != State.PENDING:
        raise Conflict(f"this request is {row.state} already", expected=None, current=row.version)
    if row.expires <= timezone.now():
        raise InUse("this request is over: nobody decided in time; enrol anew with a new token")
    return row


def _confirm(actor: User | None, row: Enrolment) -> Enrolment:
    if row.proven_at is None:
        raise InUse("the machine has not proven all of its keys yet; it does once it asks again")
    if row.kind == Kind.AGENT:
        row.agent = _agent_keys(actor, row)
    else:
        _client_keys(actor, row)
    same = Enrolment.objects.filter(kind=row.kind, name=row.name, state=State.CONFIRMED)
    same.exclude(pk=row.pk).update(state=State.REPLACED, reason="enrolled anew")
    decided = _decide(actor, row, State.CONFIRMED, "enrolment.confirmed", row.reason)
    certificates.issue_first(decided)
    return decided


def _agent_keys(actor: User | None, row: Enrolment) -> Agent:
    assert row.overlay is not None
    check_agent(row.name, row.overlay)
    keys = {"sealing_key": row.sealing_key, "verify_key": row.verify_key}
    held = Agent.objects.filter(name=row.name).first()
    if held is None:
        return identity.register_agent(actor=actor, name=row.name, overlay=row.overlay, **keys)
    return identity.update_agent(actor=actor, agent=held, data=keys)


def _client_keys(actor: User | None, row: Enrolment) -> None:
    principal = row.principal
    assert principal is not None
    check_principal(principal)
    held = (principal.sealing_key, principal.verify_key)
    if held == (row.sealing_key, row.verify_key) and not principal.certificate:
        # A second person agreed to the keys before: confirmed again, it is complete.
        return
    row.principal = identity.register_credentials(
        actor=actor,
        principal=principal,
        sealing_key=row.sealing_key,
        verify_key=row.verify_key,
    )


def _decide(actor: User | None, row: Enrolment, state: str, action: str, why: str) -> Enrolment:
    before = mapping.enrolment(row)
    row.state, row.reason = state, why
    row.decided_at, row.decided_by = timezone.now(), actor
    versions.save(row)
    record_row(
        actor,
        row.domain,
        action,
        row,
        before=before,
        after=mapping.enrolment(row),
        affects_agents=False,
        revokes=state != State.CONFIRMED,
    )
    return row
