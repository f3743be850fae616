"""Encodings of the current epoch replaced where they stand: one client's, one attribute's, one
agent's.

Keys and aliases that a run encodes under are kept with the run and come into force for an agent in
the transaction that takes its rows over. An agent that was taken over stays so: what is encoded for
one has nothing to do with what is encoded for another, so a run that was cut off goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, groupby, islice
from typing import Any

from django.db import transaction

from adminapp.core.authority import get_authority
from adminapp.distribution import encodings, epochs, scopes
from adminapp.distribution.encodings import Encoded, Item
from adminapp.distribution.models import EncodedItem, EncodingEpoch, EncodingKey, RecomputeJob
from adminapp.distribution.plan import PlainAgent
from adminapp.distribution.scopes import Scope
from adminapp.identity.models import Agent
from adminapp.identity.services import record_change

_CHUNK = 2000


def state_for(job: RecomputeJob) -> str:
    """The state that a job's epoch must be in for its rows to be of use."""
    whole = job.scope == RecomputeJob.Scope.ALL
    return str(EncodingEpoch.State.PREPARING if whole else EncodingEpoch.State.CURRENT)


def locked(job: RecomputeJob) -> bool:
    """Hold the job's epoch until the transaction ends; False when it went another way."""
    held = EncodingEpoch.objects.select_for_update().filter(pk=job.epoch_id)
    return held.filter(state=state_for(job)).exists()


def stage(
    job: RecomputeJob, scope: Scope, agents: Iterable[PlainAgent]
) -> dict[str, dict[str, Any]]:
    """Keys and aliases that the job encodes under, by agent; the same ones at every try."""
    with transaction.atomic():
        row = RecomputeJob.objects.select_for_update().get(pk=job.pk)
        for agent in agents:
            if agent.name not in row.staged and (scope.attributes or agent.name in scope.agents):
                row.staged[agent.name] = _renewed(job.epoch, agent.name, scope)
        row.save(update_fields=["staged"])
    return dict(row.staged)


def _renewed(epoch: EncodingEpoch, agent: str, scope: Scope) -> dict[str, Any]:
    name = f"agent:{agent}"
    held = EncodingKey.objects.get(epoch=epoch, scope=name)
    if agent in scope.agents:
        # All aliases are other ones under another key.
        wrapped = get_authority().create_key(epochs.key_id(epoch, name))
        return {"wrapped": wrapped, "generation": held.generation + 1, "aliases": {}}
    raised = {each: held.aliases.get(each, 0) + 1 for each in sorted(scope.attributes)}
    return {
        "wrapped": held.wrapped,
        "generation": held.generation,
        "aliases": {**held.aliases, **raised},
    }


def mark_of(staged: Mapping[str, Any]) -> str:
    """The mark of encodings under a staged key."""
    return epochs.Blinding(b"", staged["generation"]).mark


def touched(item: Item, scope: Scope, before: Mapping[encodings.Place, str]) -> bool:
    """Whether an item is encoded anew: it is a client's of the scope, or says something else."""
    own = item.kind == encodings.Kind.SUBJECT and item.key in scope.subjects
    return own or before.get(item.place) != item.tokens_hash


def replace(job: RecomputeJob, rows: Iterable[Encoded]) -> int:
    """Take over what a run made, agent by agent; returns how many rows.

    Args:
        rows: sorted by agent. An agent without rows gets its new keys all the same, and loses
            what it held of the scope's clients: what it lacks the compiler encodes.
    """
    fresh = RecomputeJob.objects.select_related("epoch__domain").get(pk=job.pk)
    agents = dict(Agent.objects.values_list("name", "pk"))
    gone = _gone(EncodedItem.objects.filter(epoch=job.epoch_id), scopes.scope_of(fresh))
    concerned = {*fresh.staged, *gone.order_by().values_list("agent__name", flat=True).distinct()}
    done: set[str] = set()
    count = 0
    for name, group in groupby(rows, key=lambda row: row.agent):
        done.add(name)
        if name in agents:
            count += _take_over(fresh, name, agents[name], group)
    for name in sorted(concerned - done):
        if name in agents:
            _take_over(fresh, name, agents[name], ())
    return count


def _take_over(job: RecomputeJob, name: str, agent_id: int, rows: Iterable[Encoded]) -> int:
    count = 0
    # INVARIANT: compare and swap; an agent's keys and its rows change in one transaction, and
    # only in the epoch that is still the current one.
    with transaction.atomic():
        if not locked(job):
            return sum(0 for _ in rows)
        mine = EncodedItem.objects.filter(epoch=job.epoch_id, agent=agent_id)
        if name in job.staged and _renew(job.epoch_id, name, job.staged[name]):
            mine.delete()
        _gone(mine, scopes.scope_of(job)).delete()
        iterator = iter(rows)
        for first in iterator:
            chunk = list(chain([first], islice(iterator, _CHUNK - 1)))
            encodings.store([row.item(job.epoch_id, agent_id) for row in chunk])
            count += len(chunk)
    return count


def _gone(mine: Any, scope: Scope) -> Any:
    """Rows of the clients of the scope: what is still wanted of them comes with the run's rows."""
    return mine.filter(kind=EncodedItem.Kind.SUBJECT, key__in=scope.subjects)


def _renew(epoch_id: int, agent: str, staged: Mapping[str, Any]) -> bool:
    """Bring staged keys into force; returns whether the key is another one."""
    row = EncodingKey.objects.select_for_update().get(epoch=epoch_id, scope=f"agent:{agent}")
    another = row.generation != staged["generation"]
    row.wrapped, row.generation = staged["wrapped"], staged["generation"]
    row.aliases = staged["aliases"]
    row.save()
    return another


def announce(job: RecomputeJob) -> None:
    """A new revision carries what was replaced to the agents; call inside a change."""
    record_change(
        actor=None,
        domain=job.domain,
        action="encodings.replaced",
        object_type="recompute job",
        object_id=job.pk,
        object_name=job.uid,
        before=None,
        after={"epoch": job.epoch.number, "scope": job.scope, "targets": job.targets},
    )
