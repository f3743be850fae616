"""What is waiting, running and stuck."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Min, QuerySet

from adminapp.outbox.models import OutboxRow


def rows(*, state: str = "", topic: str = "") -> QuerySet[OutboxRow]:
    found = OutboxRow.objects.order_by("-id")
    wanted = {name: value for name, value in {"state": state, "topic": topic}.items() if value}
    return found.filter(**wanted)


def visible_to(user: Any) -> QuerySet[OutboxRow]:
    """The outbox is the operators'."""
    return OutboxRow.objects.all() if user.is_superuser else OutboxRow.objects.none()


def unfinished(*, prefix: str) -> int:
    """How many rows whose key begins so are still to be done."""
    open_rows = (OutboxRow.State.PENDING, OutboxRow.State.CLAIMED)
    return OutboxRow.objects.filter(key__startswith=prefix, state__in=open_rows).count()


def summary() -> dict[str, Any]:
    """How many rows are in each state, and since when the oldest has waited."""
    counts = {
        row["state"]: row["count"]
        for row in OutboxRow.objects.order_by().values("state").annotate(count=Count("id"))
    }
    oldest = OutboxRow.objects.filter(state=OutboxRow.State.PENDING).aggregate(
        since=Min("created_at")
    )
    return {
        "counts": {state: counts.get(state, 0) for state in OutboxRow.State.values},
        "oldest_pending": oldest["since"],
    }
