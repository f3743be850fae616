"""Changes of webhooks, and the deliveries themselves."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import F
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import canonical, versions
from adminapp.core.errors import InUse, Invalid
from adminapp.identity import permissions
from adminapp.identity.models import Domain, User
from adminapp.identity.recording import record_row
from adminapp.webhooks import mapping, noticing, secrets, sending
from adminapp.webhooks.addresses import NotAllowed, parse
from adminapp.webhooks.events import CHOICES
from adminapp.webhooks.models import Delivery, Webhook

State = Delivery.State
FIELDS = frozenset({"name", "url", "events", "enabled"})
MAX_PER_DOMAIN = 20
# After the first attempt and each further one; after the last the delivery has failed.
PAUSES = tuple(
    timedelta(seconds=seconds) for seconds in (5, 30, 300, 1800, 7200, 18_000, 36_000, 36_000)
)
# Failed attempts in a row, over all deliveries, after which nothing is sent any more.
MAX_FAILURES = 50
KEPT_FOR = timedelta(days=30)


@audit.change
def create_webhook(
    *, actor: User | None, domain: Domain, name: str, url: str, events: Iterable[str]
) -> tuple[Webhook, str]:
    """A new webhook and its secret, which is shown this once."""
    permissions.require_manager(actor, domain)
    if domain.webhooks.count() >= MAX_PER_DOMAIN:
        raise InUse(f"a domain has at most {MAX_PER_DOMAIN} webhooks")
    secret = secrets.new()
    row = versions.create(
        Webhook(
            domain=domain,
            name=name,
            url=_url(url),
            events=_events(events),
            secret=secrets.close(secret),
            created_by=actor,
        )
    )
    _record(actor, row, "webhook.created", after=mapping.webhook(row))
    return row, secrets.shown(secret)


@audit.change
def update_webhook(
    *,
    actor: User | None,
    webhook: Webhook,
    data: Mapping[str, Any],
    expected_version: int | None = None,
) -> Webhook:
    """Change name, address or events, or switch it off or, with its failures forgotten, on."""
    permissions.require_manager(actor, webhook.domain)
    row = versions.locked(webhook, expected_version)
    before = mapping.webhook(row)
    versions.assign(row, data, FIELDS)
    row.url, row.events = _url(row.url), _events(row.events)
    if row.enabled:
        row.failures, row.disabled_at = 0, None
    versions.save(row)
    _record(actor, row, "webhook.updated", before=before, after=mapping.webhook(row))
    return row


@audit.change
def rotate_secret(
    *, actor: User | None, webhook: Webhook, expected_version: int | None = None
) -> tuple[Webhook, str]:
    """A new secret, shown this once; the old one signs nothing any more."""
    permissions.require_manager(actor, webhook.domain)
    row = versions.locked(webhook, expected_version)
    secret = secrets.new()
    row.secret = secrets.close(secret)
    versions.save(row)
    _record(actor, row, "webhook.secret-rotated")
    return row, secrets.shown(secret)


@audit.change
def delete_webhook(
    *, actor: User | None, webhook: Webhook, expected_version: int | None = None
) -> None:
    """Forget a webhook with all that was sent to it."""
    permissions.require_manager(actor, webhook.domain)
    row = versions.locked(webhook, expected_version)
    before, pk = mapping.webhook(row), row.pk
    row.delete()
    row.pk = pk
    _record(actor, row, "webhook.deleted", before=before)


@audit.change
def redeliver(*, actor: User | None, delivery: Delivery) -> Delivery:
    """Send a message once more, under the same identifier."""
    webhook = delivery.webhook
    permissions.require_manager(actor, webhook.domain)
    if not webhook.enabled:
        raise InUse("this webhook is switched off")
    if delivery.state == State.PENDING:
        raise InUse("this delivery is still under way")
    row = noticing.enqueue(webhook, delivery.event, delivery.payload, again=delivery)
    _record(actor, webhook, "webhook.redelivered", after={"number": delivery.number})
    return row


def _record(
    actor: User | None, row: Webhook, action: str, *, before: Any = None, after: Any = None
) -> None:
    record_row(actor, row.domain, action, row, before=before, after=after, affects_agents=False)


def _url(url: str) -> str:
    try:
        parse(url)
    except NotAllowed as error:
        raise Invalid.at("/url", str(error)) from error
    return url


def _events(events: Iterable[str]) -> list[str]:
    found = sorted(set(events))
    unknown = [name for name in found if name not in CHOICES]
    if unknown or not found:
        raise Invalid.at("/events", f"name at least one of {', '.join(CHOICES)}, and no other")
    return found


# -- deliveries ------------------------------------------------------------------------------


def deliver(delivery_id: int) -> bool:
    """Make one attempt; whether the delivery is done. Twice at once is harmless: the receiver
    tells by the identifier that it is one message.
    """
    row = Delivery.objects.select_related("webhook").filter(pk=delivery_id).first()
    if row is None or row.state != State.PENDING:
        return True
    if not row.webhook.enabled:
        _close(row, sending.Outcome(error="the webhook is switched off"))
        return True
    outcome = _attempt(row)
    if outcome.delivered:
        _close(row, outcome)
        Webhook.objects.filter(pk=row.webhook_id).update(failures=0)
        return True
    _failed(row, outcome)
    return row.state != State.PENDING


def _attempt(row: Delivery) -> sending.Outcome:
    secret = secrets.open_(row.webhook.secret)
    if secret is None:
        return sending.Outcome(error="the secret cannot be read any more: rotate it")
    return sending.send(
        row.webhook.url,
        secret=secret,
        message_id=row.message_id,
        timestamp=int(time.time()),
        body=canonical.dumps(row.payload).encode(),
    )


def _close(row: Delivery, outcome: sending.Outcome) -> None:
    row.state = State.DELIVERED if outcome.delivered else State.FAILED
    row.delivered = timezone.now() if outcome.delivered else None
    _note(row, outcome, wait=None)


def _failed(row: Delivery, outcome: sending.Outcome) -> None:
    Webhook.objects.filter(pk=row.webhook_id).update(failures=F("failures") + 1)
    if row.attempts < len(PAUSES):
        _note(row, outcome, wait=PAUSES[row.attempts])
    else:
        _close(row, outcome)
    _disable_if_hopeless(webhook=row.webhook)


@audit.change
def _note(row: Delivery, outcome: sending.Outcome, *, wait: timedelta | None) -> None:
    now = timezone.now()
    row.attempts += 1
    row.status, row.error = outcome.status, outcome.error[:500]
    row.last_attempt = now
    row.next_attempt = None if wait is None else now + wait
    row.save()
    if wait is not None:
        noticing.put(row, wait)


@audit.change
def _disable_if_hopeless(*, webhook: Webhook) -> None:
    row = Webhook.objects.select_for_update(of=("self",)).filter(pk=webhook.pk).first()
    if row is None or not row.enabled or row.failures < MAX_FAILURES:
        return
    before = mapping.webhook(row)
    row.enabled, row.disabled_at = False, timezone.now()
    versions.save(row)
    _record(None, row, "webhook.disabled", before=before, after=mapping.webhook(row))


def prune() -> int:
    """Forget deliveries of long ago; returns how many."""
    old = Delivery.objects.filter(created__lt=timezone.now() - KEPT_FOR)
    deleted, _by_model = old.exclude(state=State.PENDING).delete()
    return deleted
