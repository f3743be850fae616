"""Changes of delegations: a part of a domain in a colleague's hands, until a date."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid, Problem
from adminapp.identity import mapping, permissions, ports
from adminapp.identity.models import Delegation, Domain, User
from adminapp.identity.recording import record_row
from policyengine.attributes import unknown

MAX_DELEGATION = timedelta(days=366)
MAX_NAMES = 1000
_WORDS = {"roles": "role", "event_types": "event type"}


@audit.change
def delegate(
    *,
    actor: User | None,
    user: User,
    domain: Domain,
    ends: datetime,
    roles: Iterable[str] = (),
    event_types: Iterable[str] = (),
) -> Delegation:
    """Let a colleague change some roles and event types (sub-types with them) until `ends`.

    It holds at once and lapses by itself. Only managers delegate: what was delegated cannot be
    passed on.
    """
    permissions.require_manager(actor, domain)
    if not user.is_active:
        raise Invalid.at("/user", f"`{user.username}` can no longer sign in")
    now = timezone.now()
    _check_end(ends, now)
    listed = {"roles": sorted(set(roles)), "event_types": sorted(set(event_types))}
    _check_names(domain, listed)
    row = versions.create(
        Delegation(user=user, domain=domain, begins=now, ends=ends, granted_by=actor, **listed)
    )
    after = mapping.delegation(row)
    record_row(actor, domain, "delegation.given", row, after=after, affects_agents=False)
    return row


@audit.change
def end_delegation(
    *, actor: User | None, delegation: Delegation, expected_version: int | None = None
) -> Delegation:
    """Take the part back now; the row stays as a record."""
    permissions.require_manager(actor, delegation.domain)
    row = versions.locked(delegation, expected_version)
    now = timezone.now()
    if row.ends <= now:
        raise InUse("this delegation has ended already")
    before = mapping.delegation(row)
    row.ends = max(now, row.begins)
    versions.save(row)
    after = mapping.delegation(row)
    record_row(
        actor,
        row.domain,
        "delegation.ended",
        row,
        before=before,
        after=after,
        affects_agents=False,
        revokes=True,
    )
    return row


def _check_end(ends: datetime, now: datetime) -> None:
    if ends <= now:
        raise Invalid.at("/ends", "a delegation ends in the future")
    if ends > now + MAX_DELEGATION:
        raise Invalid.at("/ends", f"a delegation lasts at most {MAX_DELEGATION.days} days")


def _check_names(domain: Domain, listed: dict[str, list[str]]) -> None:
    if not any(listed.values()):
        raise Invalid.at("", "name at least one role or event type")
    problems = []
    for part, names in listed.items():
        if len(names) > MAX_NAMES:
            raise Invalid.at(f"/{part}", f"a delegation names at most {MAX_NAMES}")
        known = ports.delegable(domain, part)
        problems += [
            Problem.from_input_error(unknown(_WORDS[part], name, known), f"/{part}")
            for name in names
            if name not in known
        ]
    if problems:
        raise Invalid(problems)
