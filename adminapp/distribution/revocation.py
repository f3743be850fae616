"""The life of a revocation: denied within a second, worthless a little later, then a receipt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Max, Q
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core.authority import get_authority
from adminapp.core.errors import Invalid
from adminapp.distribution import blindepochs, delivery, rollouts, timeline
from adminapp.distribution.models import Notice, Recipient, Revocation, Rollout
from adminapp.distribution.serving import serving_agents
from adminapp.identity import guests, permissions
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Principal, User
from adminapp.identity.recording import person_of
from adminapp.roles.models import Appointment
from adminapp.roles.services import end_appointment
from policyengine.bundles.addresses import audience
from policyengine.bundles.receipts import sign_receipt

State = Revocation.State


@audit.change
def revoke_principal(
    *,
    actor: User | None,
    principal: Principal,
    reason: str,
    expected_version: int | None = None,
) -> Revocation:
    """End a principal's rights. The commit of this transaction is T0.

    From T0 no lease is given that does not demand the notices written here.

    Raises:
        Forbidden: the actor does not manage the domain.
        Conflict: the principal is revoked already, or changed since.
        Invalid: no reason is given.
    """
    permissions.require_manager(actor, principal.domain)
    if not reason.strip():
        raise Invalid.at("/reason", "say why, for the audit and the receipt")
    # Whom to notify is asked before the homes count for nothing any more.
    audiences = [
        (domain, address)
        for domain in (principal.domain, *_visited(principal))
        for address in _concerned(principal, domain)
    ]
    _end_appointments(actor, principal)
    revoked = identity.mark_revoked(
        actor=actor, principal=principal, expected_version=expected_version
    )
    revocation = Revocation.objects.create(
        domain=revoked.domain, principal=revoked, actor=actor, reason=reason.strip()
    )
    _audit(revocation)
    blindepochs.forget(revoked.domain, revoked.handle)
    for domain, address in audiences:
        _write_notice(revocation, domain, address)
    timeline.note(revocation, "revoked", principal=revoked.name, agents=len(audiences))
    rollouts.request_advance(revoked.domain)
    return revocation


def advance_domain(domain_id: int) -> None:
    """Take every step that the domain's rollout and revocations can take now."""
    domain = Domain.objects.get(pk=domain_id)
    running = rollouts.running(domain)
    if running is not None:
        rollouts.advance(running.pk)
    _finish(domain)
    if rollouts.running(domain) is None:
        _begin_next(domain)


def advance_revocation(revocation_id: int) -> Revocation:
    """Take every step that this revocation can take now."""
    domain_id = Revocation.objects.values_list("domain_id", flat=True).get(pk=revocation_id)
    advance_domain(domain_id)
    return Revocation.objects.get(pk=revocation_id)


def advance_all() -> int:
    """Look at every domain where something is under way; returns how many."""
    open_rollouts = Rollout.objects.exclude(state=Rollout.State.COMPLETE)
    waiting = Revocation.objects.exclude(state__in=(State.COMPLETE, State.FAILED))
    domains = set(open_rollouts.values_list("domain_id", flat=True))
    domains |= set(waiting.values_list("domain_id", flat=True))
    domains |= set(rollouts.domains_with_waiting_keys())
    for domain_id in sorted(domains):
        advance_domain(domain_id)
    return len(domains)


@audit.change
def _begin_next(domain: Domain) -> None:
    """Revocations that came while a rollout ran share the next epoch."""
    waiting = list(Revocation.objects.filter(domain=domain, state=State.NOTICED))
    if waiting:
        rollout = rollouts.begin(domain=domain, cause="revocation")
        if rollout is not None:
            _join(waiting, rollout)
    elif cause := rollouts.keys_wait(domain):
        rollouts.begin(domain=domain, cause=cause, reencode=False)


def _join(waiting: Iterable[Revocation], rollout: Rollout) -> None:
    for revocation in waiting:
        revocation.rollout = rollout
        revocation.epoch_from = rollout.epoch_from.number if rollout.epoch_from else None
        revocation.epoch_to = rollout.epoch_to.number if rollout.epoch_to else None
        revocation.version += 1
        revocation.save()
    rollouts.mirror(rollout)


def _finish(domain: Domain) -> None:
    done = Revocation.objects.filter(
        domain=domain, rollout__state=Rollout.State.COMPLETE, completed__isnull=True
    )
    for revocation in done.select_related("rollout", "principal", "actor", "domain"):
        _complete(revocation)


