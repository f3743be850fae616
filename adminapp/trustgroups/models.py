"""Which agents hold which keys, and the epochs that keys go through."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.utils import timezone

from adminapp.catalog.models import AttributeKey
from adminapp.core import names
from adminapp.core.models import Versioned
from adminapp.identity.models import Agent, Domain, Overlay
from adminapp.identity.querysets import DomainScopedQuerySet


class TrustGroup(Versioned):
    """Agents that are trusted with attribute keys, or with an overlay's hop key."""

    class Kind(models.TextChoices):
        ATTRIBUTE = "attribute"
        OVERLAY = "overlay"

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="trust_groups")
    name = models.CharField(max_length=64, validators=[names.slug])
    kind = models.CharField(max_length=16, choices=Kind, default=Kind.ATTRIBUTE)
    overlay = models.ForeignKey(
        Overlay, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    members = models.ManyToManyField(Agent, blank=True, related_name="trust_groups")
    keys = models.ManyToManyField(AttributeKey, blank=True, related_name="trust_groups")

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["domain", "name"], name="trust_group_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class PeriodQuerySet(DomainScopedQuerySet):
    def open(self) -> Self:
        """Those that have not ended."""
        return self.filter(until__isnull=True)


class Period(models.Model):
    """From when to when something held of an agent, and why it began and ended."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")
    since = models.DateTimeField(default=timezone.now)
    until = models.DateTimeField(null=True, blank=True)
    why = models.CharField(max_length=200)
    ended_why = models.CharField(max_length=200, blank=True)

    objects = PeriodQuerySet.as_manager()

    class Meta:
        abstract = True


class MembershipPeriod(Period):
    """An agent was a member of a trust group; kept when the group is gone."""

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="+")
    group = models.ForeignKey(
        TrustGroup, null=True, blank=True, on_delete=models.SET_NULL, related_name="periods"
    )
    group_name = models.CharField(max_length=64)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["group", "agent"],
                condition=models.Q(until__isnull=True),
                name="one_open_membership_of_a_group",
            ),
            models.CheckConstraint(
                condition=models.Q(until__isnull=True) | models.Q(until__gte=models.F("since")),
                name="membership_ends_after_it_began",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent} in {self.group_name}"


class HoldingPeriod(Period):
    """An agent was trusted with a key, by whichever groups."""

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="+")
    group_ref = models.CharField(max_length=80)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["domain", "group_ref", "agent"],
                condition=models.Q(until__isnull=True),
                name="one_open_holding_of_a_key",
            ),
            models.CheckConstraint(
                condition=models.Q(until__isnull=True) | models.Q(until__gte=models.F("since")),
                name="holding_ends_after_it_began",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent} with {self.group_ref}"


class KeyEpoch(Versioned):
    """One generation of a key. `wrapped` opens only inside the trusted authority."""

    class State(models.TextChoices):
        STAGED = "staged"
        CURRENT = "current"
        DRAINING = "draining"
        RETIRED = "retired"

    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, related_name="key_epochs")
    group_ref = models.CharField(max_length=80)
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=State, default=State.CURRENT)
    wrapped = models.TextField()
    reason = models.CharField(max_length=200, blank=True)
    created = models.DateTimeField(default=timezone.now, editable=False)
    current_at = models.DateTimeField(null=True, blank=True, editable=False)
    draining_at = models.DateTimeField(null=True, blank=True, editable=False)
    retired_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = DomainScopedQuerySet.as_manager()

    class Meta:
        ordering = ["domain_id", "group_ref", "number"]
        constraints = [
            models.UniqueConstraint(
                fields=["domain", "group_ref", "number"], name="key_epoch_number_once"
            ),
            models.UniqueConstraint(
                fields=["domain", "group_ref"],
                condition=models.Q(state="current"),
                name="one_current_key_epoch",
            ),
            models.CheckConstraint(
                condition=~models.Q(state="retired") | models.Q(retired_at__isnull=False),
                name="key_epoch_retired_at_a_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.group_ref} epoch {self.number}"

    @property
    def key_id(self) -> str:
        """The name under which the authority made this key."""
        kind, name = self.group_ref.split(":", 1)
        return f"{kind}:{self.domain.name}:{name}:{self.number}"
