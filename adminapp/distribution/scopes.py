"""What a recompute encodes anew, and the one place that orders one.

A new epoch has new keys for everybody, so everything is encoded anew in it. What must change
under fewer keys needs no epoch, since an event carries no encoding: an agent matches its own
rules with its own clients, both of one bundle. So within the current epoch one client's rows can
be replaced, an attribute be given another alias, or single agents other keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from adminapp.distribution import epochs
from adminapp.distribution.models import (
    EncodedItem,
    EncodingEpoch,
    Recipient,
    RecomputeJob,
    Rollout,
)
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.outbox import services as outbox
from policyengine.bundles.addresses import audience

Kind = RecomputeJob.Scope
State = RecomputeJob.State


@dataclass(frozen=True)
class Scope:
    """What is to be encoded anew.

    Args:
        everything: a whole new epoch; the rest then says nothing more.
        agents: names of agents whose encodings get another key.
        attributes: names as policies have them, such as `subject.zone`, that get other aliases.
        subjects: handles of clients whose own encodings are replaced.
    """

    everything: bool = False
    agents: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    subjects: frozenset[str] = frozenset()

    @property
    def kind(self) -> str:
        """The widest thing in it."""
        if self.everything:
            return str(Kind.ALL)
        if self.agents:
            return str(Kind.AGENTS)
        return str(Kind.ATTRIBUTE if self.attributes else Kind.SUBJECTS)

    def __or__(self, other: Scope) -> Scope:
        """Everything that one of two asks for."""
        return Scope(
            self.everything or other.everything,
            self.agents | other.agents,
            self.attributes | other.attributes,
            self.subjects | other.subjects,
        )

    def to_json(self) -> dict[str, list[str]]:
        """As a job keeps it."""
        found = {
            "agents": self.agents,
            "attributes": self.attributes,
            "subjects": self.subjects,
        }
        return {name: sorted(values) for name, values in found.items() if values}


EVERYTHING = Scope(everything=True)


def of_agents(names: Iterable[str]) -> Scope:
    """Other keys for the encodings of these agents."""
    return Scope(agents=frozenset(names))


def of_attributes(names: Iterable[str]) -> Scope:
    """Another alias for attributes, such as `subject.zone`, wherever they stand."""
    return Scope(attributes=frozenset(names))


def of_subjects(handles: Iterable[str]) -> Scope:
    """The rows of these clients alone."""
    return Scope(subjects=frozenset(handles))


def merged(scopes: Iterable[Scope]) -> Scope:
    """Everything that any of them asks for."""
    return reduce(Scope.__or__, scopes, Scope())


def scope_of(job: RecomputeJob) -> Scope:
    """What a job was ordered for."""
    named = {name: frozenset(values) for name, values in job.targets.items()}
    return Scope(everything=job.scope == Kind.ALL, **named)


def for_principal(principal: Principal) -> Scope:
    """What the end of a principal's rights asks for.

    A client never holds an encoding or its key, so without tag keys it knows nothing of the epoch
    and its own rows are all that goes. Whoever was given tag keys of an epoch that lives could
    guess at the values of others' events with them: then a new epoch follows.
    """
    known = Recipient.objects.filter(audience=audience("client", principal.handle))
    alive = [epoch.number for epoch in epochs.live(principal.domain)]
    given = known.filter(domain=principal.domain, tag_epoch__gt=0)
    if alive and given.filter(tag_epoch__gte=min(alive)).exists():
        return EVERYTHING
    return of_subjects([principal.handle])


def for_agent(agent: Agent, domain: Domain) -> Scope:
    """What a distrusted agent asks for: it held the tag keys of its overlay, so a new epoch."""
    held = Recipient.objects.filter(audience=audience("agent", agent.name), domain=domain)
    return EVERYTHING if held.exists() else Scope()


def order(
    *,
    domain: Domain,
    epoch: EncodingEpoch,
    scope: Scope,
    cause: str,
    rollout: Rollout | None = None,
) -> RecomputeJob:
    """Order a run; call inside a change. One that has not begun takes in what is added to it.

    Args:
        epoch: the epoch in preparation for `EVERYTHING`, the current one for less.
        scope: what to encode anew.
        cause: `revocation`, `size`, `encoding`, `alias` or `agent`.
        rollout: the rollout that waits for the run.
    """
    waiting = RecomputeJob.objects.select_for_update().filter(
        epoch=epoch, state=State.PENDING, attempts=0, rollout=rollout
    )
    job = waiting.first()
    if job is None:
        job = RecomputeJob(domain=domain, epoch=epoch, cause=cause, rollout=rollout)
        job.scope, job.targets = scope.kind, scope.to_json()
    else:
        wider = scope_of(job) | scope
        job.scope, job.targets = wider.kind, wider.to_json()
        job.version += 1
    # Counted now: a compile may take a revoked client's rows away before the run begins.
    job.rows_removed += _rows_of(epoch, scope.subjects)
    job.save()
    request(job)
    return job


def request(job: RecomputeJob, *, attempt: int = 0) -> None:
    """Have a worker look at a run."""
    key = f"recompute:{job.pk}:{attempt or job.version}"
    outbox.put(topic="recompute", key=key, payload={"job": job.pk})


def job_of(rollout: Rollout) -> RecomputeJob | None:
    """The run that a rollout waits for, or waited for."""
    own = rollout.recomputes.first()
    if own is not None or rollout.epoch_to_id is None:
        return own
    return RecomputeJob.objects.filter(epoch=rollout.epoch_to_id, scope=Kind.ALL).first()


def _rows_of(epoch: EncodingEpoch, handles: frozenset[str]) -> int:
    if not handles:
        return 0
    mine = EncodedItem.objects.filter(epoch=epoch, kind=EncodedItem.Kind.SUBJECT)
    return mine.filter(key__in=handles).count()
