"""The life of a revocation after T0: denied within a second, worthless a little later, a receipt.

Every step is one transaction that looks at where things stand, so each may be asked for twice, by
two processes, and after the death of either at any point.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core.authority import get_authority
from adminapp.distribution import blindepochs, receipts, rollouts, scopes, stages, timeline
from adminapp.distribution.models import Compilation, Notice, Recipient, Revocation, Rollout
from adminapp.distribution.models.revocations import MOVES_ENCODINGS
from adminapp.distribution.serving import serving_agents
from adminapp.distribution.starting import revoke, revoke_agent, revoke_principal
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain
from adminapp.identity.recording import person_of
from policyengine.bundles.receipts import sign_receipt

__all__ = [
    "advance_all",
    "advance_domain",
    "advance_revocation",
    "revoke",
    "revoke_agent",
    "revoke_principal",
]

State = Revocation.State
ENDED = (State.COMPLETE, State.FAILED)
PATIENCE = timedelta(seconds=60)
"""How long an agent that holds everything back is waited for until it has the new policy."""


def advance_domain(domain_id: int) -> None:
    """Take every step that the domain's rollout and revocations can take now."""
    domain = Domain.objects.get(pk=domain_id)
    running = rollouts.running(domain)
    if running is not None:
        rollouts.advance(running.pk)
    _apply(domain=domain)
    _finish(domain)
    if rollouts.running(domain) is None:
        _begin_next(domain)
    stages.advance(domain)


def advance_revocation(revocation_id: int) -> Revocation:
    """Take every step that this revocation can take now."""
    domain_id = Revocation.objects.values_list("domain_id", flat=True).get(pk=revocation_id)
    advance_domain(domain_id)
    return Revocation.objects.get(pk=revocation_id)


def advance_all() -> int:
    """Look at every domain where something is under way; returns how many."""
    open_rollouts = Rollout.objects.exclude(state=Rollout.State.COMPLETE)
    waiting = Revocation.objects.exclude(state__in=ENDED)
    domains = set(open_rollouts.values_list("domain_id", flat=True))
    domains |= set(waiting.values_list("domain_id", flat=True))
    domains |= set(rollouts.domains_with_waiting_keys()) | stages.open_domains()
    for domain_id in sorted(domains):
        advance_domain(domain_id)
    return len(domains)


@audit.change
def _begin_next(domain: Domain) -> None:
    """Revocations that came while a rollout ran share the next epoch."""
    found = Revocation.objects.filter(domain=domain, state=State.NOTICED)
    waiting = [revocation for revocation in found if revocation.moves_epoch]
    cause = rollouts.keys_wait(domain)
    moving = [each for each in waiting if each.kind in MOVES_ENCODINGS]
    if moving:
        scope = scopes.merged(_scope(each) for each in moving)
        rollout = rollouts.begin(domain=domain, cause="revocation", scope=scope)
    elif waiting or cause:
        rollout = rollouts.begin(
            domain=domain, cause="revocation" if waiting else cause, reencode=False
        )
    else:
        return
    if rollout is not None:
        # What only changed the policy may have made somebody's hidden keys be replaced.
        also = list(_applying(domain)) if rollout.blind_to_id else []
        _join([*waiting, *also], rollout)


def _scope(revocation: Revocation) -> scopes.Scope:
    """What has to be encoded anew: what the party knew may be worth nothing any more."""
    if revocation.principal is not None:
        # Tag keys where it could publish; nothing of the epoch where it only received.
        return scopes.for_principal(revocation.principal)
    agent = Agent.objects.get(name=revocation.subject["agent"])
    return scopes.for_agent(agent, revocation.domain)


def _join(waiting: Iterable[Revocation], rollout: Rollout) -> None:
    for revocation in waiting:
        revocation.rollout = rollout
        revocation.epoch_from = rollout.epoch_from.number if rollout.epoch_from else None
        revocation.epoch_to = rollout.epoch_to.number if rollout.epoch_to else None
        revocation.version += 1
        revocation.save()
    rollouts.mirror(rollout)


