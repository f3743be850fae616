"""The life of a change set: drafted, planned, submitted, decided, applied, undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.changes import announcing, history, planning
from adminapp.changes.models import Announcement, ChangeSet, Decision
from adminapp.changes.operations import Operation, carry_out, read
from adminapp.changes.planning import Plan
from adminapp.core import versions
from adminapp.core.errors import Conflict, Forbidden, InUse, Invalid
from adminapp.core.journal import Journal
from adminapp.identity import kinds, permissions
from adminapp.identity.models import Domain, User

State = ChangeSet.State
Review = ChangeSet.Review
LONGEST_URGENCY = timedelta(hours=24)
URGENT_KINDS = {"policy": "valid_until", "appointment": "ends"}


# -- drafts ----------------------------------------------------------------------------------


@audit.change
def draft(
    *,
    actor: User | None,
    domain: Domain,
    operations: list[dict[str, Any]],
    message: str = "",
    source: str = "api",
) -> ChangeSet:
    """A change that is written down and planned; nothing of it is in force.

    Raises:
        Invalid: an operation cannot be read (what it would do is the plan's matter).
    """
    permissions.require_part(actor, domain)
    return _draft(actor, domain, read(operations, domain.name), message, source)


@audit.change
def restore(*, actor: User | None, domain: Domain, revision: int) -> ChangeSet:
    """A draft that would bring the domain's model back to what it was at a revision.

    Who was revoked stays revoked, and what lapsed stays lapsed.
    """
    permissions.require_manager(actor, domain)
    operations = history.back_to(domain, revision)
    if not operations:
        raise Invalid.at("/revision", f"the model is what it was at revision {revision}")
    row = _draft(actor, domain, operations, f"restore revision {revision}", "api")
    row.restores = revision
    return versions.save(row)


def _draft(
    actor: User | None,
    domain: Domain,
    operations: Sequence[Operation],
    message: str,
    source: str,
) -> ChangeSet:
    row = ChangeSet(
        domain=domain,
        domain_name=domain.name,
        message=message,
        source=source,
        author=actor,
        operations=[each.to_json() for each in operations],
    )
    versions.create(row)
    _note(actor, row, "drafted")
    return row


@audit.change
def revise(
    *,
    actor: User | None,
    change_set: ChangeSet,
    operations: list[dict[str, Any]] | None = None,
    message: str | None = None,
    expected_version: int | None = None,
) -> ChangeSet:
    """Change a draft; its plan is then no longer worth anything."""
    row = _open(actor, change_set, expected_version, State.DRAFT)
    if operations is not None:
        found = read(operations, row.domain_name)
        row.operations = [each.to_json() for each in found]
        row.plan = None
    if message is not None:
        row.message = message
    versions.save(row)
    _note(actor, row, "revised")
    return row


@audit.change
def withdraw(
    *, actor: User | None, change_set: ChangeSet, expected_version: int | None = None
) -> ChangeSet:
    """The author, or another manager, lets a change go."""
    row = _open(actor, change_set, expected_version, State.DRAFT, State.SUBMITTED)
    row.state = State.WITHDRAWN
    versions.save(row)
    _note(actor, row, "withdrawn")
    return row


# -- plans -----------------------------------------------------------------------------------


def plan(*, actor: User | None, change_set: ChangeSet, expected_version: int | None = None) -> Plan:
    """What the change would do now; it is kept with the change set, approvals of an older plan
    are not worth anything any more.
    """
    found = planning.rehearse(
        actor=actor, operations=_operations(change_set), source=change_set.source
    )
    _keep_plan(actor=actor, change_set=change_set, found=found, expected_version=expected_version)
    return found


@audit.change
def _keep_plan(
    *, actor: User | None, change_set: ChangeSet, found: Plan, expected_version: int | None
) -> None:
    row = _open(actor, change_set, expected_version, State.DRAFT, State.SUBMITTED)
    row.plan = found.to_json()
    row.base_revision = found.revisions.get(row.domain_name, 0)
    versions.save(row)


# -- decisions -------------------------------------------------------------------------------


def submit(
    *, actor: User | None, change_set: ChangeSet, expected_version: int | None = None
) -> ChangeSet:
    """Have a draft applied: at once, or as soon as a second person agrees.

    Raises:
        AwaitingApproval: the domain asks for a second person; the change set is submitted.
        Conflict: the domain has changed since the plan.
        Invalid: there is no plan, or it cannot be done.
    """
    return _apply(actor, change_set, expected_version, approved=False)


@audit.change
def approve(
    *,
    actor: User,
    change_set: ChangeSet,
    comment: str = "",
    expected_version: int | None = None,
) -> ChangeSet:
    """A second person agrees, and the change is applied as it was planned."""
    row = _open(actor, change_set, expected_version, State.SUBMITTED)
    _require_domain(actor, row)
    _require_second(actor, row)
    _decide(actor, row, Decision.Verdict.APPROVED, comment)
    return _apply(actor, row, None, approved=True)


@audit.change
def reject(
    *,
    actor: User,
    change_set: ChangeSet,
    comment: str,
    expected_version: int | None = None,
) -> ChangeSet:
    """A second person says no, and why."""
    row = _open(actor, change_set, expected_version, State.SUBMITTED)
    _require_domain(actor, row)
    _require_second(actor, row)
    if not comment.strip():
        raise Invalid.at("/comment", "say why, so that the author can do better")
    _decide(actor, row, Decision.Verdict.REJECTED, comment)
    row.state = State.REJECTED
    versions.save(row)
    return row


def _decide(actor: User, row: ChangeSet, verdict: str, comment: str) -> None:
    Decision.objects.create(
        change_set=row,
        user=actor,
        verdict=verdict,
        comment=comment,
        base_revision=row.base_revision,
    )
    _note(actor, row, verdict, comment=comment)
    announcing.decided(row, verdict)


def _require_second(actor: User | None, row: ChangeSet) -> None:
    if actor is None or actor.pk == row.author_id:
        raise Forbidden("a second person decides, not the author")


# -- applying --------------------------------------------------------------------------------


def _apply(
    actor: User | None, change_set: ChangeSet, expected_version: int | None, *, approved: bool
) -> ChangeSet:
    """Carry out all operations in one transaction, or none."""
    wanted = (State.SUBMITTED,) if approved else (State.DRAFT,)
    author = (change_set.author or actor) if approved else actor
    book = Journal(
        source=change_set.source,
        message=change_set.message,
        batch=True,
        approved=approved,
        actor=author,
        extra={"change_sets": {change_set.domain_name: change_set.pk}},
    )
    with audit.changing(book):
        row = _open(actor, change_set, expected_version, *wanted)
        _require_fresh(row)
        problems = carry_out(actor=author, operations=_operations(row))
        if problems:
            raise Invalid(problems)
        row.state, row.applied = State.APPLIED, timezone.now()
        versions.save(row)
        _note(actor, row, "applied")
    row.refresh_from_db()
    return row


def _require_fresh(row: ChangeSet) -> None:
    """Refuse a plan that was made against another revision."""
    current = 0 if row.domain is None else row.domain.revision
    if row.plan is None:
        raise Invalid.at("/plan", "plan the change first")
    if row.plan.get("problems"):
        raise Invalid.at("/plan", "the plan has problems; mend them and plan again")
    if row.base_revision != current:
        raise Conflict(
            f"`{row.domain_name}` has changed since the plan; plan again and look at it",
            expected=row.base_revision,
            current=current,
        )


# -- break-glass -----------------------------------------------------------------------------


def break_glass(
    *,
    actor: User | None,
    domain: Domain,
    operations: list[dict[str, Any]],
    message: str,
    minutes: int,
) -> ChangeSet:
    """Grant something at once and for a short time, without waiting for anybody.

    Args:
        operations: new policies and appointments; each ends by itself when the time is up.
        message: why; every manager of the domain is told.
        minutes: for how long, at most a day.

    Raises:
        Invalid: it is not a grant, or says no reason.
    """
    permissions.require_manager(actor, domain)
    until = _until(minutes)
    if not message.strip():
        raise Invalid.at("/message", "say why it cannot wait")
    wanted = [_boxed(each, until) for each in _grants(operations, domain)]
    book = Journal(source="api", message=message, batch=True, approved=True, actor=actor)
    with audit.changing(book) as held:
        row = _draft(actor, domain, wanted, message, "api")
        held.extra["change_sets"] = {domain.name: row.pk}
        problems = carry_out(actor=actor, operations=wanted)
        if problems:
            raise Invalid(problems)
        row.state, row.applied = State.APPLIED, timezone.now()
        row.review, row.urgent_until = Review.DUE, until
        versions.save(row)
        _note(actor, row, "broken-glass", until=until.isoformat())
        announcing.urgent(row)
    row.refresh_from_db()
    return row


def _until(minutes: int) -> datetime:
    longest = int(LONGEST_URGENCY.total_seconds() // 60)
    if not 1 <= minutes <= longest:
        raise Invalid.at("/minutes", f"an urgent grant lasts 1 to {longest} minutes")
    return timezone.now() + timedelta(minutes=minutes)


def _grants(operations: list[dict[str, Any]], domain: Domain) -> tuple[Operation, ...]:
    found = read(operations, domain.name)
    if not found:
        raise Invalid.at("/operations", "say what is granted")
    for each in found:
        if each.op != "put" or each.kind not in URGENT_KINDS:
            raise Invalid.at(
                each.place, "an urgent grant gives policies and appointments and takes nothing away"
            )
        if kinds.kind(each.kind).find(domain, each.key) is not None:
            raise Invalid.at(
                each.place, f"there is a {each.kind} `{each.key}` already; give this one a new name"
            )
    return found


def _boxed(operation: Operation, until: datetime) -> Operation:
    field = URGENT_KINDS[operation.kind]
    document = {**(operation.document or {}), field: until.isoformat().replace("+00:00", "Z")}
    return replace(operation, document=document)


def approve_any(
    *, actor: User, change_set: ChangeSet, comment: str = "", expected_version: int | None = None
) -> ChangeSet:
    """Agree, beforehand or, to an urgent grant, afterwards."""
    decide = approve_urgent if change_set.review == Review.DUE else approve
    return decide(
        actor=actor, change_set=change_set, comment=comment, expected_version=expected_version
    )


@audit.change
def approve_urgent(
    *, actor: User, change_set: ChangeSet, comment: str = "", expected_version: int | None = None
) -> ChangeSet:
    """A second person agrees afterwards; the grant still ends by itself."""
    row = _urgent(actor, change_set, expected_version)
    _require_second(actor, row)
    row.review = Review.APPROVED
    versions.save(row)
    _decide(actor, row, Decision.Verdict.APPROVED, comment)
    return row


def undo_urgent(
    *,
    actor: User | None,
    change_set: ChangeSet,
    comment: str = "",
    expected_version: int | None = None,
) -> ChangeSet:
    """Take an urgent grant back; any manager may, and it waits for nobody."""
    with audit.changing():
        row = _urgent(actor, change_set, expected_version)
        held = [each for each in _operations(row) if _is_there(each)]
        deletions = [Operation("delete", each.domain, each.kind, each.key) for each in held]
        problems = carry_out(actor=actor, operations=deletions)
        if problems:
            raise Invalid(problems)
        row.review = Review.UNDONE
        versions.save(row)
        _note(actor, row, "undone", comment=comment)
        announcing.undone(row, comment or "no reason was given")
    return row


def sweep(*, now: datetime | None = None) -> int:
    """Undo urgent grants whose time is up and that nobody has approved; returns how many."""
    due = ChangeSet.objects.filter(review=Review.DUE, urgent_until__lte=now or timezone.now())
    count = 0
    for row in due:
        undo_urgent(
            actor=None, change_set=row, comment="its time was up and nobody had approved it"
        )
        count += 1
    return count


def _urgent(actor: User | None, change_set: ChangeSet, expected_version: int | None) -> ChangeSet:
    row = versions.locked(change_set, expected_version)
    _require_domain(actor, row)
    if row.review != Review.DUE:
        raise InUse("there is no urgent grant here that waits for a review")
    return row


def _is_there(operation: Operation) -> bool:
    domain = Domain.objects.filter(name=operation.domain).first()
    kind = kinds.kind(operation.kind)
    return domain is not None and kind.find(domain, operation.key) is not None


# -- announcements ---------------------------------------------------------------------------


def mark_read(*, actor: User, announcement: Announcement) -> Announcement:
    """One's own announcement was seen."""
    if announcement.user_id != actor.pk:
        raise Forbidden("this announcement is somebody else's")
    if announcement.read is None:
        announcement.read = timezone.now()
        announcement.save(update_fields=["read"])
    return announcement


# -- shared ----------------------------------------------------------------------------------


def _open(
    actor: User | None, change_set: ChangeSet, expected_version: int | None, *states: str
) -> ChangeSet:
    row = versions.locked(change_set, expected_version)
    if row.domain is None or actor is None or actor.pk != row.author_id:
        _require_domain(actor, row)
    else:
        permissions.require_part(actor, row.domain)
    if row.state not in states:
        raise InUse(f"this change set is {row.state}")
    return row


def _require_domain(actor: User | None, row: ChangeSet) -> None:
    if row.domain is None:
        permissions.require_operator(actor)
    else:
        permissions.require_manager(actor, row.domain)


def _operations(row: ChangeSet) -> list[Operation]:
    return list(read(row.operations, row.domain_name))


def _note(actor: User | None, row: ChangeSet, deed: str, **more: Any) -> None:
    audit.write(
        actor=actor,
        action=f"change-set.{deed}",
        domain_name=row.domain_name,
        object_type="change-set",
        object_id=row.pk,
        object_name=str(row),
        after={"message": row.message, "operations": len(row.operations), **more},
    )
