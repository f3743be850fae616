"""Changed policies go to a few agents first: which agent is to hold which policies now.

Only what policies permit is staged. Whom they speak of, keys, epochs and whatever takes rights
away go to everybody at once, compiled for each agent with the policies that it is to hold: the
newest ones where its stage is in force, else those that went everywhere last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import timedelta
from enum import Enum
from functools import cached_property
from typing import Any

from django.db.models import Q
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.distribution import rollouts
from adminapp.distribution.blindplan import BlindPlan
from adminapp.distribution.definitions import definitions, grants_more, rows_of
from adminapp.distribution.gather import with_policies
from adminapp.distribution.models import Bundle, PolicyRollout, Recipient, RolloutPlan
from adminapp.distribution.plan import PlainDomain
from adminapp.distribution.serving import serving_agents
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_change
from adminapp.policies.selectors import effective_rows
from policyengine.bundles.addresses import audience
from policyengine.primitives.canonical import dumps
from policyengine.primitives.hashing import digest

State = PolicyRollout.State


@dataclass(frozen=True)
class Views:
    """A domain as each of its agents is to hold it.

    Args:
        newest: with the newest policies.
        accepted: with those that went everywhere last; None where there is no difference.
        opened: agents that are to hold the newest.
        waiting: whether the others get nothing as long as nothing changes for them.
        staged: whether the domain has a plan.
    """

    newest: PlainDomain
    accepted: PlainDomain | None = None
    opened: frozenset[str] = frozenset()
    waiting: bool = False
    staged: bool = False

    def of(self, agent: str) -> PlainDomain:
        """What this agent is to hold."""
        return self.newest if self.accepted is None or agent in self.opened else self.accepted

    def waits(self, agent: str) -> bool:
        """Whether its stage is not in force yet."""
        return self.waiting and agent not in self.opened

    @cached_property
    def clients(self) -> PlainDomain:
        """For clients: publishers tag for the policies of every agent, whichever it holds."""
        if self.accepted is None:
            return self.newest
        more = tuple(p for p in self.accepted.policies if p not in self.newest.policies)
        return replace(self.newest, policies=self.newest.policies + more)

    def fingerprint(self, agent: str) -> str:
        """Tells whether anything changed for an agent since it was built for last; "" where
        nobody ever waits.
        """
        if not self.staged:
            return ""
        return self._newest if self.of(agent) is self.newest else self._accepted

    @cached_property
    def _newest(self) -> str:
        return _fingerprint(self.newest)

    @cached_property
    def _accepted(self) -> str:
        return "" if self.accepted is None else _fingerprint(self.accepted)


def _fingerprint(domain: PlainDomain) -> str:
    policies = tuple(sorted(domain.policies, key=lambda each: (str(each.id), each.first)))
    return digest(dumps(_plain(replace(domain, revision=0, policies=policies))))


def _plain(value: Any) -> Any:
    """A value as JSON, the same in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        return [_plain(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, Mapping):
        return sorted([str(name), _plain(held)] for name, held in value.items())
    if isinstance(value, frozenset | set):
        return sorted((_plain(each) for each in value), key=repr)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, Enum):
        return str(value.value)
    return value.hex() if isinstance(value, bytes | float) else value


def views(domain: Domain, plain: PlainDomain) -> Views:
    """What every agent of the domain is to hold, as things stand."""
    plan = RolloutPlan.objects.filter(domain=domain, enabled=True).first()
    last = PolicyRollout.objects.filter(domain=domain).first()
    if plan is None or plan.accepted is None or last is None or BlindPlan(plain).any:
        return Views(plain, staged=plan is not None)
    if last.state not in (*PolicyRollout.OPEN, State.ABORTED):
        return Views(plain, staged=True)
    held = with_policies(domain, plain, rows_of(plan.accepted, effective_rows(domain)))
    opened = frozenset() if last.state == State.ABORTED else last.opened
    # Epochs wait for the acknowledgement of every agent, so every agent gets each of their steps.
    waiting = last.state in PolicyRollout.OPEN and rollouts.running(domain) is None
    return Views(plain, held, opened, waiting, staged=True)


def take_in(*, domain: Domain, plain: PlainDomain) -> Views:
    """Look at a revision before it is compiled; begins a rollout where it permits more.

    Whoever compiles the same revision again, or at the same time, finds what the first began.
    """
    # Asked first without a lock: most domains have no plan, and must not queue behind changes.
    if not RolloutPlan.objects.filter(domain=domain, enabled=True).exists():
        return Views(plain)
    return _take_in(domain=domain, plain=plain)


