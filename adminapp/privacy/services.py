"""Classifies attributes and decides which parts of an event travel where."""

from __future__ import annotations

from typing import Any

from adminapp.audit import services as audit
from adminapp.catalog.models import EventType
from adminapp.core import versions
from adminapp.core.errors import Invalid
from adminapp.identity import permissions
from adminapp.identity.models import User
from adminapp.identity.services import record_row
from adminapp.privacy import checks, mapping
from adminapp.privacy.classes import Class, classify_attribute, classify_attributes
from adminapp.privacy.models import SplitPlan

__all__ = ["Class", "classify_attribute", "classify_attributes", "remove_split", "set_split"]


@audit.change
def set_split(
    *,
    actor: User | None,
    event_type: EventType,
    groups: list[dict[str, Any]],
    active: bool = True,
    expected_version: int | None = None,
) -> SplitPlan:
    """Make `groups` (`[{"overlay", "attributes"}]`) the split of an event type.

    Raises:
        Invalid: an attribute that tells something is in no group, or one is in two, or an
            overlay cannot carry its part.
    """
    domain = event_type.domain
    permissions.require_manager(actor, domain)
    problems = checks.split_problems(event_type, groups)
    if problems:
        raise Invalid(problems)
    row = SplitPlan.objects.filter(event_type=event_type).first()
    if row is None:
        row = versions.create(SplitPlan(event_type=event_type, groups=groups, active=active))
        before = None
    else:
        row = versions.locked(row, expected_version)
        before = mapping.split_plan(row)
        row.groups, row.active = groups, active
        versions.save(row)
    after = mapping.split_plan(row)
    key = event_type.name
    record_row(actor, domain, "split.set", row, key=key, before=before, after=after)
    return row


@audit.change
def remove_split(
    *, actor: User | None, split_plan: SplitPlan, expected_version: int | None = None
) -> None:
    """Events of the type travel whole again."""
    domain = split_plan.event_type.domain
    permissions.require_manager(actor, domain)
    row = versions.locked(split_plan, expected_version)
    before, pk = mapping.split_plan(row), row.pk
    row.delete()
    row.pk = pk
    key = row.event_type.name
    record_row(actor, domain, "split.removed", row, key=key, before=before)
