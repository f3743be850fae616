"""Domains above and below one another, and what a domain has from those above."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from adminapp.core import journal
from adminapp.identity.models import Domain

R = TypeVar("R")
Origin: TypeAlias = Literal["local", "overridden", "inherited"]

MAX_DEPTH = 16


@dataclass(frozen=True)
class Inherited(Generic[R]):
    """An object of a domain's effective model.

    Args:
        row: the object.
        origin: `local` is the domain's own, `overridden` its own in place of one from above,
            `inherited` one from above.
    """

    row: R
    origin: Origin


def lineage(domain: Domain) -> tuple[Domain, ...]:
    """The domain, its parent, and so on up to the root; a circle is cut where it closes."""
    return journal.remember(("lineage", domain.pk, domain.parent_id), lambda: _lineage(domain))


def _lineage(domain: Domain) -> tuple[Domain, ...]:
    found, seen, above = [domain], {domain.pk}, domain.parent
    while above is not None and above.pk not in seen and len(found) < MAX_DEPTH:
        found.append(above)
        seen.add(above.pk)
        above = above.parent
    return tuple(found)


def descendants(domain: Domain) -> list[Domain]:
    """Every domain below, the nearest first."""
    found: list[Domain] = []
    seen, level = {domain.pk}, [domain.pk]
    while level:
        below = [
            row
            for row in Domain.objects.filter(parent_id__in=level).order_by("name")
            if row.pk not in seen
        ]
        found += below
        level = [row.pk for row in below]
        seen.update(level)
    return found


def nearest(
    rows: Iterable[R],
    domains: Sequence[Domain],
    *,
    key: Callable[[R], str] = lambda row: row.name,  # type: ignore[attr-defined]
    domain_id: Callable[[R], int] = lambda row: row.domain_id,  # type: ignore[attr-defined]
) -> dict[str, R]:
    """Of rows of several domains the one nearest to the first, by name, in order of names."""
    return {name: each.row for name, each in inherited(rows, domains, key, domain_id).items()}


def inherited(
    rows: Iterable[R],
    domains: Sequence[Domain],
    key: Callable[[R], str] = lambda row: row.name,  # type: ignore[attr-defined]
    domain_id: Callable[[R], int] = lambda row: row.domain_id,  # type: ignore[attr-defined]
) -> dict[str, Inherited[R]]:
    """`nearest`, with where each row comes from.

    Args:
        rows: rows of the domains of a lineage.
        domains: the lineage, the domain itself first.
        key: the name by which rows hide one another.
        domain_id: primary key of the domain that a row stands in.
    """
    distance: Mapping[Any, int] = {domain.pk: index for index, domain in enumerate(domains)}
    by_name: dict[str, list[R]] = {}
    for row in rows:
        by_name.setdefault(key(row), []).append(row)
    return {
        name: _first(held, distance, domain_id)
        for name, held in sorted(by_name.items(), key=lambda item: item[0])
    }


def _first(
    rows: list[R], distance: Mapping[Any, int], domain_id: Callable[[R], int]
) -> Inherited[R]:
    ordered = sorted(rows, key=lambda row: distance[domain_id(row)])
    first = ordered[0]
    if distance[domain_id(first)] > 0:
        return Inherited(first, "inherited")
    return Inherited(first, "overridden" if len(ordered) > 1 else "local")
