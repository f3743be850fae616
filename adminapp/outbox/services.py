"""Puts work into the outbox and hands it out; a row is done once, whatever crashes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from adminapp.outbox.models import OutboxRow

State = OutboxRow.State
MAX_ATTEMPTS = 20
MAX_DELAY = timedelta(minutes=5)
AWAY = timedelta(seconds=10)
"""How soon a broker or an authority that is away is tried again. All agents are to be where they
should within a minute of its return."""


def put(
    *, topic: str, key: str, payload: Mapping[str, Any], wait: timedelta = timedelta()
) -> OutboxRow:
    """Add work unless work of this key exists; call it inside the change's transaction.

    `wait` keeps the work back for so long.
    """
    row, _created = OutboxRow.objects.get_or_create(
        key=key,
        defaults={
            "topic": topic,
            "payload": dict(payload),
            "available_at": timezone.now() + wait,
        },
    )
    return row


def put_all(*, topic: str, work: Mapping[str, Mapping[str, Any]]) -> None:
    """Add much work at once, in this order, leaving out what exists; call it like `put`.

    `work` is the payload by key.
    """
    OutboxRow.objects.bulk_create(
        (OutboxRow(key=key, topic=topic, payload=dict(payload)) for key, payload in work.items()),
        ignore_conflicts=True,
    )


def claim(
    *,
    topics: list[str] | None = None,
    prefix: str = "",
    untried: bool = False,
    limit: int = 10,
) -> list[OutboxRow]:
    """Take up to `limit` rows that are due, oldest first; nobody else gets the same ones.

    `prefix` is what their keys begin with; `untried` leaves out what has failed before.
    """
    now = timezone.now()
    due = OutboxRow.objects.filter(state=State.PENDING, available_at__lte=now).order_by("id")
    if prefix:
        due = due.filter(key__startswith=prefix)
    if untried:
        due = due.filter(attempts=0)
    if topics is not None:
        due = due.filter(topic__in=topics)
    if connection.features.has_select_for_update_skip_locked:
        with transaction.atomic():
            taken = [row.pk for row in due.select_for_update(skip_locked=True)[:limit]]
            rows = OutboxRow.objects.filter(pk__in=taken).order_by("id")
            rows.update(state=State.CLAIMED, claimed_at=now, attempts=F("attempts") + 1)
            return list(rows)
    return [row for row in due[:limit] if _take(row, now)]


def claim_key(*, key: str) -> OutboxRow | None:
    """Take one row by its key, if it is still waiting."""
    row = OutboxRow.objects.filter(key=key, state=State.PENDING).first()
    return row if row is not None and _take(row, timezone.now()) else None


def _take(row: OutboxRow, now: Any) -> bool:
    # The condition decides between two relays, not the read before it.
    taken = OutboxRow.objects.filter(pk=row.pk, state=State.PENDING).update(
        state=State.CLAIMED, claimed_at=now, attempts=F("attempts") + 1
    )
    if taken:
        row.refresh_from_db()
    return bool(taken)


def done(*, rows: Iterable[OutboxRow]) -> int:
    """This work is finished; returns of how much of it nobody else had said so before."""
    mine = OutboxRow.objects.filter(pk__in=[row.pk for row in rows])
    return mine.exclude(state=State.DONE).update(state=State.DONE, done_at=timezone.now(), error="")


def retry(*, row: OutboxRow, error: str) -> bool:
    """Give the row back, to be tried again later and later; failed for good at MAX_ATTEMPTS."""
    if row.attempts >= MAX_ATTEMPTS:
        changes: dict[str, Any] = {"state": State.FAILED}
    else:
        wait = min(timedelta(seconds=2 ** min(row.attempts, 10)), MAX_DELAY)
        changes = {"state": State.PENDING, "available_at": timezone.now() + wait}
    return bool(
        OutboxRow.objects.filter(pk=row.pk, state=State.CLAIMED).update(
            error=error[:2000], claimed_at=None, **changes
        )
    )


def postpone(*, row: OutboxRow, error: str) -> bool:
    """Give the row back because what it needs is away: it is tried again soon after that comes
    back, however long it takes, and never given up.
    """
    return bool(
        OutboxRow.objects.filter(pk=row.pk, state=State.CLAIMED).update(
            state=State.PENDING,
            error=error[:2000],
            claimed_at=None,
            available_at=timezone.now() + AWAY,
            attempts=F("attempts") - 1,
        )
    )


def release(*, row: OutboxRow) -> bool:
    """Start a failed row anew, by an operator's wish."""
    return bool(
        OutboxRow.objects.filter(pk=row.pk, state=State.FAILED).update(
            state=State.PENDING, attempts=0, error="", available_at=timezone.now()
        )
    )


def sweep(*, older_than: timedelta = timedelta(seconds=60)) -> int:
    """Put back rows whose worker has vanished; returns how many."""
    stale = timezone.now() - older_than
    return OutboxRow.objects.filter(state=State.CLAIMED, claimed_at__lt=stale).update(
        state=State.PENDING, claimed_at=None
    )


def prune(*, older_than: timedelta = timedelta(days=7)) -> int:
    """Delete finished rows of the past; returns how many."""
    old = timezone.now() - older_than
    deleted, _by_model = OutboxRow.objects.filter(state=State.DONE, done_at__lt=old).delete()
    return deleted
