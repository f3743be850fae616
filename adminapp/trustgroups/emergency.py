"""One generation of a key ends now: what is sealed under it no longer opens, anywhere."""

from __future__ import annotations

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import Conflict, Invalid
from adminapp.identity import permissions
from adminapp.identity.models import User
from adminapp.identity.services import record_row
from adminapp.trustgroups import mapping, services
from adminapp.trustgroups.models import KeyEpoch
from adminapp.trustgroups.services import KeyMaker

State = KeyEpoch.State
ENDED = "key-epoch.revoked"


@audit.change
def retire_now(
    *,
    actor: User | None,
    epoch: KeyEpoch,
    reason: str,
    expected_version: int | None = None,
    authority: KeyMaker | None = None,
) -> KeyEpoch:
    """End a generation of a key at once, without waiting for what is under way.

    One that seals is replaced by the next in the same revision. Events sealed under it that have
    not been delivered are lost; no lease is given any more that does not demand this revision.

    Raises:
        Forbidden: the actor does not manage the domain.
        Invalid: no reason is given.
        Conflict: it is retired already, or changed since.
    """
    permissions.require_manager(actor, epoch.domain)
    if not reason.strip():
        raise Invalid.at("/reason", "say why, for the audit")
    row = versions.locked(epoch, expected_version)
    if row.state == State.RETIRED:
        raise Conflict("this epoch is retired already", expected=None, current=row.version)
    before = mapping.key_epoch(row)
    if row.state == State.CURRENT:
        fresh = services.stage_epoch(
            actor=actor,
            domain=row.domain,
            group_ref=row.group_ref,
            reason=reason.strip()[:200],
            authority=authority,
        )
        services.switch_epoch(actor=actor, epoch=fresh)
        row = versions.locked(row, None)
    row.state, row.retired_at = State.RETIRED, timezone.now()
    versions.save(row)
    after = mapping.key_epoch(row) | {"reason": reason.strip()}
    record_row(actor, row.domain, ENDED, row, before=before, after=after, revokes=True)
    return row