def _complete(revocation: Revocation) -> None:
    """Sign what happened. The signature is asked for outside of the transaction that keeps it."""
    completed = timezone.now()
    body = receipt_body(revocation, completed.isoformat())
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
        after={"uid": revocation.uid, "principal": revocation.principal.name},
        affects_agents=False,
        person=person_of(revocation),
    )


def receipt_body(revocation: Revocation, completed: str) -> dict[str, Any]:
    """Who and what, T0, when each agent enforced it, what was replaced, what was not reached."""
    rollout = revocation.rollout
    agents = [_agent_entry(revocation, notice) for notice in revocation.notices.all()]
    members = [] if rollout is None else [_member_entry(member) for member in rollout.members.all()]
    silent = {entry["agent"] for entry in agents if entry["acknowledged"] is None}
    skipped = {entry["agent"] for entry in members if entry["skipped_in"]}
    job = rollout.epoch_to.jobs.first() if rollout and rollout.epoch_to else None
    return {
        "revocation": revocation.uid,
        "domain": revocation.domain.name,
        "principal": {"name": revocation.principal.name, "handle": revocation.principal.handle},
        "actor": revocation.actor.get_username() if revocation.actor else "system",
        "reason": revocation.reason,
        "t0": revocation.created.isoformat(),
        "lease_seconds": revocation.domain.lease_seconds,
        "notices": agents,
        "epochs": {"from": revocation.epoch_from, "to": revocation.epoch_to},
        "blind_epochs": _blind_epochs(rollout),
        "switches": members,
        "encodings_replaced": job.rows_total if job else 0,
        "unreachable": sorted(silent | skipped),
        "completed": completed,
    }


def _blind_epochs(rollout: Rollout | None) -> dict[str, int | None]:
    """The keys of hidden attributes that were replaced; none where the party held none."""
    before = rollout.blind_from if rollout else None
    after = rollout.blind_to if rollout else None
    return {
        "from": before.number if before else None,
        "to": after.number if after else None,
    }


def _agent_entry(revocation: Revocation, notice: Notice) -> dict[str, Any]:
    at = notice.acknowledged_at
    return {
        "agent": notice.audience.partition(":")[2],
        "domain": notice.domain.name,
        "number": notice.number,
        "acknowledged": at.isoformat() if at else None,
        "seconds_after_t0": round((at - revocation.created).total_seconds(), 3) if at else None,
    }


def _member_entry(member: Any) -> dict[str, Any]:
    return {
        "agent": member.audience.partition(":")[2],
        "switched": member.switched_at.isoformat() if member.switched_at else None,
        "skipped_in": member.skipped_in,
    }


def _visited(principal: Principal) -> list[Domain]:
    """Domains that the principal takes part in as a guest."""
    return list(Domain.objects.filter(pk__in=guests.hosts([principal.domain])).order_by("pk"))


def _concerned(principal: Principal, domain: Domain) -> list[str]:
    """The agents that hold its encoding; all of the domain's where it may publish."""
    holds = Q(homes__principal=principal) | Q(fallback_homes__principal=principal)
    held = Agent.objects.filter(holds, state=Agent.State.ACTIVE)
    agents = {agent.name for agent in held}
    if principal.kind != Principal.Kind.SUBSCRIBER:
        # What it published may be on its way between any two agents.
        agents |= {agent.name for agent in serving_agents(domain)}
    return [audience("agent", name) for name in sorted(agents)]


def _end_appointments(actor: User | None, principal: Principal) -> None:
    for appointment in Appointment.objects.filter(principal=principal).active():
        end_appointment(actor=actor, appointment=appointment)


def _audit(revocation: Revocation) -> None:
    identity.record_change(
        actor=revocation.actor,
        domain=revocation.domain,
        action="revocation.started",
        object_type="revocation",
        object_id=revocation.pk,
        object_name=str(revocation),
        before=None,
        after={"uid": revocation.uid, "reason": revocation.reason},
        affects_agents=False,
        person=person_of(revocation),
    )


def _write_notice(revocation: Revocation, domain: Domain, address: str) -> None:
    # INVARIANT: numbers count on without holes for each audience and domain, so that a lease's
    # minimum proves that every notice before it arrived too. What an audience says that it holds
    # counts as well: after a restore it may know notices that the database has forgotten.
    mine = {"audience": address, "domain": domain}
    last = max(
        Notice.objects.filter(**mine).aggregate(top=Max("number"))["top"] or 0,
        Recipient.objects.filter(**mine).aggregate(top=Max("notice"))["top"] or 0,
    )
    notice = Notice.objects.create(
        audience=address,
        domain=domain,
        number=last + 1,
        revocation=revocation,
    )
    delivery.request_notice(notice)
