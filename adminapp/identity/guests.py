"""Principals of other domains that take part in a domain, and where those of a domain do.

Agreements say so, an area that stands above. It registers its two questions here when it starts,
so that home agents of guests count as agents of the domain that they visit, and a change in one
domain reaches the agents of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from django.db.models import QuerySet

from adminapp.identity.models import Domain, Principal

GuestsOf: TypeAlias = Callable[[Domain], QuerySet[Principal]]
HostsOf: TypeAlias = Callable[[Iterable[Domain]], Iterable[int]]


@dataclass(frozen=True)
class _Source:
    guests_of: GuestsOf
    hosts_of: HostsOf


_sources: list[_Source] = []


def register(*, guests_of: GuestsOf, hosts_of: HostsOf) -> None:
    """Have these two say who visits a domain, and which domains those of a domain visit."""
    source = _Source(guests_of, hosts_of)
    if source not in _sources:
        _sources.append(source)


def guests(domain: Domain) -> QuerySet[Principal]:
    """Active principals of other domains that take part in this one now."""
    found = Principal.objects.none()
    for source in _sources:
        found = found | source.guests_of(domain)
    return found


def hosts(domains: Iterable[Domain]) -> list[int]:
    """Primary keys of the other domains whose agents must hear of a change in these."""
    concerned = tuple(domains)
    return sorted({pk for source in _sources for pk in source.hosts_of(concerned)})
