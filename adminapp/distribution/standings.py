"""How far each agent of a rollout of policies is, told from what it signed."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone

from adminapp.distribution.models import PolicyRollout, Recipient
from policyengine.bundles.addresses import audience

STATES = ("held", "waiting", "applied", "rejected", "silent", "contradicts", "skipped")


@dataclass(frozen=True)
class AgentStanding:
    """One agent.

    Args:
        agent: its name.
        stage: its stage, from 0.
        state: `held` (its stage is not in force), `waiting` (it has not acknowledged), `applied`,
            `rejected`, `silent` (its lease has ended), `contradicts` or `skipped`.
        revision: the revision that it says it holds.
        reason: why it refused, else "".
    """

    agent: str
    stage: int
    state: str
    revision: int
    reason: str


def standings(row: PolicyRollout) -> list[AgentStanding]:
    """Every agent of the rollout in the order of the stages, in one query."""
    names = [name for stage in row.stages for name in stage["agents"]]
    rows = Recipient.objects.filter(
        domain=row.domain_id, audience__in=[audience("agent", name) for name in names]
    )
    held = {each.audience.partition(":")[2]: each for each in rows}
    return [
        _standing(row, number, name, held.get(name))
        for number, stage in enumerate(row.stages)
        for name in stage["agents"]
    ]


def _standing(row: PolicyRollout, stage: int, name: str, held: Recipient | None) -> AgentStanding:
    revision = 0 if held is None else held.revision
    state = _state(row, stage, name, held)
    reason = held.reason if held is not None and state == "rejected" else ""
    return AgentStanding(name, stage, state, revision, reason)


def _state(row: PolicyRollout, stage: int, name: str, held: Recipient | None) -> str:
    if held is not None and held.state == Recipient.State.CONTRADICTS:
        return "contradicts"
    if stage > row.stage:
        return "held"
    if held is not None and held.leased_until and held.leased_until < timezone.now():
        return "silent"
    if held is not None and held.revision >= row.stage_revision:
        return "applied"
    if held is not None and held.state == Recipient.State.REJECTED:
        return "rejected"
    return "skipped" if name in row.skipped else "waiting"
