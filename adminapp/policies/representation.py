"""Changes of who acts for a principal."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid
from adminapp.identity import permissions
from adminapp.identity.models import Membership, Principal, User
from adminapp.identity.recording import record_row
from adminapp.policies import mapping
from adminapp.policies.models import Representative


@audit.change
def represent(
    *, actor: User | None, user: User, principal: Principal, ends: datetime | None = None
) -> Representative:
    """Let a person act for a principal, for good or until `ends`, as far as policies go."""
    domain = principal.domain
    permissions.require_manager(actor, domain)
    now = timezone.now()
    if not user.is_active:
        raise Invalid.at("/user", f"`{user.username}` can no longer sign in")
    living = Principal.objects.filter(pk=principal.pk, state=Principal.State.ACTIVE)
    if not living.exists():
        raise Invalid.at("/principal", f"`{principal.name}` was revoked")
    if Membership.objects.filter(user=user, domain=domain, role="auditor").exists():
        raise Invalid.at("/user", f"`{user.username}` audits the domain, and only reads")
    if ends is not None and ends <= now:
        raise Invalid.at("/ends", "the end must be in the future")
    row = versions.create(
        Representative(user=user, principal=principal, begins=now, ends=ends, given_by=actor)
    )
    after = mapping.representative(row)
    record_row(actor, domain, "representative.given", row, after=after, affects_agents=False)
    return row


@audit.change
def end_representation(
    *, actor: User | None, representative: Representative, expected_version: int | None = None
) -> Representative:
    """Let the person act no longer; the row stays as a record."""
    domain = representative.principal.domain
    permissions.require_manager(actor, domain)
    row = versions.locked(representative, expected_version)
    now = timezone.now()
    if row.ends is not None and row.ends <= now:
        raise InUse("this has ended already")
    before = mapping.representative(row)
    row.ends = max(now, row.begins)
    versions.save(row)
    record_row(
        actor,
        domain,
        "representative.ended",
        row,
        before=before,
        after=mapping.representative(row),
        affects_agents=False,
        revokes=True,
    )
    return row
