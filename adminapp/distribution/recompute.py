"""A run over encodings: what goes in, how far it is, what comes out.

A run over everything prepares a new epoch; one over less replaces rows of the current epoch, agent
by agent, each with its keys in one transaction (`inplace`).

The run itself (Spark, or this process for few rows) is the business of `tasks`. Rows come back
with the digest of the tokens they were made from; the compiler uses only those that still say
what is wanted now, so changes made meanwhile are encoded anew and nothing stale is published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from adminapp.distribution import encodings, epochs, inplace, rollouts, scopes, stages, timeline
from adminapp.distribution.encodings import Encoded, Item
from adminapp.distribution.gather import gather, steady
from adminapp.distribution.models import EncodingEpoch, RecomputeJob, Revocation
from adminapp.distribution.plan import PlainAgent, PlainDomain, plan_agent
from adminapp.identity.models import Agent

__all__ = [
    "AgentTask",
    "Encoded",
    "Workload",
    "alive",
    "encode_here",
    "fail",
    "finish",
    "keep",
    "marks",
    "progress",
    "take",
    "workload",
]

State = RecomputeJob.State
# A run says every few seconds that it is alive.
STALE = timedelta(seconds=30)
MAX_ATTEMPTS = 3
_CHUNK = 2000


@dataclass(frozen=True)
class AgentTask:
    """What is to be encoded for one agent."""

    id: int
    name: str
    parameters: Mapping[str, Any]
    blinding: epochs.Blinding
    items: tuple[Item, ...]

    @property
    def key(self) -> bytes:
        """The key, in the clear."""
        return self.blinding.key

    def __repr__(self) -> str:
        return f"AgentTask(name={self.name!r}, items={len(self.items)}, key=...)"


@dataclass(frozen=True)
class Workload:
    """Everything of one run."""

    job: RecomputeJob
    domain: str
    epoch: int
    agents: tuple[AgentTask, ...]

    @property
    def rows(self) -> int:
        """Conjunctions to be encoded."""
        return sum(len(agent.items) for agent in self.agents)

    @property
    def wants_spark(self) -> bool:
        """An epoch that a revocation asks for is computed by the pipeline that scales; so is
        whatever is large.
        """
        whole = self.job.scope == RecomputeJob.Scope.ALL and self.job.cause == "revocation"
        return whole or self.rows > settings.SPARK_THRESHOLD


def take(job_id: int) -> RecomputeJob | None:
    """Claim a run; None when it is finished, over, not its turn, or somebody else is at it."""
    now = timezone.now()
    free = Q(state=State.PENDING) | Q(state=State.RUNNING, heartbeat__lt=now - STALE)
    with transaction.atomic():
        job = RecomputeJob.objects.select_for_update().filter(free, pk=job_id).first()
        if job is None or not _may_begin(job):
            return None
        job.state, job.heartbeat, job.error = State.RUNNING, now, ""
        job.attempts += 1
        job.started = job.started or now
        job.save()
    return RecomputeJob.objects.select_related("domain", "epoch__domain").get(pk=job_id)


def _may_begin(job: RecomputeJob) -> bool:
    """Runs over one epoch come one after another: the next one begins where the last one ended."""
    if job.epoch.state != inplace.state_for(job):
        return False
    before = RecomputeJob.objects.filter(epoch=job.epoch_id, pk__lt=job.pk)
    return not before.exclude(state__in=RecomputeJob.ENDED).exists()


def workload(job: RecomputeJob) -> Workload:
    """What the domain needs encoded for the job, as of now."""
    plain = steady(job.domain_id, gather)
    # Each agent with the policies that it accepted: a run ships no revision before its stage.
    views = stages.views(job.domain, plain)
    epoch = job.epoch
    epochs.ensure_keys(epoch, [agent.name for agent in plain.agents], plain.overlays)
    scope = scopes.scope_of(job)
    staged = {} if scope.everything else inplace.stage(job, scope, plain.agents)
    tasks = [_task(epoch, views.of(agent.name), agent, scope, staged) for agent in plain.agents]
    if not scope.everything:
        tasks = [task for task in tasks if task.items]
    found = Workload(job=job, domain=plain.name, epoch=epoch.number, agents=tuple(tasks))
    RecomputeJob.objects.filter(pk=job.pk).update(rows_total=found.rows)
    return found


def _task(
    epoch: EncodingEpoch,
    plain: PlainDomain,
    agent: PlainAgent,
    scope: scopes.Scope,
    staged: Mapping[str, Mapping[str, Any]],
) -> AgentTask:
    parameters = epochs.parameters_of(epoch)
    held = epochs.blinding(epoch, agent.name)
    plan = plan_agent(plain, agent, epochs.capacity(parameters))
    target = held
    if agent.name in staged:
        target = epochs.staged_blinding(epoch, agent.name, staged[agent.name])
    items = encodings.items_of(plan, target)
    if not scope.everything:
        before = {item.place: item.tokens_hash for item in encodings.items_of(plan, held)}
        items = [item for item in items if inplace.touched(item, scope, before)]
    ordered = tuple(sorted(items, key=lambda item: item.place))
    return AgentTask(agent.id, agent.name, parameters.to_json(), target, ordered)


def marks(job: RecomputeJob) -> dict[str, str]:
    """By agent the mark of the key that the run encodes under, where there is one."""
    fresh = RecomputeJob.objects.get(pk=job.pk)
    return {name: inplace.mark_of(staged) for name, staged in fresh.staged.items()}


def encode_here(load: Workload) -> int:
    """Encode in this process, for runs too small to be worth a pipeline; returns the rows."""
    return keep(load.job, _encoded_here(load))


def _encoded_here(load: Workload) -> Iterator[Encoded]:
    parameters = epochs.parameters_of(load.job.epoch)
    done = 0
    for agent in load.agents:
        yield from encodings.encode_rows(agent.name, agent.items, agent.key, parameters)
        done += len(agent.items)
        progress(load.job, "encoding", done, load.rows)


def progress(job: RecomputeJob, stage: str, done: int, total: int) -> None:
    """Note how far a run is, and that it is alive."""
    entry = {"stage": stage, "done": done, "total": total, "at": timezone.now().isoformat()}
    with transaction.atomic():
        row = RecomputeJob.objects.select_for_update().get(pk=job.pk)
        # A dictionary keeps each stage where it first stood: the order in which they began.
        row.stages = list(({held["stage"]: held for held in row.stages} | {stage: entry}).values())
        row.rows_done, row.heartbeat = max(row.rows_done, done), timezone.now()
        row.version += 1
        row.save()


def alive(job: RecomputeJob) -> None:
    """Note that a run is alive."""
    RecomputeJob.objects.filter(pk=job.pk).update(heartbeat=timezone.now())


def keep(job: RecomputeJob, rows: Iterable[Encoded]) -> int:
    """Store what a run made, unless its epoch went another way meanwhile; returns how many."""
    if job.scope != RecomputeJob.Scope.ALL:
        return inplace.replace(job, rows)
    agents = dict(Agent.objects.values_list("name", "pk"))
    count = 0
    for chunk in _chunks(rows):
        known = [row for row in chunk if row.agent in agents]
        # INVARIANT: compare and swap; no row enters an epoch that is not the one in preparation.
        with transaction.atomic():
            if not inplace.locked(job):
                break
            encodings.store([row.item(job.epoch_id, agents[row.agent]) for row in known])
        count += len(known)
    return count


def finish(job: RecomputeJob) -> None:
    """The run is complete: the rollout goes on, unless the epoch went another way meanwhile."""
    with transaction.atomic():
        over = not inplace.locked(job)
        _end(job, State.SUPERSEDED if over else State.DONE, "")
        if job.scope != RecomputeJob.Scope.ALL and not over:
            inplace.announce(job)
        fresh = RecomputeJob.objects.get(pk=job.pk)
        _note(job, "recomputed", rows=fresh.rows_total + fresh.rows_removed)


def fail(job: RecomputeJob, error: str) -> bool:
    """The run broke; returns whether it may be tried again.

    After the last try the compiler encodes inline what is missing, so that a broken pipeline
    slows a revocation down and never stops it: new keys come into force without their rows.
    """
    row = RecomputeJob.objects.get(pk=job.pk)
    again = row.attempts < MAX_ATTEMPTS
    if again:
        RecomputeJob.objects.filter(pk=job.pk, state=State.RUNNING).update(
            state=State.PENDING, error=error[:2000]
        )
    else:
        with transaction.atomic():
            if row.scope != RecomputeJob.Scope.ALL:
                inplace.replace(row, ())
                inplace.announce(row)
            _end(job, State.FAILED, error)
    _note(job, "recompute-failed", attempt=row.attempts, again=again)
    return again


def _end(job: RecomputeJob, state: str, error: str) -> None:
    with transaction.atomic():
        RecomputeJob.objects.filter(pk=job.pk, state=State.RUNNING).update(
            state=state, error=error[:2000], finished=timezone.now()
        )
        later = RecomputeJob.objects.filter(epoch=job.epoch_id, pk__gt=job.pk, state=State.PENDING)
        for waiting in later.order_by("pk")[:1]:
            scopes.request(waiting, attempt=-job.pk)
        rollouts.request_advance(job.domain)


def _note(job: RecomputeJob, kind: str, **detail: Any) -> None:
    concerned = Revocation.objects.filter(rollout__isnull=False, rollout=job.rollout_id)
    timeline.note_all(concerned, kind, **detail)


def _chunks(rows: Iterable[Encoded]) -> Iterator[list[Encoded]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk
