"""What webhooks can hear of, and which entries of the audit that is."""

from __future__ import annotations

APPLIED = "change-set.applied"
APPROVAL = "approval.requested"
BREAK_GLASS = "break-glass"

_ACTIONS = {
    "change-set.submitted": APPROVAL,
    "change-set.broken-glass": BREAK_GLASS,
    "revocation.started": "revocation.started",
    "revocation.completed": "revocation.completed",
    "epoch.staged": "rollout.staged",
    "epoch.switched": "rollout.switched",
    "epoch.published": "rollout.published",
    "epoch.retired": "rollout.completed",
    "policy-rollout.started": "policy-rollout.started",
    "policy-rollout.stage": "policy-rollout.stage",
    "policy-rollout.stopped": "policy-rollout.stopped",
    "policy-rollout.continued": "policy-rollout.continued",
    "policy-rollout.completed": "policy-rollout.completed",
    "policy-rollout.aborted": "policy-rollout.aborted",
    "policy-rollout.superseded": "policy-rollout.superseded",
    "agreement.proposed": "agreement.proposed",
    "agreement.countered": "agreement.countered",
    "agreement.accepted": "agreement.accepted",
    "agreement.rejected": "agreement.rejected",
    "agreement.withdrawn": "agreement.withdrawn",
}

EVENTS = tuple(sorted({APPLIED, *_ACTIONS.values()}))
# `agreement.*` stands for every event of agreements, those of later versions included.
GROUPS = tuple(sorted({f"{name.partition('.')[0]}.*" for name in EVENTS if "." in name}))
CHOICES = (*EVENTS, *GROUPS)


def event_of(action: str) -> str | None:
    """The event that an action of the audit is, if webhooks can hear of it."""
    return _ACTIONS.get(action)


def wanted(event: str, subscribed: list[str]) -> bool:
    """Whether somebody who subscribed to these hears of an event."""
    return event in subscribed or f"{event.partition('.')[0]}.*" in subscribed
