"""From one set of epochs to the next: the stages, each acknowledged before the next begins.

recomputing -> staging -> switching -> draining -> retiring -> complete. All state is in the
database and every step is one transaction that checks where it stands, so a step may be asked
for twice, by two processes, and after a crash at any point.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core.errors import Invalid
from adminapp.distribution import blindepochs, epochs, keyepochs, scopes, timeline, waiting
from adminapp.distribution.models import BlindEpoch, EncodingEpoch, RecomputeJob, Rollout
from adminapp.identity import permissions
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_change
from adminapp.outbox import relay
from adminapp.outbox import services as outbox

LOOK_AGAIN = timedelta(seconds=2)
"""A request of longer ago that nobody has begun with may have been lost on its way."""
State = Rollout.State
Epoch = EncodingEpoch.State


def running(domain: Domain) -> Rollout | None:
    """The domain's rollout that has not ended, or None: there is never more than one."""
    return Rollout.objects.filter(domain=domain).exclude(state=State.COMPLETE).first()


def running_in(domain_ids: Collection[int]) -> list[int]:
    """Those of these domains that have such a rollout."""
    rows = Rollout.objects.filter(domain__in=domain_ids).exclude(state=State.COMPLETE)
    return list(rows.values_list("domain_id", flat=True))


@audit.change
def begin(
    *,
    domain: Domain,
    cause: str,
    tokens: int = 0,
    reencode: bool = True,
    scope: scopes.Scope = scopes.EVERYTHING,
) -> Rollout | None:
    """Open a rollout unless one is running (what is left waits for the next one).

    Args:
        cause: `revocation`, `size`, `encoding`, `keys` or `blind`.
        tokens: the longest conjunction that the new epoch must have room for.
        reencode: False moves keys of trust groups and of blind profiles only.
        scope: what is encoded anew; for less than everything the current epoch stays.
    """
    if running(domain) is not None:
        return None
    before = epochs.current(domain)
    renewed = reencode and scope.everything and before is not None
    after = epochs.open_next(domain, tokens, cause) if renewed else None
    blind_from, blind_to = blindepochs.open_next(domain, cause)
    rollout = Rollout.objects.create(
        domain=domain,
        cause=cause,
        epoch_from=before if after else None,
        epoch_to=after,
        blind_from=blind_from,
        blind_to=blind_to,
    )
    rollout.key_epochs.set(keyepochs.staged(domain))
    if reencode and before is not None:
        scopes.order(
            domain=domain, epoch=after or before, scope=scope, cause=cause, rollout=rollout
        )
    request_advance(domain)
    return rollout


@audit.change
def rotate_blind_keys(*, actor: User | None, domain: Domain, reason: str) -> BlindEpoch:
    """Have new blind keys follow; the rollout that begins brings them to everybody.

    Raises:
        Forbidden: the actor does not manage the domain.
        Invalid: no reason is given, or the domain hides nothing.
    """
    permissions.require_manager(actor, domain)
    if not reason.strip():
        raise Invalid.at("/reason", "say why, for the audit")
    held = blindepochs.current(domain)
    if held is None:
        raise Invalid.at("/domain", "no attribute of this domain is hidden from agents")
    blindepochs.note_due(held, reason.strip())
    record_change(
        actor=actor,
        domain=domain,
        action="blind-epoch.rotation-ordered",
        object_type="blind epoch",
        object_id=held.pk,
        object_name=str(held),
        before=None,
        after={"epoch": held.number, "reason": reason.strip()},
        affects_agents=False,
    )
    request_advance(domain)
    return held


def keys_wait(domain: Domain) -> str:
    """Which keys wait for a rollout: `keys` of trust groups, `blind` ones, or none (empty)."""
    if keyepochs.staged(domain):
        return "keys"
    return "blind" if blindepochs.due(domain) else ""


def domains_with_waiting_keys() -> list[int]:
    """Domains with keys that wait for a rollout."""
    return [*keyepochs.domains_with_staged(), *blindepochs.domains_due()]


