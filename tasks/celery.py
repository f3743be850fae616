"""The Celery app. Messages carry identifiers only; the outbox is the truth.

The transport is the settings' business: folders of the file system where nothing else runs, Redis
in production. With Redis a killed worker's message comes back after the visibility timeout, which
works as stated only with `unacked_restore_throttle` at 1; without it it took 92 s at 20 s.
"""

from __future__ import annotations

import os

from celery import Celery
from kombu import Exchange, Queue

from tasks import spool

spool.install()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adminapp.config.settings")

URGENT = "urgent"
NORMAL = "normal"
SLOW = "slow"

# Seconds between rounds of each schedule.
SWEEP_SECONDS = 10
RECONCILE_SECONDS = 30
BOUNDARY_SECONDS = 15
DUE_SECONDS = 1
CHECKPOINT_SECONDS = 60
HOURLY = 3600

app = Celery("portcullis")


def _queue(name: str) -> Queue:
    # With an exchange of its own: on a shared one every queue would get every message.
    return Queue(name, Exchange(name), routing_key=name)


app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    # A worker without -Q takes from all of them; notices never wait behind a compile's queue.
    task_queues=tuple(map(_queue, (URGENT, NORMAL, SLOW))),
    task_default_queue=NORMAL,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    # Nobody asks workers anything. For questions they would listen on a connection of its own to
    # Redis, and where that is reset while they are at work they wait there, and for nothing else.
    worker_enable_remote_control=False,
    beat_schedule={
        "sweep": {
            "task": "portcullis.sweep",
            "schedule": SWEEP_SECONDS,
            "options": {"expires": SWEEP_SECONDS},
        },
        "reconcile": {
            "task": "portcullis.reconcile",
            "schedule": RECONCILE_SECONDS,
            "options": {"expires": RECONCILE_SECONDS},
        },
        "boundaries": {
            "task": "portcullis.boundaries",
            "schedule": BOUNDARY_SECONDS,
            "options": {"expires": BOUNDARY_SECONDS},
        },
        "due": {
            "task": "portcullis.due",
            "schedule": DUE_SECONDS,
            "options": {"expires": DUE_SECONDS},
        },
        "urgent": {
            "task": "portcullis.urgent",
            "schedule": BOUNDARY_SECONDS,
            "options": {"expires": BOUNDARY_SECONDS},
        },
        "checkpoint": {
            "task": "portcullis.checkpoint",
            "schedule": CHECKPOINT_SECONDS,
            "options": {"expires": CHECKPOINT_SECONDS},
        },
        "renew": {
            "task": "portcullis.renew",
            "schedule": HOURLY,
            "options": {"expires": HOURLY},
        },
        "activity": {
            "task": "portcullis.activity",
            "schedule": HOURLY,
            "options": {"expires": HOURLY},
        },
        "prune": {
            "task": "portcullis.prune",
            "schedule": HOURLY,
            "options": {"expires": HOURLY},
        },
    },
)
app.autodiscover_tasks(["tasks"], related_name="jobs")
