"""Changes of policies, and what a change would do before it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from adminapp.audit import services as audit
from adminapp.catalog.models import EventType
from adminapp.core import versions
from adminapp.core.errors import Invalid, Problem
from adminapp.identity import permissions, ports
from adminapp.identity import selectors as identity
from adminapp.identity.lineage import lineage, nearest
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_row
from adminapp.policies import checks, findings, mapping, reach, selectors, valuerules
from adminapp.policies.access import Access
from adminapp.policies.crowd import Crowd
from adminapp.policies.finding import Finding
from adminapp.policies.language import Language
from adminapp.policies.models import Policy, PolicyVersion
from policyengine.attributes import unknown

FIELDS = frozenset(
    {
        "name",
        "title",
        "action",
        "event_type",
        "expression",
        "attributes",
        "rules",
        "enabled",
        "valid_from",
        "valid_until",
        "limit_count",
        "limit_seconds",
    }
)


@dataclass(frozen=True)
class Plan:
    """What a change of a policy would do.

    Args:
        gains: what principals could do that they cannot do now; the first thousand lines.
        losses: what they could no longer do; the first thousand lines.
        gained: how many attributes of how many types all principals would gain.
        lost: how many they would lose.
        agents: names of the agents that would get new rules.
        encodings: how many rules would be encoded anew, over all agents.
        findings: what is worth a second look about the policy as it would be.
        problems: why the change cannot be made; empty when it can.
        revision: the domain's revision that the plan was made against.
    """

    gains: tuple[Access, ...] = ()
    losses: tuple[Access, ...] = ()
    agents: tuple[str, ...] = ()
    encodings: int = 0
    gained: int = 0
    lost: int = 0
    findings: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = field(default=())
    revision: int = 0


# -- changes ---------------------------------------------------------------------------------


@audit.change
def create_policy(
    *,
    actor: User | None,
    domain: Domain,
    name: str,
    action: str,
    event_type: EventType | str,
    expression: str,
    title: str = "",
    attributes: list[str] | None = None,
    rules: Sequence[Mapping[str, Any]] = (),
    enabled: bool = True,
    valid_from: datetime | None = None,
    valid_until: datetime | None = None,
    limit_count: int | None = None,
    limit_seconds: int | None = None,
) -> Policy:
    """A new policy; `event_type` is a row or a name, of this domain or of one above it.

    Raises:
        Invalid: the expression (with its position), the attributes or the rules are wrong.
    """
    permissions.require_change(actor, domain, "policy", name, below=_name_of(event_type))
    row = Policy(domain=domain)
    _assign(
        row,
        {
            "name": name,
            "action": action,
            "event_type": event_type,
            "expression": expression,
            "title": title,
            "attributes": attributes,
            "rules": rules,
            "enabled": enabled,
            "valid_from": valid_from,
            "valid_until": valid_until,
            "limit_count": limit_count,
            "limit_seconds": limit_seconds,
        },
    )
    _require_sound(row)
    row.save(force_insert=True)  # checked just now
    ports.verify_model(row.domain)
    _keep_version(actor, row)
    record_row(actor, row.domain, "policy.created", row, after=mapping.snapshot(row))
    return row


@audit.change
def update_policy(
    *,
    actor: User | None,
    policy: Policy,
    data: Mapping[str, Any],
    expected_version: int | None = None,
) -> Policy:
    """Change what `data` names. Every state of a policy is kept as a version."""
    return _update(actor, policy, data, expected_version, "policy.updated")


@audit.change
def delete_policy(
    *, actor: User | None, policy: Policy, expected_version: int | None = None
) -> None:
    """Take a policy out of force for good; the audit keeps what it was."""
    permissions.require_change(actor, policy.domain, "policy", policy.name)
    row = versions.locked(policy, expected_version)
    before, pk = mapping.snapshot(row), row.pk
    revokes = _only_revokes(row)
    row.delete()
    row.pk = pk
    record_row(actor, row.domain, "policy.deleted", row, before=before, revokes=revokes)


@audit.change
def restore_policy_version(
    *, actor: User | None, policy: Policy, number: int, expected_version: int | None = None
) -> Policy:
    """Make an old version the newest one; it must still fit the domain's model."""
    kept = PolicyVersion.objects.filter(policy=policy, number=number).first()
    if kept is None:
        raise Invalid.at("/number", f"this policy has no version {number}", "unknown")
    return _update(
        actor, policy, _from_snapshot(kept.snapshot), expected_version, "policy.restored"
    )


def _update(
    actor: User | None,
    policy: Policy,
    data: Mapping[str, Any],
    expected_version: int | None,
    action: str,
) -> Policy:
    below = _name_of(data["event_type"]) if "event_type" in data else ""
    permissions.require_change(actor, policy.domain, "policy", policy.name, below=below)
    row = versions.locked(policy, expected_version)
    before = mapping.snapshot(row)
    _assign(row, data)
    _require_sound(row)
    versions.save(row)
    ports.verify_model(row.domain)
    _keep_version(actor, row)
    record_row(actor, row.domain, action, row, before=before, after=mapping.snapshot(row))
    return row


# -- plan ------------------------------------------------------------------------------------


def plan_policy_change(
    *,
    actor: User | None,
    domain: Domain,
    policy: Policy | None = None,
    data: Mapping[str, Any] | None = None,
) -> Plan:
    """What a change would do; nothing is written.

    Args:
        policy: the policy to be changed; None for a new one.
        data: its fields; None deletes the policy.
    """
    _require_planner(actor, domain, policy, data)
    revision = Domain.objects.values_list("revision", flat=True).get(pk=domain.pk)
    spoken = selectors.language(domain)
    changed, problems = _draft(domain, policy, data, spoken)
    if problems:
        return Plan(problems=tuple(problems), revision=revision)
    now = reach.take(domain)
    wanted = selectors.effective_rows(domain, without=policy, also=changed)
    then = now.among(wanted, spoken)
    found = reach.compare(now, then)
    noticed = (
        findings.findings(domain, only=[changed.name], among=wanted, held=then) if changed else []
    )
    agents = tuple(identity.serving_agents(domain).values_list("name", flat=True))
    return Plan(
        gains=found.gains,
        losses=found.losses,
        gained=found.gained,
        lost=found.lost,
        agents=agents,
        findings=tuple(noticed),
        encodings=_encodings(changed, wanted, spoken, now.crowd) * len(agents),
        revision=revision,
    )


def _require_planner(
    actor: User | None, domain: Domain, policy: Policy | None, data: Mapping[str, Any] | None
) -> None:
    """Who may make a change may ask what it would do."""
    values = data or {}
    name = policy.name if policy is not None else str(values.get("name", ""))
    below = _name_of(values["event_type"]) if "event_type" in values else ""
    permissions.require_change(actor, domain, "policy", name, below=below)


def _draft(
    domain: Domain,
    policy: Policy | None,
    data: Mapping[str, Any] | None,
    spoken: Language,
) -> tuple[Policy | None, list[Problem]]:
    """The policy as it would be, unsaved, and what is wrong with it."""
    if data is None:
        return None, []
    row = Policy(domain=domain) if policy is None else Policy.objects.get(pk=policy.pk)
    try:
        _assign(row, data)
        versions.check(row)
        _check(row, spoken)
    except Invalid as error:
        return None, list(error.problems)
    return row, []


def _encodings(policy: Policy | None, rows: list[Policy], spoken: Language, people: Crowd) -> int:
    """How many rules a policy becomes at one agent: a join is one rule for each known value."""
    if policy is None or not policy.in_force() or policy.action not in valuerules.ACCESS:
        return 0
    return sum(
        people.combinations([join.left for join in way.joins]) if way.joins else 1
        for grant in selectors.grants_of(rows, spoken)
        if grant.policy is policy
        for way in grant.conjunctions
    )


# -- shared ----------------------------------------------------------------------------------


def _assign(row: Policy, data: Mapping[str, Any]) -> None:
    values = dict(data)
    if "event_type" in values:
        values["event_type"] = _event_type(row.domain, values["event_type"])
    versions.assign(row, values, FIELDS)
    row.rules = valuerules.canonical(row.rules, row.action)


def _name_of(event_type: Any) -> str:
    return event_type.name if isinstance(event_type, EventType) else str(event_type)


def _event_type(domain: Domain, wanted: Any) -> EventType:
    """The type of a name: the domain's own, or that of the nearest domain above."""
    line = lineage(domain)
    name = _name_of(wanted)
    rows = EventType.objects.filter(domain__in=line)
    found = nearest(rows.filter(name=name), line)
    foreign = isinstance(wanted, EventType) and wanted.domain_id not in {each.pk for each in line}
    if name not in found or foreign:
        error = unknown("event type", name, rows.values_list("name", flat=True))
        raise Invalid([Problem.from_input_error(error, "/event_type")])
    return found[name]


def _only_revokes(row: Policy) -> bool:
    """Whether nobody can gain anything when a policy goes.

    Publishers gain when nothing asks them to advertise, and a policy may hide another one of a
    domain above.
    """
    above = [each.pk for each in lineage(row.domain)[1:]]
    hidden = Policy.objects.filter(domain__in=above, name=row.name).exists()
    return row.action != Policy.Action.ADVERTISE and not hidden


def _require_sound(row: Policy) -> None:
    versions.check(row)
    _check(row, selectors.language(row.domain))


def _check(row: Policy, spoken: Language) -> None:
    problems = checks.policy_problems(row, spoken)
    if problems:
        raise Invalid(problems)


def _from_snapshot(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    # versions of before there were rules, and limits
    values = {"rules": [], "limit_count": None, "limit_seconds": None, **snapshot}
    for name in ("valid_from", "valid_until"):
        values[name] = parse_datetime(values[name]) if values[name] else None
    return values


def _keep_version(actor: User | None, row: Policy) -> None:
    PolicyVersion.objects.create(
        policy=row, number=row.version, snapshot=mapping.snapshot(row), actor=actor
    )
