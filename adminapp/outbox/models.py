"""Work to be done after a change, written in the change's own transaction."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class OutboxRow(models.Model):
    """One piece of work; `key` makes it exist once."""

    class State(models.TextChoices):
        PENDING = "pending"
        CLAIMED = "claimed"
        DONE = "done"
        FAILED = "failed"

    topic = models.CharField(max_length=64)
    key = models.CharField(max_length=200, unique=True)
    payload = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    available_at = models.DateTimeField(default=timezone.now)
    claimed_at = models.DateTimeField(null=True, blank=True)
    done_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["state", "available_at"])]

    def __str__(self) -> str:
        return self.key