@audit.change
def _take_in(*, domain: Domain, plain: PlainDomain) -> Views:
    plan = RolloutPlan.objects.select_for_update().filter(domain=domain, enabled=True).first()
    if plan is None:
        return Views(plain)
    target = definitions(effective_rows(domain))
    last = PolicyRollout.objects.filter(domain=domain).first()
    if plan.accepted is not None:
        # What was taken away meanwhile is not there to come back without a stage.
        _accept(plan, {name: said for name, said in plan.accepted.items() if name in target})
    if plan.accepted is None or BlindPlan(plain).any or not grants_more(plan.accepted, target):
        # All of it was accepted before, or is the first, or cannot be staged.
        _accept(plan, target)
        if last is not None and last.state in PolicyRollout.OPEN:
            supersede(last, "what was new in it was taken back")
        return views(domain, plain)
    goes_on = last is not None and last.state in (*PolicyRollout.OPEN, State.ABORTED)
    if last is None or not goes_on or grants_more(last.content, target):
        if last is not None and last.state in PolicyRollout.OPEN:
            supersede(last, f"revision {plain.revision} came after it")
        _begin(domain, plan, target, plain)
    return views(domain, plain)


def _accept(plan: RolloutPlan, target: Mapping[str, Any]) -> None:
    if plan.accepted != target:
        RolloutPlan.objects.filter(pk=plan.pk).update(accepted=target)
        plan.accepted = dict(target)


def _begin(
    domain: Domain, plan: RolloutPlan, target: Mapping[str, Any], plain: PlainDomain
) -> PolicyRollout:
    row = PolicyRollout.objects.create(
        domain=domain,
        revision=plain.revision,
        stage_revision=plain.revision,
        content=target,
        stages=resolved(plan.stages, [agent.name for agent in plain.agents], domain.name),
        silence_seconds=plan.silence_seconds,
    )
    row.skipped = _absent(row)
    row.save()
    _record(row, "policy-rollout.started", None)
    return row


