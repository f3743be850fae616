"""Reads of domains, people, agents and principals."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from django.db.models import Prefetch, Q, QuerySet
from django.utils import timezone

from adminapp.identity import guests
from adminapp.identity.models import (
    Agent,
    ApiToken,
    Delegation,
    Domain,
    HomeAgent,
    Membership,
    Overlay,
    Principal,
    PrincipalImport,
    User,
)


def domains(user: Any) -> QuerySet[Domain]:
    return Domain.objects.visible_to(user).select_related("parent")


def memberships(user: Any, domain: Domain | None = None) -> QuerySet[Membership]:
    found = Membership.objects.visible_to(user).select_related("user", "domain")
    return found if domain is None else found.filter(domain=domain)


def delegations(user: Any, domain: Domain | None = None) -> QuerySet[Delegation]:
    """Past ones included."""
    found = Delegation.objects.visible_to(user).select_related("user", "domain", "granted_by")
    return found if domain is None else found.filter(domain=domain)


def imports(user: Any) -> QuerySet[PrincipalImport]:
    return PrincipalImport.objects.visible_to(user).select_related("domain", "user")


def import_of(pk: int) -> PrincipalImport | None:
    """For the work on it; a domain that was deleted took its imports along."""
    return PrincipalImport.objects.select_related("domain", "user").filter(pk=pk).first()


def overlays(user: Any) -> QuerySet[Overlay]:
    return Overlay.objects.visible_to(user)


def agents(user: Any) -> QuerySet[Agent]:
    return Agent.objects.visible_to(user).select_related("overlay")


def principals(user: Any, domain: Domain | None = None) -> QuerySet[Principal]:
    """With their home agents, so that showing many costs no more queries than showing one."""
    found = with_homes(Principal.objects.visible_to(user))
    return found if domain is None else found.filter(domain=domain)


def pseudonyms(user: Any, *, named: str = "", like: str = "", limit: int = 1000) -> list[str]:
    """What the audit calls the principals and users of a name, or with these words in it.

    Of principals only those that `user` may see; of either at most `limit`.
    """
    wanted = {"name": named} if named else {"name__icontains": like}
    seen = Principal.objects.visible_to(user).filter(**wanted).order_by("pk")
    account = {key.replace("name", "username", 1): value for key, value in wanted.items()}
    people = User.objects.filter(**account).order_by("pk").values_list("pk", flat=True)
    return [
        *seen.values_list("handle", flat=True)[:limit],
        *(f"u-{pk}" for pk in people[:limit]),
    ]


def active_principals(domain: Domain) -> QuerySet[Principal]:
    """Everybody who may take part, revoked ones left out."""
    return with_homes(domain.principals.filter(state=Principal.State.ACTIVE))


def enrolled(now: datetime | None = None) -> Q:
    """Principals whose keys may be used.

    Keys of a certificate run out with it, and those of a banned agent stop with it.
    """
    moment = now or timezone.now()
    keys = Q(certificate_until__isnull=True) | Q(certificate_until__gt=moment)
    standing = Q(broker__isnull=True) | ~Q(broker__state=Agent.State.BANNED)
    return keys & standing & ~Q(sealing_key="") & ~Q(verify_key="")


def next_expiry(domain: Domain, *, after: datetime) -> datetime | None:
    """When the next certificate of a living principal runs out."""
    held = domain.principals.filter(
        state=Principal.State.ACTIVE, certificate_until__gt=after
    ).order_by("certificate_until")
    return held.values_list("certificate_until", flat=True).first()


def with_homes(principals: QuerySet[Principal]) -> QuerySet[Principal]:
    homes = HomeAgent.objects.select_related("overlay", "agent", "fallback")
    return principals.select_related("domain", "broker").prefetch_related(
        Prefetch("homes", queryset=homes.order_by("overlay__name"))
    )


def homes_served(**principal: Any) -> Q:
    """Agents that are home to such principals, or stand in for one that is."""
    wanted = {f"principal__{name}": value for name, value in principal.items()}
    homes = HomeAgent.objects.order_by().filter(**wanted)
    # Subqueries: joins would pair every home of an agent with everything else that it has.
    return Q(pk__in=homes.values("agent")) | Q(
        pk__in=homes.exclude(fallback=None).values("fallback")
    )


def serving_agents(domain: Domain) -> QuerySet[Agent]:
    """Active agents that are home to somebody of the domain, or to a guest."""
    visitors = homes_served(pk__in=guests.guests(domain).values("pk"))
    homes = homes_served(domain=domain) | visitors
    return (
        Agent.objects.filter(homes, state=Agent.State.ACTIVE)
        .select_related("overlay")
        .distinct()
        .order_by("name")
    )


def tokens(user: Any) -> QuerySet[ApiToken]:
    return ApiToken.objects.visible_to(user).prefetch_related("domains")


def token_hash(secret: str) -> str:
    # The secret has 256 random bits: a plain hash cannot be searched, a slow one would only cost.
    return hashlib.sha256(secret.encode()).hexdigest()


def token_by_secret(secret: str) -> ApiToken | None:
    """The token that this secret opens, unless it has expired or its user is gone."""
    return (
        ApiToken.objects.select_related("user")
        .filter(hash=token_hash(secret), expires__gt=timezone.now(), user__is_active=True)
        .first()
    )
