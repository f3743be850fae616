"""Policies that reach a domain's agents stage by stage, where its managers want that."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from adminapp.core.models import Versioned
from adminapp.identity.models import Domain
from adminapp.identity.querysets import DomainScopedQuerySet


class RolloutPlan(Versioned):
    """How changed policies of a domain reach its agents; without one all get them at once.

    `stages` are lists of agents' names and shares of the agents (percent), each with the seconds
    to wait once all of the stage applied; whoever is in none comes last. `accepted` is what the
    policies said that went everywhere last.
    """

    domain = models.OneToOneField(Domain, on_delete=models.CASCADE, related_name="rollout_plan")
    enabled = models.BooleanField(default=False)
    stages = models.JSONField(default=list, blank=True)
    silence_seconds = models.PositiveIntegerField(
        default=60, validators=[MinValueValidator(10), MaxValueValidator(86_400)]
    )
    accepted = models.JSONField(null=True, blank=True, editable=False)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id"]

    def __str__(self) -> str:
        return f"plan of {self.domain}"


class PolicyRollout(Versioned):
    """One change of policies on its way through the stages.

    `stages` are fixed when it begins: names of agents, and seconds to wait. `content` is what the
    policies say. `skipped` are agents that nobody waits for: they had no lease when their stage
    began, or somebody went on without them.
    """

    class State(models.TextChoices):
        RUNNING = "running"
        STOPPED = "stopped"
        COMPLETE = "complete"
        ABORTED = "aborted"
        SUPERSEDED = "superseded"

    OPEN = (State.RUNNING, State.STOPPED)

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="policy_rollouts")
    state = models.CharField(max_length=16, choices=State, default=State.RUNNING)
    revision = models.PositiveBigIntegerField()
    content = models.JSONField()
    stages = models.JSONField()
    silence_seconds = models.PositiveIntegerField(default=60)
    stage = models.PositiveIntegerField(default=0)
    stage_revision = models.PositiveBigIntegerField()
    stage_started = models.DateTimeField(default=timezone.now)
    stage_applied = models.DateTimeField(null=True, blank=True)
    skipped = models.JSONField(default=list)
    reason = models.CharField(max_length=200, blank=True)
    created = models.DateTimeField(default=timezone.now, editable=False)
    ended = models.DateTimeField(null=True, blank=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["domain"],
                condition=Q(state__in=["running", "stopped"]),
                name="one_open_policy_rollout",
            )
        ]

    def __str__(self) -> str:
        return f"rollout of revision {self.revision}"

    @property
    def opened(self) -> frozenset[str]:
        """Names of the agents whose stage is in force."""
        begun = self.stages[: self.stage + 1]
        return frozenset(name for stage in begun for name in stage["agents"])
