"""Adds to the audit, and orders the writers of the control plane."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, ParamSpec, TypeVar

from django.db import transaction
from django.utils import timezone

from adminapp.audit import mapping
from adminapp.audit.models import ChainHead, Entry
from adminapp.core import journal
from adminapp.core.journal import Journal

P = ParamSpec("P")
R = TypeVar("R")
HEAD = 1
SYSTEM = "system"
BATCH = 2000


@contextmanager
def changing(book: Journal | None = None) -> Iterator[Journal]:
    """One transaction and one journal for one change of the control plane.

    It takes the end of the audit chain before any other row, so that two changes queue up and
    never wait for one another in a circle (SQLite does the same through BEGIN IMMEDIATE). A change
    within a change is a part of it: what it noted is forgotten when it fails.

    Args:
        book: the journal of a change that is more than one service; only for the outermost.
    """
    held = journal.current()
    if held is not None:
        assert book is None, "a change within a change has no journal of its own"
        mark = held.mark()
        try:
            with transaction.atomic():
                yield held
        except BaseException:
            held.back_to(mark)
            raise
        return
    opened = book or Journal(source=journal.current_source())
    try:
        with journal.opened(opened), transaction.atomic():
            _head()
            yield opened
            journal.settle(opened)
    except journal.Held as held:
        raise held.conclude() from None


def change(service: Callable[P, R]) -> Callable[P, R]:
    """Makes a service one transaction, see `changing`."""

    @functools.wraps(service)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with changing():
            return service(*args, **kwargs)

    return run


@dataclass(frozen=True, kw_only=True)
class NewEntry:
    """What one change says of itself.

    Args:
        action: type of the object, a point, what was done (`policy.created`).
        object_type: what was changed.
        object_id: its primary key.
        object_name: what people call it.
        domain_name: whose it is, "" for the platform's.
        before: its document before, None when it is new.
        after: its document now, None when it is gone.
    """

    action: str
    object_type: str
    object_id: object
    object_name: str = ""
    domain_name: str = ""
    before: Any = None
    after: Any = None


def write(*, actor: Any, **fields: Any) -> Entry:
    """Add one entry, with the fields of `NewEntry`; `actor` None is the system itself."""
    (entry,) = _add(actor, [NewEntry(**fields)])
    return entry


def write_many(*, actor: Any, entries: Iterable[NewEntry]) -> range:
    """Add entries to the end of the chain, all or none, thousands in one statement.

    Args:
        actor: who made all these changes; None is the system itself.
        entries: in their order; they are read as they are written.

    Returns:
        The numbers of the new entries.
    """
    first, count = 0, 0
    with changing():
        for batch in _batches(entries):
            added = _add(actor, batch)
            first = first or added[0].sequence
            count += len(added)
    return range(first, first + count)


@transaction.atomic
def _add(actor: Any, new: Iterable[NewEntry]) -> list[Entry]:
    head = _head()
    name = SYSTEM if actor is None else actor.get_username()
    now = timezone.now()
    rows: list[Entry] = []
    for fields in new:
        row = Entry(
            sequence=head.sequence + 1,
            at=now,
            actor_name=name,
            action=fields.action,
            domain_name=fields.domain_name,
            object_type=fields.object_type,
            object_id=str(fields.object_id),
            object_name=fields.object_name[:200],
            before=fields.before,
            after=fields.after,
            previous_hash=head.hash,
        )
        row.hash = mapping.digest(row)
        head.sequence, head.hash = row.sequence, row.hash
        rows.append(row)
    Entry.objects.bulk_create(rows)
    ChainHead.objects.filter(pk=HEAD).update(sequence=head.sequence, hash=head.hash)
    return rows


def _head() -> ChainHead:
    head = ChainHead.objects.select_for_update().filter(pk=HEAD).first()
    if head is not None:
        return head
    ChainHead.objects.get_or_create(pk=HEAD)
    return ChainHead.objects.select_for_update().get(pk=HEAD)


def _batches(entries: Iterable[NewEntry]) -> Iterator[list[NewEntry]]:
    remaining = iter(entries)
    while batch := list(islice(remaining, BATCH)):
        yield batch