def request_advance(domain: Domain, *, wait: timedelta = timedelta()) -> None:
    """Have somebody look at the domain's rollout and revocations soon, or after `wait`.

    Never merged with a request that waits: that one may be read before this change is committed.
    """
    outbox.put(
        topic="advance",
        key=f"advance:{domain.pk}:{uuid.uuid4().hex}",
        payload={"domain": domain.pk},
        wait=wait,
    )


def request_look(domain: Domain) -> None:
    """The same for somebody whose words are committed: one request serves many of them.

    Each of hundreds of agents says that it is there, and each might be the last one.
    """
    prefix = f"advance:{domain.pk}:look:"
    # INVARIANT: only a request that nobody has begun with, and only outside of a transaction:
    # what nobody else can read yet must not be left to who looks now.
    open_here = connection.in_atomic_block
    if open_here or not relay.wanted(prefix=prefix, since=LOOK_AGAIN):
        outbox.put(
            topic="advance", key=f"{prefix}{uuid.uuid4().hex}", payload={"domain": domain.pk}
        )


def advance(rollout_id: int) -> Rollout:
    """Take every step that can be taken now."""
    while _step(rollout_id=rollout_id):
        pass
    return Rollout.objects.get(pk=rollout_id)


@audit.change
def _step(*, rollout_id: int) -> bool:
    rollout = Rollout.objects.select_for_update().select_related("domain").get(pk=rollout_id)
    action = _STEPS.get(State(rollout.state))
    return action is not None and action(rollout)


def _stage(rollout: Rollout) -> bool:
    """Encodings are ready (or will be made inline): agents get both epochs."""
    job = scopes.job_of(rollout)
    if job is not None and job.state not in RecomputeJob.ENDED:
        return False
    if rollout.epoch_to is not None:
        _set(rollout.epoch_to, state=Epoch.STAGED, client_state=Epoch.STAGED)
    if rollout.blind_to is not None:
        _set(rollout.blind_to, state=Epoch.STAGED, client_state=Epoch.STAGED)
    waiting.enter(rollout, waiting.agent_audiences(rollout.domain))
    return _enter(rollout, State.STAGING, "epoch.staged")


def _switch(rollout: Rollout) -> bool:
    """All agents open both epochs: the new one becomes theirs, the old one drains."""
    if not waiting.agents_ready(rollout):
        return False
    if not (rollout.epoch_to or rollout.blind_to or rollout.key_epochs.exists()):
        # Encodings were replaced within the epoch: agents that hold the revision have them.
        return _complete(rollout)
    if rollout.epoch_to is not None:
        # The old one first: a domain has one current epoch, also inside this transaction.
        _set(rollout.epoch_from, state=Epoch.DRAINING)
        _set(rollout.epoch_to, state=Epoch.CURRENT)
    if rollout.blind_to is not None:
        _set(rollout.blind_from, state=Epoch.DRAINING)
        _set(rollout.blind_to, state=Epoch.CURRENT)
    keyepochs.switch(rollout.key_epochs.all())
    return _enter(rollout, State.SWITCHING, "epoch.switched")


def _publish(rollout: Rollout) -> bool:
    """All agents match in the new epoch: now publishers tag in it.

    INVARIANT: publishers switch after the agents, since an event is matched in the epoch that
    it names and an agent matches in none that it only staged.
    """
    if not waiting.agents_ready(rollout):
        return False
    if rollout.epoch_to is not None:
        _set(rollout.epoch_from, client_state=Epoch.DRAINING)
        _set(rollout.epoch_to, client_state=Epoch.CURRENT)
    if rollout.blind_to is not None:
        _set(rollout.blind_from, client_state=Epoch.DRAINING)
        _set(rollout.blind_to, client_state=Epoch.CURRENT)
    entered = _enter(rollout, State.DRAINING, "epoch.published")
    # Nobody acknowledges that the time is up, so somebody has to look then: not before the stage
    # has lasted that long, and once more where a publisher keeps silent.
    for seconds in sorted({settings.DRAIN_SECONDS, settings.DRAIN_LIMIT_SECONDS}):
        request_advance(rollout.domain, wait=timedelta(seconds=seconds))
    return entered


