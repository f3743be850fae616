"""The end of every change: its change set, and whether a second person must agree first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.changes import announcing, planning, sensitivity
from adminapp.changes.models import ChangeSet
from adminapp.changes.operations import Operation
from adminapp.changes.planning import Change
from adminapp.core import journal
from adminapp.core.errors import AwaitingApproval, Conflict
from adminapp.core.journal import Held, Journal
from adminapp.identity.models import Domain

State = ChangeSet.State
FORESEEN = 2_000
"""How many objects a change may have that is planned once more when it has to wait."""


def number(book: Journal, domain_name: str) -> int | None:
    """The change set that a change of this domain belongs to, made when there is none yet.

    What the system does by itself (epochs, rollouts) is audited and belongs to none.
    """
    if book.extra.get("rehearsal") or not book.items:
        return None
    given = book.extra.get("change_sets", {})
    if domain_name in given:
        return int(given[domain_name])
    if book.actor is None and book.source == journal.SYSTEM:
        return None
    row = ChangeSet.objects.create(
        domain=Domain.objects.filter(name=domain_name).first() if domain_name else None,
        domain_name=domain_name,
        message=book.message,
        source=book.source,
        author=book.actor,
        state=State.APPLIED,
        applied=timezone.now(),
    )
    return row.pk


def settle(book: Journal) -> None:
    """Write down which revision the change sets became, or hold the change for an approval."""
    if not book.approved:
        _hold_where_asked(book)
    for name, pk in book.change_sets.items():
        domain = Domain.objects.filter(name=name).first() if name else None
        ChangeSet.objects.filter(pk=pk).update(
            domain=domain, revision=None if domain is None else domain.revision
        )


def require_revisions(expected: Mapping[str, int]) -> None:
    """Refuse a plan that was made against other revisions.

    Raises:
        Conflict: a domain has changed since.
    """
    current = dict(Domain.objects.filter(name__in=expected).values_list("name", "revision"))
    for name, revision in sorted(expected.items()):
        if current.get(name) != revision:
            raise Conflict(
                f"`{name}` has changed since the plan; plan again and look at it",
                expected=revision,
                current=current.get(name),
            )


def _hold_where_asked(book: Journal) -> None:
    if book.actor is None and book.source == journal.SYSTEM:
        return
    changes = planning.replayable(planning.coalesced(book.items))
    asking = [name for name in sorted({change.domain for change in changes}) if name]
    held = [name for name in asking if _asks(name, [c for c in changes if c.domain == name])]
    if held:
        raise Held(lambda: _keep(book, changes, held))


def _asks(name: str, changes: Iterable[Change]) -> bool:
    """Whether a domain wants a second person for these changes. A revocation never waits."""
    domain = Domain.objects.filter(name=name).first()
    waiting = [change for change in changes if not change.revokes]
    if domain is None or not waiting:
        return False
    approval = _approval(domain, waiting)
    if approval == "never":
        return False
    if approval == "always":
        return not all(change.kind == "domain" and change.op == "create" for change in waiting)
    return sensitivity.any_sensitive(domain, waiting)


def _approval(domain: Domain, changes: Iterable[Change]) -> str:
    """What the domain asked for before the change: the rule itself is changed under the old one."""
    for change in changes:
        if change.kind == "domain" and change.key == domain.name and change.before:
            return str(change.before.get("approval", domain.approval))
    return str(domain.approval)


def _keep(book: Journal, changes: list[Change], held: list[str]) -> Exception:
    """Keep what was wanted as change sets that wait, all domains of one change alike."""
    given = book.extra.get("change_sets", {})
    kept: dict[str, int] = {}
    with audit.changing(Journal(source=book.source, approved=True)):
        for name in sorted({change.domain for change in changes}):
            mine = [change for change in changes if change.domain == name]
            row = _kept(book, name, mine, given.get(name))
            kept[name] = row.pk
            audit.write(
                actor=book.actor,
                action="change-set.submitted",
                domain_name=name,
                object_type="change-set",
                object_id=row.pk,
                object_name=str(row),
                after={"message": row.message, "operations": len(row.operations)},
            )
            announcing.submitted(row)
    return AwaitingApproval(kept[held[0]], held[0])


def _kept(book: Journal, name: str, changes: list[Change], given: int | None) -> ChangeSet:
    domain = Domain.objects.filter(name=name).first() if name else None
    values: dict[str, Any] = {
        "state": State.SUBMITTED,
        "submitted": timezone.now(),
        "base_revision": 0 if domain is None else domain.revision,
    }
    if given is not None:
        row = ChangeSet.objects.get(pk=given)
        for field, value in values.items():
            setattr(row, field, value)
        row.version += 1
        row.save()
        return row
    operations = planning.as_operations(changes)
    return ChangeSet.objects.create(
        domain=domain,
        domain_name=name,
        message=book.message,
        source=book.source,
        author=book.actor,
        operations=[each.to_json() for each in operations],
        plan=_plan(book, changes, operations),
        **values,
    )


def _plan(book: Journal, changes: list[Change], operations: list[Operation]) -> dict[str, Any]:
    """What it would do, for whoever decides; of thousands of objects only which they are."""
    if len(operations) > FORESEEN:
        return {"changes": [change.to_json() for change in changes], "problems": []}
    return planning.rehearse(actor=book.actor, operations=operations, source=book.source).to_json()
