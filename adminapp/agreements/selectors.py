"""Reads of agreements: who sees them, and what is open at a moment."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Prefetch, Q, QuerySet
from django.utils import timezone

from adminapp.agreements import mapping
from adminapp.agreements.effect import Opening
from adminapp.agreements.models import Acceptance, Agreement, AgreementRound
from adminapp.identity import permissions
from adminapp.identity.models import Domain, Membership, Principal
from adminapp.roles.models import Appointment

State = Agreement.State


def agreements(user: Any, domain: Domain | None = None) -> QuerySet[Agreement]:
    """With their rounds, so that showing many costs no more queries than showing one."""
    found = with_rounds(Agreement.objects.visible_to(user))
    return found if domain is None else found.filter(Q(provider=domain) | Q(consumer=domain))


def with_rounds(found: QuerySet[Agreement]) -> QuerySet[Agreement]:
    words = Acceptance.objects.select_related("actor").order_by("id")
    rounds = AgreementRound.objects.select_related("actor").order_by("number")
    return found.select_related("provider", "consumer", "accepted_round").prefetch_related(
        Prefetch("rounds", rounds.prefetch_related(Prefetch("acceptances", words)))
    )


def directory(user: Any) -> QuerySet[Domain]:
    """Every domain by name and title, for those who may propose agreements; else nothing."""
    if permissions.is_operator(user) or manages_anything(user):
        return Domain.objects.order_by("name")
    return Domain.objects.none()


def manages_anything(user: Any) -> bool:
    if not (user.is_authenticated and user.is_active):
        return False
    return Membership.objects.filter(user=user, role=Membership.Role.MANAGER).exists()


def seen_domains(user: Any) -> frozenset[int]:
    """Primary keys of the domains that the user sees from inside."""
    return frozenset(Domain.objects.visible_to(user).values_list("pk", flat=True))


def state(row: Agreement, at: datetime | None = None) -> str:
    """The state as people see it: an accepted agreement lapses by itself."""
    if row.state == State.ACCEPTED and row.accepted_round is not None:
        moment = at or timezone.now()
        if row.accepted_round.ends <= moment:
            return "lapsed"
    return row.state


def in_force(domain: Domain, *, at: datetime | None = None) -> QuerySet[Agreement]:
    """Agreements under which this domain's events are open to others at a moment."""
    rows = Agreement.objects.filter(provider=domain).in_force(at)
    return rows.select_related("provider", "consumer", "accepted_round").order_by("pk")


def openings(domain: Domain, *, at: datetime | None = None) -> tuple[Opening, ...]:
    """What is open to others at a moment (now by default), in one query."""
    return tuple(mapping.opening(row) for row in in_force(domain, at=at))


def guests(domain: Domain, *, at: datetime | None = None) -> QuerySet[Principal]:
    """Active principals of the consumers of a domain."""
    consumers = Agreement.objects.filter(provider=domain).in_force(at).values("consumer")
    return Principal.objects.filter(domain__in=consumers, state=Principal.State.ACTIVE)


def hosts(domains: Iterable[Domain], *, at: datetime | None = None) -> list[int]:
    """Primary keys of the domains that have opened something to one of these."""
    rows = Agreement.objects.filter(consumer__in=[domain.pk for domain in domains]).in_force(at)
    return list(rows.order_by("provider").values_list("provider", flat=True).distinct())


def providers_of(consumers: Any) -> QuerySet[Agreement]:
    """Domains (as `values`) that have opened something to one of these.

    Args:
        consumers: primary keys of domains, or a query for them.
    """
    return Agreement.objects.filter(consumer__in=consumers).in_force().values("provider")


def next_boundary(domain: Domain, *, after: datetime) -> datetime | None:
    """When access through agreements next changes by itself: in this domain as the provider.

    Agreements begin and lapse, and so do appointments and certificates of the consumers'
    principals.
    """
    rows = Agreement.objects.filter(provider=domain, state=State.ACCEPTED)
    moments: list[datetime] = []
    for field in ("starts", "ends"):
        place = f"accepted_round__{field}"
        moments += rows.filter(**{f"{place}__gt": after}).values_list(place, flat=True)
    consumers = rows.filter(accepted_round__ends__gt=after).values("consumer")
    held = Appointment.objects.filter(principal__domain__in=consumers)
    moments += _first(held.filter(starts__gt=after).order_by("starts").values_list("starts"))
    moments += _first(held.filter(ends__gt=after).order_by("ends").values_list("ends"))
    keys = Principal.objects.filter(domain__in=consumers, certificate_until__gt=after)
    moments += _first(keys.order_by("certificate_until").values_list("certificate_until"))
    return min(moments, default=None)


def _first(rows: Iterable[tuple[datetime, ...]]) -> list[datetime]:
    return [row[0] for row in rows[:1]]  # type: ignore[index]