def _retire(rollout: Rollout) -> bool:
    """What was under way in the old epoch has arrived, or had its time."""
    waited = timezone.now() - rollout.stage_started
    least = timedelta(seconds=settings.DRAIN_SECONDS)
    limit = timedelta(seconds=settings.DRAIN_LIMIT_SECONDS)
    if waited < least or (waited < limit and not waiting.publishers_ready(rollout)):
        return False
    if _kept(rollout):
        return False
    if rollout.epoch_from is not None:
        _set(rollout.epoch_from, state=Epoch.RETIRED, client_state=Epoch.RETIRED)
    if rollout.blind_from is not None:
        _set(rollout.blind_from, state=Epoch.RETIRED, client_state=Epoch.RETIRED)
    keyepochs.retire(rollout.key_epochs.all())
    return _enter(rollout, State.RETIRING, "epoch.retired")


def _kept(rollout: Rollout) -> bool:
    """Whether the old epoch is kept for agents that have no lease, or have just got one again.

    What others sent them waits in it. The limit counts from the moment that nothing else is
    waited for, and that somebody looks: where nobody could ask for a lease, since we were away
    ourselves, all of them have their time yet.
    """
    least, limit = settings.DRAIN_SECONDS, settings.DRAIN_LIMIT_SECONDS
    if waiting.agents_worked_off(rollout, least):
        return False
    now = timezone.now()
    if rollout.kept_since is None:
        rollout.kept_since = now
        rollout.version += 1
        rollout.save()
        # Nobody says that an agent has had its time, so somebody has to look.
        for seconds in (*(range(least, limit, least) if least else ()), limit):
            request_advance(rollout.domain, wait=timedelta(seconds=seconds))
    return now - rollout.kept_since < timedelta(seconds=limit)


def _complete(rollout: Rollout) -> bool:
    """Nobody alive holds the old epoch: its keys and encodings are destroyed."""
    if not waiting.agents_ready(rollout):
        return False
    if rollout.epoch_from is not None:
        epochs.destroy(rollout.epoch_from)
    if rollout.blind_from is not None:
        blindepochs.destroy(rollout.blind_from)
    rollout.state, rollout.completed = State.COMPLETE, timezone.now()
    rollout.version += 1
    rollout.save()
    request_advance(rollout.domain)
    return False


def _enter(rollout: Rollout, state: str, action: str) -> bool:
    """Begin a stage: a new revision carries it to the agents, who acknowledge it."""
    rollout.stage_revision = record_change(
        actor=None,
        domain=rollout.domain,
        action=action,
        object_type="rollout",
        object_id=rollout.pk,
        object_name=str(rollout.epoch_to or "keys"),
        before={"stage": rollout.state},
        after={"stage": str(state), **_numbers(rollout)},
    )
    rollout.state, rollout.stage_started = state, timezone.now()
    rollout.version += 1
    rollout.save()
    mirror(rollout)
    return True


_MIRRORED = {State.RETIRING: "draining"}


def mirror(rollout: Rollout) -> None:
    """Show a rollout's stage on the revocations it carries out."""
    state = _MIRRORED.get(State(rollout.state), str(rollout.state))
    rollout.revocations.exclude(state=state).update(state=state)
    detail = {"revision": rollout.stage_revision, **_numbers(rollout)}
    timeline.note_rollout(rollout, str(rollout.state), **detail)


def _numbers(rollout: Rollout) -> dict[str, Any]:
    return {
        "epoch_from": rollout.epoch_from.number if rollout.epoch_from else None,
        "epoch_to": rollout.epoch_to.number if rollout.epoch_to else None,
        "keys": [
            *sorted(str(key) for key in rollout.key_epochs.all()),
            *([str(rollout.blind_to)] if rollout.blind_to else []),
        ],
    }


def _set(epoch: EncodingEpoch | BlindEpoch, **changes: str) -> None:
    for name, value in changes.items():
        setattr(epoch, name, value)
    epoch.version += 1
    epoch.save()


_STEPS = {
    State.RECOMPUTING: _stage,
    State.STAGING: _switch,
    State.SWITCHING: _publish,
    State.DRAINING: _retire,
    State.RETIRING: _complete,
}
