"""T0: one transaction ends the rights, writes the notices and what leases demand from now on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core.errors import Invalid
from adminapp.distribution import delivery, endings, losses, rights, rollouts, timeline
from adminapp.distribution.endings import Kind, Target
from adminapp.distribution.losses import NO_FLOORS, Told
from adminapp.distribution.models import Notice, Revocation, RevokedRight, new_uid
from adminapp.distribution.serving import domains_of_agent, serving_agents
from adminapp.identity import guests, permissions
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Principal, User
from adminapp.identity.recording import person_of
from policyengine.bundles.addresses import audience

_SLACK = timedelta(seconds=1)


@audit.change
def revoke_principal(
    *,
    actor: User | None,
    principal: Principal,
    reason: str,
    expected_version: int | None = None,
    uid: str = "",
) -> Revocation:
    """End a principal's rights. The commit of this transaction is T0.

    From T0 no lease is given that does not demand the notices written here. `uid` is that of a
    revocation which is carried out again.

    Raises:
        Forbidden: the actor does not manage the domain.
        Conflict: the principal is revoked already, or changed since.
        Invalid: no reason is given.
    """
    permissions.require_manager(actor, principal.domain)
    require_reason(reason)
    # Whom to notify is asked before the homes count for nothing any more.
    told = [
        Told(domain, agent, NO_FLOORS)
        for domain in (principal.domain, *_visited(principal))
        for agent in _concerned(principal, domain)
    ]
    target = endings.principal(principal)
    domains = losses.concerned(target)
    endings.end(actor, target, reason.strip(), expected_version)
    kept = {"encodings": losses.encodings(domains, [principal.handle])}
    gone = rights.of_target(target, domains, losses.raised_now())
    return _open(actor, target, reason, told, gone, before=kept, uid=uid)


@audit.change
def revoke(
    *,
    actor: User | None,
    target: Target,
    reason: str,
    expected_version: int | None = None,
    uid: str = "",
) -> Revocation:
    """End one thing that gives rights. The commit of this transaction is T0.

    What rests on it falls with it: who loses something is found by comparing what everybody may
    do, and the agents that serve them hold everything for these back until they have the revision
    that knows. From T0 no lease is given that does not demand their notices. `uid` is that of a
    revocation which is carried out again.

    Raises:
        Forbidden: the actor does not manage the domain.
        Conflict: it was changed since.
        InUse: it is over already, or somebody would gain something.
        Invalid: no reason is given.
    """
    endings.require(actor, target)
    require_reason(reason)
    return _begin(actor, target, reason, expected_version, uid=uid)


@audit.change
def revoke_agent(
    *, actor: User | None, agent: Agent, reason: str, expected_version: int | None = None
) -> list[Revocation]:
    """Trust an agent, or its keys, no longer: banned, and what it knew replaced in every domain.

    Returns:
        A revocation for each domain that it served; they share their batch.
    """
    permissions.require_operator(actor)
    require_reason(reason)
    domains = domains_of_agent(agent)
    if not domains:
        raise Invalid.at("/agent", f"`{agent.name}` serves no domain; banning it is enough")
    batch = new_uid()
    version: int | None = expected_version
    made = []
    for target in endings.agents(agent, domains):
        made.append(_begin(actor, target, reason, version, batch=batch))
        version = None  # the first of them has changed the row
    return made


def require_reason(reason: str) -> None:
    """Raises Invalid where nothing is said."""
    if not reason.strip():
        raise Invalid.at("/reason", "say why, for the audit and the receipt")


def _begin(
    actor: User | None,
    target: Target,
    reason: str,
    version: int | None,
    *,
    batch: str = "",
    uid: str = "",
) -> Revocation:
    domains = losses.concerned(target)
    own = _own_lease(target)
    before = losses.states(target)
    endings.end(actor, target, reason.strip(), version)
    after = losses.states(target)
    lost = losses.between(before, after, domains)
    told = losses.told(target, lost, domains)
    handles = {handle for each in lost for handle in each.handles or ()}
    if target.principal is not None:
        handles.add(target.principal.handle)
    kept: dict[str, Any] = {
        "principals": len(handles),
        "rights": sum(each.lost for each in lost),
    }
    if target.kind not in {Kind.AGENT, Kind.MEMBER}:
        kept["encodings"] = losses.encodings(domains, handles)
    if own is not None:
        kept["own_lease"] = own.isoformat()
    if before:
        gone = rights.of_losses(lost, before, after, losses.raised_now())
    else:
        gone = rights.of_target(target, domains, losses.raised_now())
    return _open(actor, target, reason, told, gone, before=kept, batch=batch, uid=uid)


def _own_lease(target: Target) -> datetime | None:
    """Until when an agent that is revoked may have a lease that was given before."""
    if target.kind != Kind.AGENT:
        return None
    return timezone.now() + losses.deadline(target.domain, target.row.name)


def _open(
    actor: User | None,
    target: Target,
    reason: str,
    told: Iterable[Told],
    gone: Iterable[RevokedRight],
    *,
    before: dict[str, Any],
    batch: str = "",
    uid: str = "",
) -> Revocation:
    raised = losses.raised_now()
    revocation = Revocation.objects.create(
        uid=uid or new_uid(),
        domain=target.domain,
        kind=target.kind,
        principal=target.principal,
        subject=target.subject,
        batch=batch,
        actor=actor,
        reason=reason.strip(),
        revision=raised.get(target.domain.pk, 0),
        before=before,
    )
    _audit(revocation)
    listed = list(told)
    waits = _write_notices(revocation, listed, raised)
    own = before.get("own_lease")
    rights.keep(revocation, gone, datetime.fromisoformat(own) if own else None)
    detail = {"agents": len(listed), **{k: v for k, v in before.items() if k != "encodings"}}
    if target.principal is not None:
        detail["principal"] = target.principal.name
    timeline.note(revocation, "revoked", **detail)
    rollouts.request_advance(target.domain)
    if own:
        waits.append(datetime.fromisoformat(own) - timezone.now())
    if waits:
        # Who says nothing is waited for until its last lease has ended, and no longer.
        rollouts.request_advance(target.domain, wait=max(waits) + _SLACK)
    return revocation


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
    return sorted(agents)


def _audit(revocation: Revocation) -> None:
    identity.record_change(
        actor=revocation.actor,
        domain=revocation.domain,
        action="revocation.started",
        object_type="revocation",
        object_id=revocation.pk,
        object_name=str(revocation),
        before=None,
        after={
            "uid": revocation.uid,
            "kind": revocation.kind,
            "subject": revocation.subject,
            "reason": revocation.reason,
        },
        affects_agents=False,
        revokes=True,
        person=person_of(revocation),
    )


def _write_notices(
    revocation: Revocation, told: Iterable[Told], raised: Mapping[int, int]
) -> list[timedelta]:
    """However many agents are told, with a few statements: T0 is not before the last of them.

    Returns:
        For each how long the lease that it has can last.
    """
    by_domain: dict[Domain, list[Told]] = {}
    for each in told:
        by_domain.setdefault(each.domain, []).append(each)
    notices: list[Notice] = []
    longest: list[timedelta] = []
    for domain, listed in by_domain.items():
        waits = losses.deadlines(domain, [each.agent for each in listed])
        longest += waits.values()
        last = delivery.last_numbers(domain, [audience("agent", each.agent) for each in listed])
        for each in listed:
            address = audience("agent", each.agent)
            last[address] += 1
            notices.append(
                Notice(
                    audience=address,
                    domain=domain,
                    number=last[address],
                    revocation=revocation,
                    floors={} if each.floors == NO_FLOORS else each.floors.to_json(),
                    revision=0 if each.floors == NO_FLOORS else raised.get(domain.pk, 0),
                    deadline=revocation.created + waits[each.agent],
                )
            )
    Notice.objects.bulk_create(notices)
    if notices:
        delivery.request_notices(revocation)
    return longest
