"""The written, expiring acceptance of a risk: the only way round the privacy gate."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.catalog import mapping, protections
from adminapp.catalog.models import EventType, RiskAcceptance
from adminapp.core import versions
from adminapp.core.errors import InUse, Invalid, Problem
from adminapp.identity import permissions, ports
from adminapp.identity.models import User
from adminapp.identity.recording import record_row
from policyengine.attributes import unknown
from policyengine.errors import InputError

FIELDS = frozenset({"pia_class", "protection", "justification", "accepted_by", "until"})
LONGEST: Final = timedelta(days=365)


@audit.change
def accept_risk(
    *,
    actor: User | None,
    event_type: EventType,
    attribute: str,
    justification: str,
    until: datetime,
    pia_class: str = "",
    protection: str = "order-preserving",
    accepted_by: str = "",
) -> RiskAcceptance:
    """Accept that an attribute is protected less than its class asks for, for a while.

    Args:
        attribute: one that the type itself declares.
        until: at most a year from now; from then on the gate refuses again.
        pia_class: the class that it is accepted for; the one that the attribute has by default.
        protection: the kind of protection that is accepted.
        accepted_by: who takes the risk, as people call them; the actor by default. The audit says
            who entered it.
    """
    domain = event_type.domain
    permissions.require_manager(actor, domain)
    declared = event_type.attributes.filter(name=attribute).first()
    if declared is None:
        known = event_type.attributes.values_list("name", flat=True)
        error = unknown(f"attribute of `{event_type.name}`", attribute, known)
        raise Invalid([Problem.from_input_error(error, "/attribute")])
    row = RiskAcceptance(
        event_type=event_type,
        attribute=attribute,
        pia_class=pia_class or declared.pia_class,
        protection=protection,
        justification=justification.strip(),
        accepted_by=accepted_by.strip() or _name(actor),
        until=until,
    )
    _check(row)
    versions.create(row)
    ports.verify_model(domain)
    record_row(actor, domain, "risk-acceptance.created", row, after=mapping.risk_acceptance(row))
    return row


@audit.change
def update_acceptance(
    *,
    actor: User | None,
    risk_acceptance: RiskAcceptance,
    data: Mapping[str, Any],
    expected_version: int | None = None,
) -> RiskAcceptance:
    """Change what is accepted, why or until when: somebody accepts it anew."""
    domain = risk_acceptance.event_type.domain
    permissions.require_manager(actor, domain)
    row = versions.locked(risk_acceptance, expected_version)
    before = mapping.risk_acceptance(row)
    versions.assign(row, data, FIELDS)
    row.accepted_by = row.accepted_by.strip() or _name(actor)
    row.justification = row.justification.strip()
    _check(row)
    versions.save(row)
    ports.verify_model(domain)
    after = mapping.risk_acceptance(row)
    record_row(actor, domain, "risk-acceptance.updated", row, before=before, after=after)
    return row


@audit.change
def withdraw_acceptance(
    *,
    actor: User | None,
    risk_acceptance: RiskAcceptance,
    expected_version: int | None = None,
) -> None:
    """Take an acceptance back; the attribute must be protected otherwise by then.

    Raises:
        InUse: it is not.
    """
    permissions.require_manager(actor, risk_acceptance.event_type.domain)
    row = versions.locked(risk_acceptance, expected_version)
    domain = row.event_type.domain
    _withdraw(actor, row)
    try:
        ports.verify_model(domain)
    except Invalid as error:
        raise InUse(f"it is still needed: {error.message}") from error


def withdraw_all(actor: User | None, event_type: EventType) -> None:
    """Take back what was accepted for a type that goes."""
    for row in RiskAcceptance.objects.filter(event_type=event_type):
        _withdraw(actor, row)


def follow(actor: User | None, event_type: EventType, before: Mapping[str, Any]) -> None:
    """Take back what was accepted for attributes that a type no longer declares."""
    declared = set(event_type.attributes.values_list("name", flat=True))
    gone = {item["name"] for item in before["attributes"]} - declared
    for row in RiskAcceptance.objects.filter(event_type=event_type, attribute__in=gone):
        _withdraw(actor, row)


def _withdraw(actor: User | None, row: RiskAcceptance) -> None:
    pk, before = row.pk, mapping.risk_acceptance(row)
    row.delete()
    row.pk = pk
    record_row(actor, row.event_type.domain, "risk-acceptance.withdrawn", row, before=before)


def _check(row: RiskAcceptance) -> None:
    now = timezone.now()
    problems = []
    if row.until <= now:
        problems.append(Problem("/until", "an acceptance ends in the future"))
    if row.until > now + LONGEST:
        problems.append(Problem("/until", "an acceptance holds for a year at most"))
    if not row.justification:
        problems.append(Problem("/justification", "say in writing why the risk is taken"))
    if row.protection != protections.ACCEPTABLE or row.pia_class not in protections.ACCEPTABLE_FOR:
        classes = " and ".join(protections.ACCEPTABLE_FOR)
        problems.append(
            Problem(
                "/protection",
                f"only {protections.ACCEPTABLE} protection of {classes} attributes can be accepted;"
                " nothing makes up for a value in clear, and the rest needs no acceptance",
            )
        )
    if problems:
        raise Invalid(problems)
    try:
        protections.acceptance(row)
    except InputError as error:
        pointer = {"who": "/accepted_by", "why": "/justification"}.get(error.where or "", "")
        raise Invalid([Problem.from_input_error(error, pointer)]) from error


def _name(actor: User | None) -> str:
    return audit.SYSTEM if actor is None else actor.get_username()