# -- what only changes the policy ---------------------------------------------------------------


def _applying(domain: Domain) -> Iterable[Revocation]:
    return Revocation.objects.filter(domain=domain, state=State.APPLYING, rollout=None)


@audit.change
def _apply(*, domain: Domain) -> None:
    """Kinds that need no epoch wait for the agents to take up the policy, and nothing else."""
    for revocation in Revocation.objects.filter(domain=domain, state=State.NOTICED):
        if not revocation.moves_epoch:
            revocation.state = State.APPLYING
            revocation.version += 1
            revocation.save()
            timeline.note(revocation, "applying", revision=revocation.revision)


def _taken_up(revocation: Revocation) -> bool:
    """Whether every agent that was told has the policy, or is waited for no longer."""
    compiled = Compilation.objects.filter(domain=revocation.domain).first()
    if compiled is None or compiled.revision < revocation.revision:
        return False
    if blindepochs.due(revocation.domain):
        return False  # a rollout brings new keys, and this one joins it
    now = timezone.now()
    for notice in revocation.notices.exclude(revision=0).select_related("domain"):
        row = Recipient.objects.filter(audience=notice.audience, domain=notice.domain_id).first()
        if row is None or row.revision >= notice.revision or not _serves(notice):
            continue
        alive = row.leased_until is not None and row.leased_until > now
        if alive and now < revocation.created + PATIENCE:
            return False
    return True


def _serves(notice: Notice) -> bool:
    """Whether the agent serves the domain still; if not it has neither policy nor lease of it."""
    name = notice.audience.partition(":")[2]
    return serving_agents(notice.domain).filter(name=name).exists()


# -- the end ------------------------------------------------------------------------------------


def _finish(domain: Domain) -> None:
    waiting = Revocation.objects.filter(domain=domain, completed__isnull=True)
    for revocation in waiting.select_related("rollout", "principal", "actor", "domain"):
        if _is_done(revocation) and _told(revocation):
            _complete(revocation)


def _is_done(revocation: Revocation) -> bool:
    if revocation.rollout is not None:
        return bool(revocation.rollout.state == Rollout.State.COMPLETE)
    return revocation.state == State.APPLYING and _taken_up(revocation)


def _told(revocation: Revocation) -> bool:
    """Whether each agent has signed that it enforces it, or has no lease any more from before.

    An agent that is itself revoked is asked nothing: its last lease has to end.
    """
    own = revocation.before.get("own_lease")
    if own is not None and datetime.fromisoformat(own) > timezone.now():
        return False
    silent = revocation.notices.exclude(state=Notice.State.APPLIED)
    return not silent.filter(deadline__gt=timezone.now()).exists()


def _complete(revocation: Revocation) -> None:
    """Sign what happened. The signature is asked for outside of the transaction that keeps it."""
    completed = timezone.now()
    body = receipts.receipt_body(revocation, completed.isoformat())
    authority = get_authority()
    receipt = sign_receipt(body, lambda context, data: authority.sign("receipt", context, data))
    _store_receipt(revocation_id=revocation.pk, receipt=receipt, completed=completed)


@audit.change
def _store_receipt(*, revocation_id: int, receipt: dict[str, Any], completed: Any) -> None:
    # Two processes may have signed: the first receipt stays.
    stored = Revocation.objects.filter(pk=revocation_id, completed__isnull=True).update(
        state=State.COMPLETE, receipt=receipt, completed=completed
    )
    if not stored:
        return
    revocation = Revocation.objects.select_related("domain", "principal").get(pk=revocation_id)
    timeline.note(revocation, "complete", unreachable=receipt["body"]["unreachable"])
    identity.record_change(
        actor=None,
        domain=revocation.domain,
        action="revocation.completed",
        object_type="revocation",
        object_id=revocation.pk,
        object_name=str(revocation),
        before=None,
        after={
            "uid": revocation.uid,
            "kind": revocation.kind,
            "principal": revocation.principal.name if revocation.principal else "",
            "subject": revocation.subject,
        },
        affects_agents=False,
        person=person_of(revocation),
    )
