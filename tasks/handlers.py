"""What is done for a row of the outbox: fetch, call a service, send. No rules here.

Every handler may run twice, and in two processes at once, without harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.utils import timezone

from adminapp.core.authority import AuthorityUnavailable
from adminapp.distribution import services
from adminapp.identity import selectors
from adminapp.identity import services as identity
from adminapp.outbox import relay
from adminapp.outbox import services as outbox
from adminapp.outbox.models import OutboxRow
from adminapp.webhooks import services as webhooks
from brokers.ports import Outgoing, TransportError
from tasks import activity, recompute
from tasks.transport import URGENT_HEADERS, Sender, shared_sender

log = logging.getLogger("portcullis.work")

_TOGETHER = {"rebuild": 50, "push": 20}
"""Topics whose rows are dealt with together, and how many of them at most."""

SenderFactory = Callable[[], Sender]
Beat = Callable[[], None]


def work(key: str, *, sender: SenderFactory = shared_sender) -> bool:
    """Claim the row of this key and do what it asks; False when there was nothing to claim."""
    row = outbox.claim_key(key=key)
    if row is None:
        return False
    rows = [row, *_alike(row)]
    payload = _together(rows) if row.topic in _TOGETHER else row.payload
    keys = [each.key for each in rows]
    try:
        handle(row.topic, payload, sender=sender, beat=lambda: relay.touch(*keys))
    except (TransportError, AuthorityUnavailable) as error:
        log.warning("work on a row of topic %s waits: %s", row.topic, type(error).__name__)
        for each in rows:
            outbox.postpone(row=each, error=f"{type(error).__name__}: {error}")
        return True
    except Exception as error:
        # Whatever broke, the row must not stay claimed: it is tried again later and later.
        log.exception("work on a row of topic %s failed", row.topic)
        for each in rows:
            outbox.retry(row=each, error=f"{type(error).__name__}: {error}")
        return True
    outbox.done(rows=rows)
    return True


def _alike(row: OutboxRow) -> list[OutboxRow]:
    """Other bundles that are to be sent too: the broker's receipts are waited for once. Or others
    of the same domain that are to be made again: to read a domain takes longer than to make one.

    What failed is tried alone: it may be one of them that cannot be sent or made.
    """
    if row.topic not in _TOGETHER or row.attempts > 1:
        return []
    prefix = f"{row.topic}:"
    if row.topic == "rebuild":
        _, domain, *others = row.key.split(":")
        if len(others) < 2:
            return []  # written by the release before, without the domain
        prefix = f"rebuild:{domain}:"
    most = _TOGETHER[row.topic] - 1
    return outbox.claim(topics=[row.topic], prefix=prefix, untried=True, limit=most)


def _together(rows: Iterable[OutboxRow]) -> dict[str, Any]:
    return {"bundles": [row.payload["bundle"] for row in rows]}


def handle(topic: str, payload: Mapping[str, Any], *, sender: SenderFactory, beat: Beat) -> None:
    """Do what a row of this topic asks for; raises LookupError for an unknown topic."""
    if topic not in _HANDLERS:
        raise LookupError(f"no handler for topic `{topic}`")
    _HANDLERS[topic](payload, sender, beat)


def _compile(payload: Mapping[str, Any], _sender: SenderFactory, beat: Beat) -> None:
    services.compile_domain(payload["domain"], beat=beat)


def _rebuild(payload: Mapping[str, Any], _sender: SenderFactory, beat: Beat) -> None:
    services.rebuild(payload["bundles"], beat=beat)


def _push(payload: Mapping[str, Any], sender: SenderFactory, beat: Beat) -> None:
    for bundles in services.unsent_bundles(payload["bundles"]):
        parcels = services.bundle_parcels(bundles)
        sender().send_many([Outgoing(each.queue, each.body) for each in parcels])
        services.bundles_sent(bundles)
        beat()


def _notice(payload: Mapping[str, Any], sender: SenderFactory, beat: Beat) -> None:
    if "notice" in payload:
        # Written by the release before: a row for each notice.
        _send_notices([payload["notice"]], sender)
        return
    for notices in services.unsent_notices(payload["revocation"]):
        _send_notices(notices, sender)
        beat()


def _send_notices(notices: Sequence[int], sender: SenderFactory) -> None:
    parcels = services.notice_parcels(notices)
    if parcels:
        urgent, began = dict(URGENT_HEADERS), timezone.now()
        sender().send_many([Outgoing(each.queue, each.body, headers=urgent) for each in parcels])
        services.notices_sent(notices, at=began)


def _filter_key(payload: Mapping[str, Any], sender: SenderFactory, _beat: Beat) -> None:
    parcel = services.filter_answer(payload)
    if parcel is not None:
        sender().send(parcel.queue, parcel.body)


def _advance(payload: Mapping[str, Any], _sender: SenderFactory, _beat: Beat) -> None:
    services.advance_domain(payload["domain"])


def _recompute(payload: Mapping[str, Any], _sender: SenderFactory, beat: Beat) -> None:
    recompute.run(payload["job"], beat=beat)


def _activity(payload: Mapping[str, Any], _sender: SenderFactory, beat: Beat) -> None:
    activity.run(payload["run"], beat=beat)


def _import(payload: Mapping[str, Any], _sender: SenderFactory, beat: Beat) -> None:
    job = selectors.import_of(payload["import"])
    if job is not None:
        identity.run_import(actor=None, job=job, beat=lambda _job: beat())


def _webhook(payload: Mapping[str, Any], _sender: SenderFactory, _beat: Beat) -> None:
    webhooks.deliver(payload["delivery"])


_HANDLERS: Mapping[str, Callable[[Mapping[str, Any], SenderFactory, Beat], None]] = {
    "compile": _compile,
    "rebuild": _rebuild,
    "push": _push,
    "notice": _notice,
    "filter-key": _filter_key,
    "advance": _advance,
    "recompute": _recompute,
    "activity": _activity,
    "import": _import,
    "webhook": _webhook,
}
