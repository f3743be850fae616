"""Runs over all encodings of an epoch."""

from __future__ import annotations

from django.db import models

from adminapp.core.models import Versioned
from adminapp.distribution.models.epochs import EncodingEpoch
from adminapp.distribution.models.rollouts import Rollout
from adminapp.distribution.models.uids import new_uid
from adminapp.identity.models import Domain
from adminapp.identity.querysets import DomainScopedQuerySet


class RecomputeJob(Versioned):
    """A run over the encodings of a new epoch, or over some of the current one's.

    `scope` is the widest thing that is encoded anew and `targets` names everything in it;
    `staged` holds, by agent, the wrapped key and the aliases that the run's rows are made under
    until they come into force with the rows.
    """

    class State(models.TextChoices):
        PENDING = "pending"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        SUPERSEDED = "superseded"

    class Scope(models.TextChoices):
        ALL = "all"
        AGENTS = "agents"
        ATTRIBUTE = "attribute"
        SUBJECTS = "subjects"

    ENDED = (State.DONE, State.FAILED, State.SUPERSEDED)

    uid = models.CharField(max_length=32, unique=True, default=new_uid, editable=False)
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="recompute_jobs")
    epoch = models.ForeignKey(EncodingEpoch, on_delete=models.CASCADE, related_name="jobs")
    rollout = models.ForeignKey(
        Rollout, null=True, blank=True, on_delete=models.SET_NULL, related_name="recomputes"
    )
    cause = models.CharField(max_length=32)
    scope = models.CharField(max_length=16, choices=Scope, default=Scope.ALL)
    targets = models.JSONField(default=dict)
    staged = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    stages = models.JSONField(default=list)
    rows_done = models.PositiveBigIntegerField(default=0)
    rows_total = models.PositiveBigIntegerField(default=0)
    rows_removed = models.PositiveBigIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    heartbeat = models.DateTimeField(null=True, blank=True)
    started = models.DateTimeField(null=True, blank=True)
    finished = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"recompute {self.uid}"
