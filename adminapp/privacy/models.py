"""Which parts of an event travel over which overlay."""

from __future__ import annotations

from django.db import models

from adminapp.catalog.models import EventType
from adminapp.core.models import Versioned
from adminapp.identity.querysets import DomainScopedQuerySet


class SplitPlanQuerySet(DomainScopedQuerySet):
    domain_path = "event_type__domain"


class SplitPlan(Versioned):
    """Groups of an event type's attributes, one overlay each: `[{"overlay", "attributes"}]`.

    An attribute in no group travels with the first.
    """

    event_type = models.OneToOneField(
        EventType, on_delete=models.CASCADE, related_name="split_plan"
    )
    groups = models.JSONField(default=list)
    active = models.BooleanField(default=True)

    objects = SplitPlanQuerySet.as_manager()

    class Meta:
        ordering = ["event_type_id"]

    def __str__(self) -> str:
        return f"split of {self.event_type}"