def resolved(
    stages: Iterable[Mapping[str, Any]], agents: Iterable[str], salt: str
) -> list[dict[str, Any]]:
    """The agents of each stage, by name; whoever is in none comes last, stages of nobody go.

    Args:
        stages: as a plan has them.
        agents: names of those that serve the domain.
        salt: shares take the same agents every time, and others in another domain.
    """
    left = sorted(agents, key=lambda name: digest(f"{salt}/{name}".encode()))
    whole = len(left)
    found = []
    for stage in stages:
        taken = [name for name in left if name in stage["agents"]]
        share = -(-whole * stage["share"] // 100)
        taken += [name for name in left if name not in taken][: max(share - len(taken), 0)]
        left = [name for name in left if name not in taken]
        if taken:
            found.append({"agents": sorted(taken), "wait_seconds": stage["wait_seconds"]})
    if left or not found:
        found.append({"agents": sorted(left), "wait_seconds": 0})
    return found


def opened_agents(domain: Domain) -> frozenset[str] | None:
    """The agents whose stage is in force while others wait; None where nobody waits."""
    row = PolicyRollout.objects.filter(domain=domain, state__in=PolicyRollout.OPEN).first()
    return None if row is None else row.opened


def open_domains() -> set[int]:
    """Domains with policies on their way."""
    rows = PolicyRollout.objects.filter(state__in=PolicyRollout.OPEN).order_by()
    return set(rows.values_list("domain_id", flat=True))


# -- going on ----------------------------------------------------------------------------------


def advance(domain: Domain) -> None:
    """Take every step that the domain's policies can take now."""
    if not PolicyRollout.objects.filter(domain=domain, state=State.RUNNING).exists():
        return
    while _step(domain=domain):
        pass


@audit.change
def _step(*, domain: Domain) -> bool:
    row = _open(domain)
    if row is None or row.state != State.RUNNING:
        return False
    said = _recipients(row)
    held = {name: each for name, each in said.items() if name not in row.skipped}
    found = _trouble(row, held)
    if found:
        return _stop(row, found)
    if row.stage_applied is None:
        if not _arrived(row, said, held):
            return False
        row.stage_applied = timezone.now()
        _save(row)
        wait = timedelta(seconds=row.stages[row.stage]["wait_seconds"])
        rollouts.request_advance(domain, wait=wait)
    ready = row.stage_applied + timedelta(seconds=row.stages[row.stage]["wait_seconds"])
    if timezone.now() < ready:
        return False
    if row.stage + 1 < len(row.stages):
        return _open_next(row)
    return _complete(row)


def _open(domain: Domain) -> PolicyRollout | None:
    rows = PolicyRollout.objects.select_for_update().filter(domain=domain)
    return rows.filter(state__in=PolicyRollout.OPEN).first()


def _recipients(row: PolicyRollout) -> dict[str, Recipient]:
    """What the agents whose stage is in force say."""
    serving = {agent.name for agent in serving_agents(row.domain)}
    names = row.opened & serving
    rows = Recipient.objects.filter(
        domain=row.domain, audience__in=[audience("agent", name) for name in names]
    )
    return {each.audience.partition(":")[2]: each for each in rows}


def _trouble(row: PolicyRollout, held: Mapping[str, Recipient]) -> str:
    """Why it must not go on, or nothing. Told from what agents signed, or did not."""
    refused = Bundle.objects.filter(
        Q(reason__gt=""),
        domain=row.domain,
        state=Bundle.State.REJECTED,
        # One of changes that is refused is made again whole, and so is the next reason below.
        form=Bundle.Form.WHOLE,
        revision__gte=row.revision,
        audience__in=[each.audience for each in held.values() if not _there(row, each)],
    ).defer("message")
    for bundle in refused.order_by("audience"):
        # It follows another bundle than the agent holds.
        if bundle.reason != "previous":
            return f"agent {bundle.audience.partition(':')[2]} refused it: {bundle.reason}"
    now = timezone.now()
    quiet = row.stage_started + timedelta(seconds=row.silence_seconds)
    for name, each in sorted(held.items()):
        if each.state == Recipient.State.CONTRADICTS:
            return f"agent {name} says that it holds what was not built for it"
        if each.leased_until is not None and each.leased_until < now:
            return f"agent {name} has gone silent"
        if not _there(row, each) and now > quiet:
            return f"agent {name} did not acknowledge it within {row.silence_seconds} s"
    return ""


def _there(row: PolicyRollout, held: Recipient) -> bool:
    return held.revision >= row.stage_revision and held.state != Recipient.State.CONTRADICTS


def _arrived(
    row: PolicyRollout, said: Mapping[str, Recipient], held: Mapping[str, Recipient]
) -> bool:
    """Whether all acknowledged; a stage at which nobody arrived has tried nothing."""
    mine = [said[name] for name in row.stages[row.stage]["agents"] if name in said]
    last = row.stage + 1 == len(row.stages)
    tried = last or any(_there(row, each) for each in mine)
    return tried and all(_there(row, each) for each in held.values())


def _absent(row: PolicyRollout) -> list[str]:
    """Agents of the stage that begins without a lease: they hold up nobody."""
    names = row.stages[row.stage]["agents"]
    alive = Recipient.objects.filter(
        domain=row.domain,
        audience__in=[audience("agent", name) for name in names],
        leased_until__gt=timezone.now(),
    )
    there = {name.partition(":")[2] for name in alive.values_list("audience", flat=True)}
    return sorted({*row.skipped, *(name for name in names if name not in there)})


def _open_next(row: PolicyRollout) -> bool:
    """The stage after: a new revision carries the policies to its agents."""
    before = {"stage": row.stage}
    row.stage += 1
    row.stage_applied = None
    row.stage_started = timezone.now()
    row.skipped = _absent(row)
    _save(row)
    row.stage_revision = _record(row, "policy-rollout.stage", before, affects_agents=True)
    _save(row)
    return True


def _complete(row: PolicyRollout) -> bool:
    now = definitions(effective_rows(row.domain))
    left = {name: said for name, said in row.content.items() if name in now}
    RolloutPlan.objects.filter(domain=row.domain).update(accepted=left)
    _end(row, State.COMPLETE, "")
    _record(row, "policy-rollout.completed", None)
    return False


def _stop(row: PolicyRollout, reason: str) -> bool:
    row.state, row.reason = State.STOPPED, reason[:200]
    _save(row)
    _record(row, "policy-rollout.stopped", None)
    return False


def go_on(row: PolicyRollout, actor: User | None) -> None:
    """Without the agents that are not there; call inside a change."""
    said = _recipients(row)
    missing = {name for name in row.opened if name not in said or not _there(row, said[name])}
    row.state, row.reason, row.actor = State.RUNNING, "", actor
    row.skipped = sorted({*row.skipped, *missing})
    row.stage_started = timezone.now()
    _save(row)
    _record(row, "policy-rollout.continued", None, actor=actor)
    rollouts.request_advance(row.domain)


def go_back(row: PolicyRollout, actor: User | None, reason: str) -> None:
    """What was accepted goes everywhere, under a new number; call inside a change."""
    row.actor = actor
    _end(row, State.ABORTED, reason[:200])
    _record(row, "policy-rollout.aborted", None, actor=actor, affects_agents=True)


def supersede(row: PolicyRollout, reason: str) -> None:
    """Something else takes its place; call inside a change."""
    _end(row, State.SUPERSEDED, reason)
    _record(row, "policy-rollout.superseded", None)


def _end(row: PolicyRollout, state: str, reason: str) -> None:
    row.state, row.ended = state, timezone.now()
    row.reason = reason or row.reason
    _save(row)


def _save(row: PolicyRollout) -> None:
    row.version += 1
    row.save()


def _record(
    row: PolicyRollout,
    action: str,
    before: Any,
    *,
    actor: User | None = None,
    affects_agents: bool = False,
) -> int:
    names = row.stages[row.stage]["agents"] if row.stage < len(row.stages) else []
    return record_change(
        actor=actor,
        domain=row.domain,
        action=action,
        object_type="policy-rollout",
        object_id=row.pk,
        object_name=str(row),
        before=before,
        after={
            "revision": row.revision,
            "stage": row.stage,
            "of": len(row.stages),
            "agents": names,
            "reason": row.reason,
        },
        affects_agents=affects_agents,
    )
