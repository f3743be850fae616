"""Which rows a user may see. Every read on somebody's behalf starts at `visible_to`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from django.db import models
from django.utils import timezone


class DomainQuerySet(models.QuerySet[Any]):
    """Domains."""

    def visible_to(self, user: Any) -> Self:
        """All for operators, one's own for members, none for anybody else."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        if user.is_superuser:
            return self.all()
        return self.filter(pk__in=domains_of(user))


class DomainScopedQuerySet(models.QuerySet[Any]):
    """Rows that belong to a domain; `domain_path` leads there."""

    domain_path = "domain"

    def visible_to(self, user: Any) -> Self:
        if not user.is_authenticated or not user.is_active:
            return self.none()
        if user.is_superuser:
            return self.all()
        return self.filter(**{f"{self.domain_path}__in": domains_of(user)})


class SharedQuerySet(models.QuerySet[Any]):
    """Overlays and agents: the platform's, seen by everybody who runs a domain on it."""

    def visible_to(self, user: Any) -> Self:
        if not user.is_authenticated or not user.is_active:
            return self.none()
        if user.is_superuser or domains_of(user).exists():
            return self.all()
        return self.none()


class OwnQuerySet(models.QuerySet[Any]):
    """Rows that belong to one user and to nobody else, operators included."""

    def visible_to(self, user: Any) -> Self:
        return self.filter(user=user) if user.is_authenticated else self.none()


class DelegationQuerySet(DomainScopedQuerySet):
    """Delegations, seen by everybody who sees the domain."""

    def in_force(self) -> Self:
        return self.filter(begins__lte=timezone.now(), ends__gt=timezone.now())


def domains_of(user: Any) -> Any:
    """Domains of which the user is a member, or of which a part is delegated to them now."""
    now = timezone.now()
    delegated = user.delegations.order_by().filter(begins__lte=now, ends__gt=now)
    member = user.memberships.order_by()
    found = [rows.values("domain") for rows in (member, delegated)]
    found += [sight(user) for sight in _sights]
    if user.limited_to is not None:
        found = [rows.filter(domain__in=user.limited_to) for rows in found]
    first, *others = found
    return first.union(*others)


def within(user: Any, domain_id: int) -> bool:
    """Whether the way that a user came by, such as a restricted token, leads to a domain."""
    limited = getattr(user, "limited_to", None)
    return limited is None or domain_id in limited


def sees(user: Any, domain_id: int) -> bool:
    """Whether a user sees a domain for another reason than a membership or a delegation."""
    if not within(user, domain_id):
        return False
    return any(sight(user).filter(domain=domain_id).exists() for sight in _sights)


def add_sight(sight: Callable[[Any], models.QuerySet[Any, Any]]) -> None:
    """Have `sight` name more domains that a user sees, as rows of one column, `domain`."""
    _sights.append(sight)


_sights: list[Callable[[Any], models.QuerySet[Any, Any]]] = []
