"""Celery tasks: rows of the outbox by key, and what the clock asks for."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from celery.signals import worker_process_shutdown

from adminapp.audit.answers import take_answers
from adminapp.audit.checkpoints import CheckpointRefused, make_checkpoint
from adminapp.changes import services as changes
from adminapp.core.authority import AuthorityError
from adminapp.distribution import activity as counting
from adminapp.distribution import metrics, services
from adminapp.enrolment import services as enrolment
from adminapp.identity import services as identity
from adminapp.outbox import services as outbox
from adminapp.webhooks import services as webhooks
from tasks import handlers, transport
from tasks.celery import NORMAL, SLOW, URGENT, app

log = logging.getLogger("portcullis.work")

# Only a recompute takes longer, and it says every few seconds that it is alive.
STALE_CLAIM = timedelta(seconds=30)

QUEUES = {
    "notice": URGENT,
    "advance": URGENT,
    "recompute": SLOW,
    "webhook": SLOW,
    "import": SLOW,
    "activity": SLOW,
}

FIRST = frozenset(topic for topic, queue in QUEUES.items() if queue == URGENT)
"""Topics that never wait behind others, however much there is to do."""


def queue_for(topic: str) -> str:
    """The Celery queue for rows of a topic."""
    return QUEUES.get(topic, NORMAL)


@app.task(name="portcullis.work")
def work(key: str) -> bool:
    """Do what the outbox row of this key asks for."""
    return handlers.work(key)


@app.task(name="portcullis.sweep")
def sweep() -> int:
    """Give rows back whose worker has vanished, and show that the schedule is carried out."""
    metrics.beat()
    return outbox.sweep(older_than=STALE_CLAIM)


@app.task(name="portcullis.reconcile")
def reconcile() -> dict[str, int]:
    """Bring what agents hold and what they should hold together."""
    return services.reconcile()


@app.task(name="portcullis.boundaries")
def boundaries() -> int:
    """Compile where a policy or an appointment began or ended."""
    return services.apply_boundaries()


@app.task(name="portcullis.urgent")
def urgent() -> int:
    """Undo urgent grants whose time is up and that nobody has approved."""
    return changes.sweep()


@app.task(name="portcullis.due")
def due() -> int:
    """To the second: what lapsed is recorded, and compiled anew where somebody's rights changed."""
    return services.apply_due()


@app.task(name="portcullis.renew")
def renew() -> int:
    """Re-issue bundles before they expire, and renew the keys whose time is up."""
    return services.renew_expiring() + services.run_due()


@app.task(name="portcullis.activity")
def activity() -> int:
    """Have decision logs counted where that is a day ago."""
    return counting.request_daily()


@app.task(name="portcullis.prune")
def prune() -> int:
    """Forget finished rows of the outbox, replaced bundles and imports of long ago, and requests
    to take part that nobody decided.
    """
    enrolment.expire_old()
    enrolment.prune_tokens()
    return (
        outbox.prune()
        + services.prune()
        + counting.prune()
        + identity.prune_imports(actor=None)
        + webhooks.prune()
    )


@app.task(name="portcullis.checkpoint")
def checkpoint() -> bool:
    """Take what the authority answered into the audit, and have it sign what was added."""
    try:
        take_answers()
        return make_checkpoint() is not None
    except CheckpointRefused:
        log.exception("the audit cannot be signed")
    except AuthorityError as error:
        log.warning("the audit was not signed: %s", error)
    return False


@worker_process_shutdown.connect
def _close(**_: Any) -> None:
    transport.close_shared()
