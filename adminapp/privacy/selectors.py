"""Reads of classifications and splits."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from adminapp.catalog.models import Attribute
from adminapp.catalog.selectors import attributes
from adminapp.identity.models import Domain
from adminapp.privacy.models import SplitPlan


def split_plans(user: Any, domain: Domain | None = None) -> QuerySet[SplitPlan]:
    found = SplitPlan.objects.visible_to(user).select_related("event_type__domain")
    return found if domain is None else found.filter(event_type__domain=domain)


def classifications(user: Any, domain: Domain | None = None) -> QuerySet[Attribute]:
    """Every attribute with its class."""
    found = attributes(user)
    return found if domain is None else found.filter(event_type__domain=domain)


def active_splits(domain: Domain) -> dict[str, list[dict[str, Any]]]:
    """The groups in force, by event type."""
    rows = SplitPlan.objects.filter(event_type__domain=domain, active=True)
    return {row.event_type.name: row.groups for row in rows.select_related("event_type")}
