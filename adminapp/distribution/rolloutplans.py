"""Who may have policies rolled out by stages, go on after a stop, and go back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import QuerySet

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import Conflict, Invalid
from adminapp.distribution import blindepochs, stages
from adminapp.distribution.definitions import definitions
from adminapp.distribution.models import PolicyRollout, RolloutPlan
from adminapp.identity import kinds, permissions
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.models import Agent, Domain, User
from adminapp.identity.services import record_row
from adminapp.policies.selectors import effective_rows

State = PolicyRollout.State
PLAN = "rollouts"  # the one key of the one object of its kind
MAX_STAGES = 8
MAX_WAIT = 7 * 86_400
_STAGE = {"agents": list, "share": int, "wait_seconds": int}


def document(row: RolloutPlan) -> dict[str, Any]:
    """A plan as files and the audit have it."""
    return {
        "enabled": row.enabled,
        "stages": row.stages,
        "silence_seconds": row.silence_seconds,
    }


def plans(user: Any) -> QuerySet[RolloutPlan]:
    """Plans that `user` may see."""
    return RolloutPlan.objects.visible_to(user).select_related("domain")


def rollouts(user: Any = None) -> QuerySet[PolicyRollout]:
    """Policies on their way, the newest first (None: all)."""
    found = PolicyRollout.objects.select_related("domain", "actor").defer("content")
    return found if user is None else found.visible_to(user)


@audit.change
def set_plan(
    *,
    actor: User | None,
    domain: Domain,
    enabled: bool = True,
    stages: Iterable[Mapping[str, Any]] = (),
    silence_seconds: int = 60,
    expected_version: int | None = None,
) -> RolloutPlan:
    """Have changed policies of a domain go to some agents first, or to all at once again.

    Args:
        stages: names of agents (`agents`), a share of all in percent (`share`) that they are
            filled up to, and seconds to wait once they applied (`wait_seconds`). Whoever is in
            none comes last.
        silence_seconds: how long an agent may take to acknowledge before the rollout stops.

    Raises:
        Forbidden: the actor does not manage the domain.
        Invalid: a stage is none, or the domain hides attributes from its agents.
    """
    permissions.require_manager(actor, domain)
    held = RolloutPlan.objects.filter(domain=domain).first()
    row = versions.locked(held or versions.create(RolloutPlan(domain=domain)), expected_version)
    before = document(row) if held else None
    row.enabled, row.silence_seconds = enabled, silence_seconds
    row.stages = checked(stages)
    if enabled:
        _check_possible(row)
        if row.accepted is None:
            # Until now everything went everywhere at once.
            row.accepted = definitions(effective_rows(domain))
    else:
        # What agents hold when it is switched on again is not known to be this.
        row.accepted = None
        _close(domain)
    versions.save(row)
    record_row(
        actor, domain, "rollout-plan.updated", row, key=PLAN, before=before, after=document(row)
    )
    return row


def _check_possible(row: RolloutPlan) -> None:
    if not row.stages:
        raise Invalid.at("/stages", "name at least one stage", "required")
    if blindepochs.live(row.domain):
        # Their clients' keys are made for one set of policies.
        raise Invalid.at(
            "/enabled", "policies of a domain that hides attributes from agents go out at once"
        )


def checked(found: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Stages in their one form; raises Invalid where something is none."""
    listed = list(found)
    if len(listed) > MAX_STAGES:
        raise Invalid.at("/stages", f"at most {MAX_STAGES} stages", "long")
    return [_stage(stage, f"/stages/{number}") for number, stage in enumerate(listed)]


def _stage(stage: Mapping[str, Any], place: str) -> dict[str, Any]:
    if not isinstance(stage, Mapping) or not set(stage) <= set(_STAGE):
        raise Invalid.at(place, "a stage has `agents`, `share` and `wait_seconds`", "type")
    filled = {"agents": [], "share": 0, "wait_seconds": 0, **stage}
    for name, kind in _STAGE.items():
        if type(filled[name]) is not kind:
            what = "a list of names" if kind is list else "a whole number"
            raise Invalid.at(f"{place}/{name}", f"this is {what}", "type")
    names = sorted({str(name) for name in filled["agents"]})
    known = set(Agent.objects.filter(name__in=names).values_list("name", flat=True))
    for name in names:
        if name not in known:
            raise Invalid.at(f"{place}/agents", f"there is no agent `{name}`", "unknown")
    if not 0 <= filled["share"] <= 100:
        raise Invalid.at(f"{place}/share", "a share is from 0 to 100 percent", "range")
    if not 0 <= filled["wait_seconds"] <= MAX_WAIT:
        raise Invalid.at(f"{place}/wait_seconds", f"from 0 to {MAX_WAIT} seconds", "range")
    if not names and not filled["share"]:
        raise Invalid.at(place, "a stage names agents or a share of them", "required")
    return {"agents": names, "share": filled["share"], "wait_seconds": filled["wait_seconds"]}


def _close(domain: Domain) -> None:
    for row in PolicyRollout.objects.filter(domain=domain, state__in=PolicyRollout.OPEN):
        stages.supersede(row, "the plan was switched off")


@audit.change
def continue_rollout(
    *, actor: User | None, rollout: PolicyRollout, expected_version: int | None = None
) -> PolicyRollout:
    """Go on after a stop, without the agents that made it stop.

    Raises:
        Forbidden: the actor does not manage the domain.
        Conflict: it has not stopped, or was changed since.
    """
    permissions.require_manager(actor, rollout.domain)
    row = versions.locked(rollout, expected_version)
    if row.state != State.STOPPED:
        raise Conflict("this rollout has not stopped", expected=None, current=row.version)
    stages.go_on(row, actor)
    return row


@audit.change
def abort_rollout(
    *,
    actor: User | None,
    rollout: PolicyRollout,
    reason: str,
    expected_version: int | None = None,
) -> PolicyRollout:
    """Bring what was in force everywhere before to all agents, as a new revision.

    The model keeps the change: it is rolled out again as soon as policies are changed further.

    Raises:
        Forbidden: the actor does not manage the domain.
        Invalid: no reason is given.
        Conflict: it has ended, or was changed since.
    """
    permissions.require_manager(actor, rollout.domain)
    if not reason.strip():
        raise Invalid.at("/reason", "say why, for the audit")
    row = versions.locked(rollout, expected_version)
    if row.state not in PolicyRollout.OPEN:
        raise Conflict("this rollout has ended", expected=None, current=row.version)
    stages.go_back(row, actor, reason.strip())
    return row


# -- as a file -----------------------------------------------------------------------------------


def _documents(domain: Domain) -> dict[str, Document]:
    row = _find(domain, PLAN)
    return {} if row is None else {PLAN: document(row)}


def _find(domain: Domain, _key: str) -> RolloutPlan | None:
    return RolloutPlan.objects.filter(domain=domain, enabled=True).first()


def _set(actor: User | None, domain: Domain, said: Document) -> RolloutPlan:
    return set_plan(actor=actor, domain=domain, **said)


ROLLOUT_PLAN = Kind(
    name="rollout-plan",
    rank=90,
    documents=_documents,
    find=_find,
    create=lambda actor, domain, _key, said: _set(actor, domain, said),
    update=lambda actor, row, said: _set(actor, row.domain, said),
    delete=lambda actor, row: set_plan(actor=actor, domain=row.domain, enabled=False),
    document=document,
    required=(),
    defaults={"enabled": True, "stages": [], "silence_seconds": 60},
    key=lambda _document: PLAN,
)


def register_all() -> None:
    """Make the kind of this area known."""
    kinds.register(ROLLOUT_PLAN)
