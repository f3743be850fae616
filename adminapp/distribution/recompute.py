"""A run over all encodings of a new epoch: what goes in, how far it is, what comes out.

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
from django.db.models import F, Q
from django.utils import timezone

from adminapp.distribution import encodings, epochs, rollouts, timeline
from adminapp.distribution.encodings import Item
from adminapp.distribution.gather import gather, steady
from adminapp.distribution.models import EncodedItem, EncodingEpoch, RecomputeJob, Revocation
from adminapp.distribution.plan import plan_agent
from adminapp.identity.models import Agent

State = RecomputeJob.State
# A run says every few seconds that it is alive.
STALE = timedelta(seconds=30)
MAX_ATTEMPTS = 3
_CHUNK = 2000


@dataclass(frozen=True)
class AgentTask:
    """What is to be encoded for one agent; the key is in the clear."""

    id: int
    name: str
    parameters: Mapping[str, Any]
    key: bytes
    items: tuple[Item, ...]

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
        """A revocation is recomputed by the pipeline that scales; so is whatever is large."""
        return self.job.cause == "revocation" or self.rows > settings.SPARK_THRESHOLD


@dataclass(frozen=True)
class Encoded:
    """One encoding that came out of a run, with the digest of its tokens."""

    agent: str
    kind: str
    key: str
    position: int
    encoded: bytes
    tokens_hash: str


def take(job_id: int) -> RecomputeJob | None:
    """Claim a run; None when it is finished, over, or somebody else is at it."""
    now = timezone.now()
    free = Q(state=State.PENDING) | Q(state=State.RUNNING, heartbeat__lt=now - STALE)
    taken = RecomputeJob.objects.filter(
        free, pk=job_id, epoch__state=EncodingEpoch.State.PREPARING
    ).update(state=State.RUNNING, heartbeat=now, attempts=F("attempts") + 1, error="")
    if not taken:
        return None
    RecomputeJob.objects.filter(pk=job_id, started__isnull=True).update(started=now)
    return RecomputeJob.objects.select_related("domain", "epoch__domain").get(pk=job_id)


def workload(job: RecomputeJob) -> Workload:
    """What the domain needs encoded in the job's epoch, as of now."""
    plain = steady(job.domain_id, gather)
    epoch = job.epoch
    epochs.ensure_keys(epoch, [agent.name for agent in plain.agents], plain.overlays)
    parameters = epochs.parameters_of(epoch)
    tasks = []
    for agent in plain.agents:
        key = epochs.agent_key(epoch, agent.name)
        plan = plan_agent(plain, agent, epochs.capacity(parameters))
        items = tuple(sorted(encodings.items_of(plan, key), key=lambda item: item.place))
        tasks.append(AgentTask(agent.id, agent.name, parameters.to_json(), key, items))
    found = Workload(job=job, domain=plain.name, epoch=epoch.number, agents=tuple(tasks))
    RecomputeJob.objects.filter(pk=job.pk).update(rows_total=found.rows)
    return found


def encode_here(load: Workload) -> None:
    """Encode in this process; for runs too small to be worth a pipeline."""
    parameters = epochs.parameters_of(load.job.epoch)
    done = 0
    for agent in load.agents:
        encodings.encode(load.job.epoch, agent.id, agent.items, agent.key, parameters)
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
    agents = dict(Agent.objects.values_list("name", "pk"))
    count = 0
    for chunk in _chunks(rows):
        if not EncodingEpoch.objects.filter(
            pk=job.epoch_id, state=EncodingEpoch.State.PREPARING
        ).exists():
            break
        known = [row for row in chunk if row.agent in agents]
        encodings.store([_row(job, agents[row.agent], row) for row in known])
        count += len(known)
    return count


def finish(job: RecomputeJob) -> None:
    """The run is complete: the rollout goes on."""
    _end(job, State.DONE, "")
    fresh = RecomputeJob.objects.get(pk=job.pk)
    _note(job, "recomputed", rows=fresh.rows_total)


def fail(job: RecomputeJob, error: str) -> bool:
    """The run broke; returns whether it may be tried again.

    After the last try the compiler encodes inline what is missing, so that a broken pipeline
    slows a revocation down and never stops it.
    """
    row = RecomputeJob.objects.get(pk=job.pk)
    again = row.attempts < MAX_ATTEMPTS
    if again:
        RecomputeJob.objects.filter(pk=job.pk, state=State.RUNNING).update(
            state=State.PENDING, error=error[:2000]
        )
    else:
        _end(job, State.FAILED, error)
    _note(job, "recompute-failed", attempt=row.attempts, again=again)
    return again


def _end(job: RecomputeJob, state: str, error: str) -> None:
    with transaction.atomic():
        RecomputeJob.objects.filter(pk=job.pk, state=State.RUNNING).update(
            state=state, error=error[:2000], finished=timezone.now()
        )
        rollouts.request_advance(job.domain)


def _note(job: RecomputeJob, kind: str, **detail: Any) -> None:
    concerned = Revocation.objects.filter(rollout__epoch_to=job.epoch_id)
    timeline.note_all(concerned, kind, **detail)


def _row(job: RecomputeJob, agent_id: int, row: Encoded) -> EncodedItem:
    return EncodedItem(
        epoch_id=job.epoch_id,
        agent_id=agent_id,
        kind=row.kind,
        key=row.key,
        position=row.position,
        encoded=row.encoded,
        tokens_hash=row.tokens_hash,
    )


def _chunks(rows: Iterable[Encoded]) -> Iterator[list[Encoded]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk
