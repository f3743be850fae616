"""The change from one set of epochs to the next, stage by stage."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from adminapp.core.models import Versioned
from adminapp.distribution.models.epochs import BlindEpoch, EncodingEpoch
from adminapp.identity.models import Domain
from adminapp.identity.querysets import DomainScopedQuerySet
from adminapp.trustgroups.models import KeyEpoch


class Rollout(Versioned):
    """The change from one set of epochs to the next, in stages that agents acknowledge."""

    class State(models.TextChoices):
        RECOMPUTING = "recomputing"
        STAGING = "staging"
        SWITCHING = "switching"
        DRAINING = "draining"
        RETIRING = "retiring"
        COMPLETE = "complete"

    ENDED = (State.COMPLETE,)

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="rollouts")
    cause = models.CharField(max_length=32)
    state = models.CharField(max_length=16, choices=State, default=State.RECOMPUTING)
    epoch_from = models.ForeignKey(
        EncodingEpoch, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    epoch_to = models.ForeignKey(
        EncodingEpoch, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    key_epochs = models.ManyToManyField(KeyEpoch, blank=True, related_name="+")
    blind_from = models.ForeignKey(
        BlindEpoch, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    blind_to = models.ForeignKey(
        BlindEpoch, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    stage_revision = models.PositiveBigIntegerField(default=0)
    stage_started = models.DateTimeField(default=timezone.now)
    # Since when the old epoch is kept for agents without a lease alone.
    kept_since = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField(default=timezone.now, editable=False)
    completed = models.DateTimeField(null=True, blank=True)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["domain"],
                condition=~models.Q(state="complete"),
                name="one_running_rollout",
            )
        ]

    def __str__(self) -> str:
        return f"rollout {self.pk} of {self.domain}"


class RolloutMember(models.Model):
    """How one audience went through a rollout, for the receipt."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="members")
    audience = models.CharField(max_length=80)
    staged_at = models.DateTimeField(null=True, blank=True)
    switched_at = models.DateTimeField(null=True, blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)
    skipped_in = models.CharField(max_length=16, blank=True)

    class Meta:
        ordering = ["audience"]
        constraints = [
            models.UniqueConstraint(fields=["rollout", "audience"], name="rollout_member_once")
        ]

    def __str__(self) -> str:
        return f"{self.audience} in {self.rollout}"
