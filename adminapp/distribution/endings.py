"""What each kind of revocation ends: the ordinary change below it, as a part of T0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from adminapp.agreements.models import Agreement
from adminapp.agreements.services import withdraw_agreement
from adminapp.core.errors import Conflict, InUse, Invalid
from adminapp.distribution import bans, blindepochs
from adminapp.distribution.models import Revocation
from adminapp.identity import permissions
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Principal, User
from adminapp.roles.models import Appointment, Role
from adminapp.roles.selectors import active_roles
from adminapp.roles.services import end_appointment, retire_role
from adminapp.roles.standing import rules_about
from adminapp.trustgroups.models import TrustGroup
from adminapp.trustgroups.services import update_trust_group

Kind = Revocation.Kind


@dataclass(frozen=True)
class Target:
    """What is to be revoked; of the other fields each kind needs its own.

    Args:
        kind: of `Revocation.Kind`.
        domain: in which the revocation is kept; its managers may ask for it.
        row: the appointment, role, agreement, agent or trust group.
        principal: whose rights end, where they are one principal's.
        name: of the role that a holder loses, or of the attribute.
        agent: the member of the trust group.
    """

    kind: str
    domain: Domain
    row: Any = None
    principal: Principal | None = None
    name: str = ""
    agent: Agent | None = None
    subject: dict[str, str] = field(default_factory=dict)


def principal(row: Principal) -> Target:
    """Everything that a principal may do."""
    return Target(Kind.PRINCIPAL, row.domain, principal=row)


def appointment(row: Appointment) -> Target:
    """An appointment, which its principal holds no longer."""
    return Target(
        Kind.APPOINTMENT,
        row.principal.domain,
        row,
        row.principal,
        subject={"appointment": row.atom or row.name},
    )


def holder(principal: Principal, role: str) -> Target:
    """The role of one principal: every appointment ends that it rests on."""
    return Target(Kind.HOLDER, principal.domain, None, principal, name=role, subject={"role": role})


def role(row: Role) -> Target:
    """A role, which nobody can have any longer."""
    return Target(Kind.ROLE, row.domain, row, subject={"role": row.name})


def attribute(principal: Principal, name: str) -> Target:
    """An attribute of a principal."""
    return Target(
        Kind.ATTRIBUTE, principal.domain, None, principal, name=name, subject={"attribute": name}
    )


def agreement(row: Agreement, side: str) -> Target:
    """An agreement, by the word of one side."""
    subject = {
        "agreement": row.name,
        "provider": row.provider.name,
        "consumer": row.consumer.name,
        "side": side,
    }
    return Target(Kind.AGREEMENT, row.domain_of(side), row, name=side, subject=subject)


def client_key(principal: Principal) -> Target:
    """The keys of a client, which somebody else may have."""
    return Target(Kind.CLIENT_KEY, principal.domain, None, principal)


def member(group: TrustGroup, agent: Agent) -> Target:
    """An agent in one trust group."""
    subject = {"agent": agent.name, "trust_group": group.name}
    return Target(Kind.MEMBER, group.domain, group, agent=agent, subject=subject)


def agents(row: Agent, domains: list[Domain]) -> list[Target]:
    """An agent, in every domain that it serves."""
    subject = {"agent": row.name}
    return [Target(Kind.AGENT, domain, row, agent=row, subject=subject) for domain in domains]


def require(actor: User | None, target: Target) -> None:
    """Managers of the domain may ask; for an agent, which serves all, operators alone."""
    if target.kind == Kind.AGENT:
        permissions.require_operator(actor)
    else:
        permissions.require_manager(actor, target.domain)


def end(actor: User | None, target: Target, reason: str, version: int | None) -> None:
    """Carry out the change; it raises the revision of every domain that it concerns."""
    _ENDINGS[Kind(target.kind)](actor, target, reason, version)


def _principal(actor: User | None, target: Target, reason: str, version: int | None) -> None:
    """Everything at once: its appointments, its rights, and what was sealed for it."""
    row = _whose(target)
    for each in Appointment.objects.filter(principal=row).active():
        end_appointment(actor=actor, appointment=each)
    identity.mark_revoked(actor=actor, principal=row, expected_version=version)
    blindepochs.forget(row.domain, row.handle)


def _appointment(actor: User | None, target: Target, reason: str, version: int | None) -> None:
    end_appointment(actor=actor, appointment=target.row, reason=reason, expected_version=version)


def _holder(actor: User | None, target: Target, reason: str, version: int | None) -> None:
    principal = _whose(target)
    _check_version(principal, version)
    if target.name not in active_roles(principal):
        raise Invalid.at("/role", f"`{principal.name}` does not have the role `{target.name}`")
    rules = rules_about(target.domain, [target.name])
    needed = {
        each.atom.name for rule in rules for each in rule.credentials if each.kind == "appointment"
    }
    held = Appointment.objects.filter(principal=principal, name__in=needed).active()
    for row in held:
        end_appointment(actor=actor, appointment=row, reason=reason)
    if target.name in active_roles(principal):
        raise InUse(
            f"`{principal.name}` has the role `{target.name}` without an appointment; "
            "revoke the attribute that it rests on, or the role itself"
        )


def _role(actor: User | None, target: Target, reason: str, version: int | None) -> None:
    retire_role(actor=actor, role=target.row, expected_version=version)


def _attribute(actor: User | None, target: Target, reason: str, version: int | None) -> None:
    identity.withdraw_attribute(
        actor=actor, principal=_whose(target), name=target.name, expected_version=version
    )


def _agreement(actor: User | None, target: Target, reason: str, version: int | None) -> None:
    if target.row.state != Agreement.State.ACCEPTED:
        raise InUse("this agreement opens nothing; withdraw it instead")
    withdraw_agreement(
        actor=actor,
        agreement=target.row,
        reason=reason,
        side=target.name,
        expected_version=version,
    )


def _client_key(actor: User | None, target: Target, reason: str, version: int | None) -> None:
    principal = _whose(target)
    if principal.state == Principal.State.REVOKED:
        raise InUse("this principal is revoked; its keys open nothing")
    identity.clear_credentials(actor=actor, principal=principal, expected_version=version)
    blindepochs.lose(target.domain, principal.handle, "a client's key was revoked")


def _agent(actor: User | None, target: Target, reason: str, version: int | None) -> None:
    row = target.row
    row.refresh_from_db()
    if row.state != Agent.State.BANNED:
        identity.set_agent_state(actor=actor, agent=row, state="banned", expected_version=version)
    bans.rekey(row)


def _member(actor: User | None, target: Target, reason: str, version: int | None) -> None:
    group, agent = target.row, target.agent
    members = [each for each in group.members.all() if agent is None or each.pk != agent.pk]
    if agent is None or len(members) == group.members.count():
        raise Invalid.at("/agent", "this agent is not a member of the trust group", "unknown")
    update_trust_group(
        actor=actor,
        trust_group=group,
        members=members,
        reason=reason[:200],
        expected_version=version,
    )


def _whose(target: Target) -> Principal:
    assert target.principal is not None  # the makers of these kinds above see to it
    return target.principal


def _check_version(principal: Principal, version: int | None) -> None:
    current = Principal.objects.values_list("version", flat=True).get(pk=principal.pk)
    if version is not None and current != version:
        raise Conflict(
            "this principal was changed by somebody else in the meantime",
            expected=version,
            current=current,
        )


_ENDINGS: dict[str, Callable[[User | None, Target, str, int | None], None]] = {
    Kind.PRINCIPAL: _principal,
    Kind.APPOINTMENT: _appointment,
    Kind.HOLDER: _holder,
    Kind.ROLE: _role,
    Kind.ATTRIBUTE: _attribute,
    Kind.AGREEMENT: _agreement,
    Kind.CLIENT_KEY: _client_key,
    Kind.AGENT: _agent,
    Kind.MEMBER: _member,
}
