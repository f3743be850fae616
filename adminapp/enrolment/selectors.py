"""Reads of tokens, requests and certificates."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone

from adminapp.enrolment.models import Certificate, Enrolment, EnrolmentToken, Fleet
from adminapp.identity.models import Agent, Principal

State = Enrolment.State


def token_hash(secret: str) -> str:
    # The secret has 256 random bits: a plain hash cannot be searched.
    return hashlib.sha256(secret.encode()).hexdigest()


def fleets(user: Any) -> QuerySet[Fleet]:
    """With how many agents each has confirmed."""
    taken = Q(tokens__enrolment__state__in=(State.CONFIRMED, State.REPLACED))
    found = Fleet.objects.visible_to(user).select_related("overlay")
    return found.annotate(confirmed=Count("tokens", filter=taken))


def tokens(user: Any) -> QuerySet[EnrolmentToken]:
    return EnrolmentToken.objects.visible_to(user).select_related(
        "overlay", "fleet", "principal", "domain"
    )


def enrolments(user: Any) -> QuerySet[Enrolment]:
    """Requests that a user may see: a domain's for its members, all for operators."""
    return Enrolment.objects.visible_to(user).select_related(
        "overlay", "agent", "principal", "domain", "decided_by", "token__fleet"
    )


def waiting(rows: QuerySet[Enrolment]) -> QuerySet[Enrolment]:
    """Those that somebody can decide still."""
    return rows.filter(state=State.PENDING, expires__gt=timezone.now())


def certificates(user: Any) -> QuerySet[Certificate]:
    return Certificate.objects.visible_to(user).select_related(
        "enrolment__agent", "enrolment__principal", "enrolment__domain"
    )


def in_force() -> Q:
    """Enrolments whose keys are the ones that count: of nobody banned, revoked or enrolled anew."""
    agent = Q(
        agent__state=Agent.State.ACTIVE,
        agent__sealing_key=F("sealing_key"),
        agent__verify_key=F("verify_key"),
    )
    client = Q(
        principal__state=Principal.State.ACTIVE,
        principal__sealing_key=F("sealing_key"),
        principal__verify_key=F("verify_key"),
    )
    return Q(state=State.CONFIRMED) & (agent | client)


def banned(rows: QuerySet[Certificate], now: datetime | None = None) -> QuerySet[Certificate]:
    """Certificates that would still hold by their dates and that nobody may accept."""
    good = Enrolment.objects.filter(in_force()).values("pk")
    return rows.filter(ends__gt=now or timezone.now()).exclude(enrolment__in=good)


def subjects() -> tuple[dict[str, str], dict[str, str]]:
    """The names in the certificates that count: of agents by name, of clients by handle."""
    rows = Certificate.objects.filter(
        enrolment__in=Enrolment.objects.filter(in_force()).values("pk")
    ).values_list("enrolment__kind", "enrolment__name", "subject")
    found: dict[str, dict[str, str]] = {"agent": {}, "client": {}}
    for kind, name, subject in rows.order_by("pk"):
        found[kind][name] = subject
    return found["agent"], found["client"]


def fleet_count(fleet: Fleet) -> int:
    """How many agents were confirmed because of a fleet."""
    taken = Enrolment.objects.filter(token__fleet=fleet)
    return taken.filter(state__in=(State.CONFIRMED, State.REPLACED)).count()
