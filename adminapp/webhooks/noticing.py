"""Turns what is written into the audit into messages, in the transaction of the change."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from django.db.models import Max
from django.utils import timezone

from adminapp.audit.services import NewEntry
from adminapp.core import journal
from adminapp.core.journal import Journal
from adminapp.outbox import services as outbox
from adminapp.webhooks.events import APPLIED, event_of, wanted
from adminapp.webhooks.models import Delivery, Webhook

TOPIC = "webhook"
# Changes of webhooks themselves are no news: each would tell of its own making.
KIND = "webhook"


def entries(new: Sequence[NewEntry]) -> None:
    """Tell webhooks of entries that are events."""
    for entry in new:
        event = event_of(entry.action)
        if event is not None and entry.domain_name:
            tell(entry.domain_name, event, _object(entry))


def applied(book: Journal) -> None:
    """Tell webhooks of the change sets that a change was."""
    for domain, number in sorted(book.change_sets.items()):
        kinds = {item.kind for item in book.items if item.domain == domain} - {KIND}
        if domain and kinds:
            what = {"kinds": sorted(kinds), "source": book.source}
            tell(domain, APPLIED, {"change_set": number, **what})


def tell(domain: str, event: str, data: dict[str, Any]) -> None:
    """Put a message into the outbox for everybody who asked for the event."""
    listening = Webhook.objects.filter(domain__name=domain, enabled=True).defer("secret")
    for webhook in listening:
        if wanted(event, webhook.events):
            payload = {
                "type": event,
                "timestamp": timezone.now().isoformat(),
                "data": {"domain": domain, **data},
            }
            enqueue(webhook, event, payload)


def enqueue(
    webhook: Webhook, event: str, payload: dict[str, Any], *, again: Delivery | None = None
) -> Delivery:
    """One more delivery; its identifier stays the same when it is sent again."""
    highest = webhook.deliveries.aggregate(number=Max("number"))["number"] or 0
    row = Delivery.objects.create(
        webhook=webhook,
        number=highest + 1,
        message_id=f"msg_{secrets.token_hex(16)}" if again is None else again.message_id,
        event=event,
        payload=payload,
        redelivers=None if again is None else again.number,
    )
    put(row)
    return row


def put(row: Delivery, wait: Any = None) -> None:
    """Have the next attempt made."""
    outbox.put(
        topic=TOPIC,
        key=f"{TOPIC}:{row.pk}:{row.attempts + 1}",
        payload={"delivery": row.pk},
        **({} if wait is None else {"wait": wait}),
    )


def _object(entry: NewEntry) -> dict[str, Any]:
    """What it is about. Names that identify a person stay inside."""
    shown: dict[str, Any] = {
        "object_type": entry.object_type,
        "object_id": str(entry.object_id),
        "change_set": journal.change_set(entry.domain_name),
    }
    if not entry.person:
        shown["object_name"] = entry.object_name
    return shown
