"""What a revocation did, for its receipt: from the rows, and about agents from what they signed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from adminapp.distribution import losses, scopes
from adminapp.distribution.models import Notice, Revocation, Rollout, RolloutMember


def receipt_body(revocation: Revocation, completed: str) -> dict[str, Any]:
    """Who and what, T0, when each agent enforced it, what was replaced, what was not reached."""
    rollout = revocation.rollout
    notices = revocation.notices.select_related("domain").order_by("audience", "domain_id")
    agents = [_agent_entry(revocation, notice) for notice in notices]
    members = [] if rollout is None else [_member_entry(member) for member in rollout.members.all()]
    silent = {entry["agent"] for entry in agents if entry["acknowledged"] is None}
    skipped = {entry["agent"] for entry in members if entry["skipped_in"]}
    return {
        "revocation": revocation.uid,
        "kind": revocation.kind,
        "what": revocation.what,
        "subject": revocation.subject,
        "domain": revocation.domain.name,
        "principal": _principal(revocation),
        "actor": revocation.actor.get_username() if revocation.actor else "system",
        "reason": revocation.reason,
        "t0": revocation.created.isoformat(),
        "lease_seconds": revocation.domain.lease_seconds,
        "enforced_by": enforced_by(revocation).isoformat(),
        "revision": revocation.revision,
        "notices": agents,
        "epochs": {"from": revocation.epoch_from, "to": revocation.epoch_to},
        "blind_epochs": _blind_epochs(rollout),
        "keys_replaced": _keys(rollout),
        "switches": members,
        "encodings_replaced": _encodings(revocation),
        "unreachable": sorted(silent | skipped),
        "completed": completed,
    }


def _principal(revocation: Revocation) -> dict[str, str] | None:
    held = revocation.principal
    return None if held is None else {"name": held.name, "handle": held.handle}


def enforced_by(revocation: Revocation) -> datetime:
    """From this moment no honest agent can deliver what was revoked, whatever the network did.

    Every agent that was told has said so by then, or the last lease that it was given before T0
    has ended, and no lease since then was signed that did not demand the notice.
    """
    # The party itself may be an agent: that one's last lease ends in any case.
    limits = [_stopped(notice) for notice in revocation.notices.all()]
    moments = [moment for moment in limits if moment is not None]
    if own := revocation.before.get("own_lease"):
        moments.append(datetime.fromisoformat(own))
    return max(moments, default=revocation.created)


def _stopped(notice: Notice) -> datetime | None:
    """When its agent was bound at the latest: as it said itself, or before by its lease's end."""
    ends = [notice.deadline]
    if notice.state == Notice.State.APPLIED:
        ends.append(notice.acknowledged_at)
    return min((moment for moment in ends if moment is not None), default=None)


def _encodings(revocation: Revocation) -> int:
    rollout = revocation.rollout
    job = scopes.job_of(rollout) if rollout is not None else None
    kept = revocation.before.get("encodings", [])
    own = len(kept) - losses.left(kept)
    return own if job is None else max(own, int(job.rows_total + job.rows_removed))


def _keys(rollout: Rollout | None) -> list[str]:
    """Keys of trust groups that have a new epoch, as `group epoch`."""
    if rollout is None:
        return []
    return sorted(f"{key.group_ref} {key.number}" for key in rollout.key_epochs.all())


def _blind_epochs(rollout: Rollout | None) -> dict[str, int | None]:
    """The keys of hidden attributes that were replaced; none where the party held none."""
    before = rollout.blind_from if rollout else None
    after = rollout.blind_to if rollout else None
    return {
        "from": before.number if before else None,
        "to": after.number if after else None,
    }


def _agent_entry(revocation: Revocation, notice: Notice) -> dict[str, Any]:
    at = notice.acknowledged_at if notice.state == Notice.State.APPLIED else None
    return {
        "agent": notice.audience.partition(":")[2],
        "domain": notice.domain.name,
        "number": notice.number,
        "acknowledged": at.isoformat() if at else None,
        "seconds_after_t0": round((at - revocation.created).total_seconds(), 3) if at else None,
        "lease_ended": notice.deadline.isoformat() if notice.deadline else None,
    }


def _member_entry(member: RolloutMember) -> dict[str, Any]:
    return {
        "agent": member.audience.partition(":")[2],
        "switched": member.switched_at.isoformat() if member.switched_at else None,
        "skipped_in": member.skipped_in,
    }
