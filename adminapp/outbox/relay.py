"""What the relay needs of the outbox: rows that are due, and signs of life of those at work."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from django.utils import timezone

from adminapp.outbox.models import OutboxRow

State = OutboxRow.State
# A row that was handed out and not claimed within this time was lost on the way: a Celery
# message is a hint, the row is the truth.
HAND_AGAIN = timedelta(seconds=30)


def hand_out(*, limit: int = 100, first: Collection[str] = ()) -> list[tuple[str, str]]:
    """Topic and key of rows that are due, oldest first; each is due again only later.

    Args:
        limit: so many at once.
        first: topics whose rows go ahead of all others, however many of these wait.
    """
    now = timezone.now()
    due = OutboxRow.objects.filter(state=State.PENDING, available_at__lte=now).order_by("id")
    columns = due.values_list("pk", "topic", "key", "available_at")
    rows = list(columns.filter(topic__in=first)[:limit]) if first else []
    rows += columns.exclude(topic__in=first)[: limit - len(rows)]
    handed: list[tuple[str, str]] = []
    for pk, topic, key, available in rows:
        # The condition decides between two relays, not the read before it.
        taken = OutboxRow.objects.filter(pk=pk, state=State.PENDING, available_at=available).update(
            available_at=now + HAND_AGAIN
        )
        if taken:
            handed.append((topic, key))
    return handed


def waiting(*, prefix: str) -> bool:
    """Whether a row whose key begins so is still to be done; no use in asking once more."""
    open_rows = (State.PENDING, State.CLAIMED)
    return OutboxRow.objects.filter(key__startswith=prefix, state__in=open_rows).exists()


def wanted(*, prefix: str, since: timedelta) -> bool:
    """Whether a row whose key begins so was put here within `since` and is not begun yet.

    Whoever takes it from now on sees everything that is committed by now.
    """
    early = timezone.now() - since
    fresh = OutboxRow.objects.filter(key__startswith=prefix, created_at__gt=early)
    return fresh.filter(state=State.PENDING).exists()


def touch(*keys: str) -> None:
    """Say that rows are still being worked on, so that the sweep leaves them alone."""
    OutboxRow.objects.filter(key__in=keys, state=State.CLAIMED).update(claimed_at=timezone.now())
