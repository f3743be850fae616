"""What constraints may speak of: `env.hour` and its like, of a domain, at a moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from adminapp.identity import ports
from adminapp.identity.models import Domain
from policyengine.attributes import Value
from policyengine.roles.constraints import PREFIX

# How long each value of the clock stays what it is, from a whole multiple of it on.
CLOCK = {
    "env.minute": timedelta(minutes=1),
    "env.hour": timedelta(hours=1),
    "env.weekday": timedelta(days=1),
    "env.day": timedelta(days=1),
    "env.month": timedelta(days=1),
    "env.year": timedelta(days=1),
}


def environment(domain: Domain, at: datetime) -> dict[str, Value]:
    """Everything that is set for a domain at a moment, by full name."""
    return {**clock(at), **ports.environment(domain, at)}


def clock(at: datetime) -> dict[str, Value]:
    """Values of the clock, in UTC; Monday is weekday 1."""
    moment = at.astimezone(UTC)
    return {
        f"{PREFIX}minute": moment.minute,
        f"{PREFIX}hour": moment.hour,
        f"{PREFIX}weekday": moment.isoweekday(),
        f"{PREFIX}day": moment.day,
        f"{PREFIX}month": moment.month,
        f"{PREFIX}year": moment.year,
    }


def next_tick(names: frozenset[str], after: datetime) -> datetime | None:
    """When the first of some values of the clock may change; None when none is of the clock."""
    steps = [CLOCK[name] for name in names if name in CLOCK]
    if not steps:
        return None
    step = min(steps)
    moment = after.astimezone(UTC)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + step * ((moment - midnight) // step + 1)
