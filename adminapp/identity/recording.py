"""The way of every change into journal, audit, revision and outbox."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import F, ProtectedError, RestrictedError

from adminapp.audit import services as audit
from adminapp.core import journal
from adminapp.core.errors import InUse
from adminapp.identity import guests, kinds, quotas
from adminapp.identity.lineage import descendants
from adminapp.identity.models import Domain, Principal, User
from adminapp.outbox import services as outbox


@audit.change
def record_change(
    *,
    actor: User | None,
    domain: Domain | None,
    action: str,
    object_type: str,
    object_id: object,
    object_name: str,
    before: Any,
    after: Any,
    affects_agents: bool = True,
    revokes: bool = False,
    below: bool = False,
    person: str = "",
) -> int:
    """Write the audit entry and, when agents must hear of it, a new revision to be compiled.

    Args:
        domain: whose change it is; None is the platform's, which concerns every domain.
        object_name: the object's natural key.
        before: its document before.
        after: its document after.
        affects_agents: False leaves revision and outbox alone.
        revokes: whether it can only take rights away; such a change waits for nobody.
        below: whether it concerns all sub-domains, whatever the kind.
        person: pseudonym of the person whom name and documents identify; the audit then keeps
            them in a way that erasing that person makes unreadable.

    Returns:
        The domain's revision after the change, 0 for the platform.
    """
    owner = "" if domain is None else domain.name
    book = journal.current()
    assert book is not None
    book.actor = book.actor or actor
    book.note(
        journal.Item(
            kind=object_type,
            action=action,
            domain=owner,
            key=object_name,
            before=before,
            after=after,
            revokes=revokes,
        )
    )
    if domain is not None:
        quotas.count(domain, object_type, quotas.held(after) - quotas.held(before))
    audit.write(
        actor=actor,
        action=action,
        domain_name=owner,
        object_type=object_type,
        object_id=object_id,
        object_name=object_name,
        before=before,
        after=after,
        person=person,
    )
    if not affects_agents:
        return 0 if domain is None else domain.revision
    if domain is None:
        for pk in Domain.objects.order_by("pk").values_list("pk", flat=True):
            _next_revision(book, pk)
        return 0
    domain.revision = _next_revision(book, domain.pk)
    concerned = descendants(domain) if below or kinds.inherits(object_type) else []
    # Principals that take part in other domains are in the bundles there.
    hosts = guests.hosts([domain, *concerned])
    for pk in dict.fromkeys([*(each.pk for each in concerned), *hosts]):
        _next_revision(book, pk)
    return domain.revision


def _next_revision(book: journal.Journal, domain_id: int) -> int:
    """One revision for one change, however many objects it touches."""
    if domain_id in book.raised:
        return book.raised[domain_id]
    Domain.objects.filter(pk=domain_id).update(revision=F("revision") + 1)
    revision: int = Domain.objects.values_list("revision", flat=True).get(pk=domain_id)
    outbox.put(
        topic="compile",
        key=f"compile:{domain_id}:{revision}",
        payload={"domain": domain_id, "revision": revision},
    )
    book.raised[domain_id] = revision
    return revision


def record_row(
    actor: User | None,
    domain: Domain | None,
    action: str,
    row: Any,
    *,
    before: Any = None,
    after: Any = None,
    key: str | None = None,
    affects_agents: bool = True,
    revokes: bool = False,
    below: bool = False,
) -> int:
    """`record_change` for a row; the action's first word is the type of the object.

    Args:
        key: the object's natural key where that is not how the row shows itself.
    """
    return record_change(
        actor=actor,
        domain=domain,
        action=action,
        object_type=action.partition(".")[0],
        object_id=row.pk,
        object_name=str(row) if key is None else key,
        before=before,
        after=after,
        affects_agents=affects_agents,
        revokes=revokes,
        below=below,
        person=person_of(row),
    )


@dataclass(frozen=True)
class BulkChange:
    """One of many new objects: its row, its document, its natural key."""

    row: Any
    after: Any
    key: str


@audit.change
def record_many(
    actor: User | None, domain: Domain, action: str, changes: Iterable[BulkChange]
) -> int:
    """`record_row` for many new objects of a domain: an entry for each, one revision for all.

    Args:
        action: the same for all; its first word is the type of the objects.

    Returns:
        The domain's revision after the change.
    """
    book = journal.current()
    assert book is not None
    book.actor = book.actor or actor
    kind = action.partition(".")[0]
    number = 0

    def entries() -> Iterator[audit.NewEntry]:
        nonlocal number
        for change in changes:
            number += 1
            item = journal.Item(kind, action, domain.name, change.key, None, change.after)
            book.note(item)
            yield audit.NewEntry(
                action=action,
                domain_name=domain.name,
                object_type=kind,
                object_id=change.row.pk,
                object_name=change.key,
                after=change.after,
                person=person_of(change.row),
            )

    audit.write_many(actor=actor, entries=entries())
    if number:
        quotas.count(domain, kind, number)
        domain.revision = _next_revision(book, domain.pk)
    return domain.revision


def person_of(row: Any) -> str:
    """Pseudonym of the person whom a row speaks of: the principal, or the user; "" for nobody."""
    if isinstance(row, User):
        return f"u-{row.pk}"
    if isinstance(row, Principal):
        return row.handle
    for field in ("principal", "user"):
        if field in {each.name for each in row._meta.concrete_fields}:
            held = getattr(row, field)
            return "" if held is None else person_of(held)
    return ""


def delete_row(row: Any, message: str) -> None:
    """Delete a row, or say that others stand on it."""
    try:
        row.delete()
    except (ProtectedError, RestrictedError) as error:
        raise InUse(message) from error
