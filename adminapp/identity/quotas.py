"""How much a domain may hold, and how much it holds.

Counting every kind anew with each object would cost as many queries as there are kinds. So the
domain keeps two counts, raised and lowered where changes are recorded. They can drift upwards only
(rows that go with others, principals that are revoked), and before anything is refused the domain
is counted exactly: nobody is refused for a count that is wrong, and nobody gets past the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import F, Value
from django.db.models.functions import Greatest

from adminapp.core.errors import OverQuota
from adminapp.identity import kinds
from adminapp.identity.models import Domain

PRINCIPAL = "principal"
_UNCOUNTED = frozenset({"domain", PRINCIPAL})


@dataclass(frozen=True)
class Use:
    """What a domain has used of one quota."""

    used: int
    limit: int


@dataclass(frozen=True)
class Usage:
    """What a domain has used of its quotas, counted now.

    Args:
        by_kind: how many objects of each kind.
    """

    objects: Use
    principals: Use
    by_kind: dict[str, int]


def max_objects(domain: Domain) -> int:
    """The limit in force: the domain's own, or the platform's."""
    return settings.MAX_OBJECTS if domain.max_objects is None else domain.max_objects


def max_principals(domain: Domain) -> int:
    """The limit in force: the domain's own, or the platform's."""
    return settings.MAX_PRINCIPALS if domain.max_principals is None else domain.max_principals


def requests_per_minute(domain: Domain) -> int:
    """The limit in force: the domain's own, or the platform's."""
    own = domain.requests_per_minute
    return settings.DOMAIN_REQUESTS_PER_MINUTE if own is None else own


def usage(domain: Domain) -> Usage:
    """What a domain holds, in one query a kind."""
    by_kind = {kind.name: _count(kind, domain) for kind in kinds.kinds() if kind.name != "domain"}
    objects = sum(number for name, number in by_kind.items() if name != PRINCIPAL)
    return Usage(
        Use(objects, max_objects(domain)),
        Use(by_kind.get(PRINCIPAL, 0), max_principals(domain)),
        by_kind,
    )


def held(document: Any) -> int:
    """1 for the document of an object that is there; what was revoked takes no room."""
    there = document is not None
    return int(there and not (isinstance(document, dict) and document.get("state") == "revoked"))


def count(domain: Domain, kind: str, number: int) -> None:
    """Note that a domain has so many more (or fewer) objects of a kind, in the change itself.

    Raises:
        OverQuota: there is no room for them; the change is taken back.
    """
    if not number or kind == "domain" or kind not in kinds.names():
        return
    field = "principal_count" if kind == PRINCIPAL else "object_count"
    row = Domain.objects.filter(pk=domain.pk)
    row.filter(**{f"{field}__isnull": False}).update(
        **{field: Greatest(F(field) + number, Value(0))}
    )
    if number > 0:
        _check(row.get(), field)


def _check(domain: Domain, field: str) -> None:
    limit = max_principals(domain) if field == "principal_count" else max_objects(domain)
    held = getattr(domain, field)
    if held is not None and held <= limit:
        return
    exact = _exactly(domain, field)
    Domain.objects.filter(pk=domain.pk).update(**{field: exact})
    if exact > limit:
        what = "principals" if field == "principal_count" else "objects"
        raise OverQuota(
            f"`{domain.name}` may have {limit} {what}, and would have {exact}; "
            "an operator can raise its quota"
        )


def _exactly(domain: Domain, field: str) -> int:
    if field == "principal_count":
        return _count(kinds.kind(PRINCIPAL), domain)
    counted = [kind for kind in kinds.kinds() if kind.name not in _UNCOUNTED]
    return sum(_count(kind, domain) for kind in counted)


def _count(kind: kinds.Kind, domain: Domain) -> int:
    return len(kind.documents(domain)) if kind.count is None else kind.count(domain)
