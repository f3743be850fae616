"""What `env.*` is for a domain: what the clock says, and the variables that people declared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from adminapp.core import clock
from adminapp.identity.lineage import Inherited, inherited, lineage
from adminapp.identity.models import Domain
from adminapp.policies.language import ENVIRONMENT
from adminapp.policies.models import EnvironmentVariable
from policyengine.attributes import AttributeType, Literal, Schema, Value

ZONE = "timezone"
"""The variable that names the zone of a domain's wall clock."""


@dataclass(frozen=True)
class Environment:
    """The environment of a domain.

    Args:
        schema: types of `env.*`.
        set: values of the variables that are set, by full name.
        zone: where the wall clock hangs.
    """

    schema: Schema
    set: dict[str, Value]
    zone: ZoneInfo

    def at(self, moment: datetime) -> dict[str, Value]:
        """Every value at a moment: the variables as they are now, and what the clock says then."""
        return {**clock.facts(moment, self.zone), **self.set}

    def next_change(self, literals: Iterable[Literal], after: datetime) -> datetime | None:
        """When the clock first answers one of these tests otherwise than at `after`."""
        return clock.next_change(literals, after, self.zone)


def variables(user: Any, domain: Domain | None = None) -> QuerySet[EnvironmentVariable]:
    found = EnvironmentVariable.objects.visible_to(user).select_related("domain")
    return found if domain is None else found.filter(domain=domain)


def effective_environment(domain: Domain) -> list[Inherited[EnvironmentVariable]]:
    """The domain's variables and those of the domains above it, in order of names."""
    line = lineage(domain)
    rows = EnvironmentVariable.objects.filter(domain__in=line).select_related("domain")
    return list(inherited(rows, line).values())


def environment(domain: Domain) -> Environment:
    """What policies and roles of a domain may name as `env.*`, in one query and its lineage."""
    rows = [each.row for each in effective_environment(domain)]
    zone = next((row.value for row in rows if row.name == ZONE and row.value), settings.TIME_ZONE)
    return Environment(
        schema={
            **clock.FACTS,
            **{f"{ENVIRONMENT}{row.name}": AttributeType.from_json(row.type) for row in rows},
        },
        set={f"{ENVIRONMENT}{row.name}": row.value for row in rows if row.value is not None},
        zone=ZoneInfo(zone),
    )


def values_at(domain: Domain, at: datetime | None = None) -> dict[str, Value]:
    """What the environment of a domain says at a moment (now by default)."""
    return environment(domain).at(at or timezone.now())
