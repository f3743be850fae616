"""Answers that are kept while nothing changes, within a bound of memory.

Every change of what policies say or see raises the revision of its domain, and of the domains
below. Inside a transaction nothing is kept and nothing is taken: what is read there may never
come to be.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from django.db import connection

from adminapp.identity.lineage import lineage
from adminapp.identity.models import Domain
from adminapp.policies import guests, selectors
from adminapp.policies.environment import environment
from adminapp.policies.language import Language

if TYPE_CHECKING:
    from adminapp.policies.reach import Reach

LIMIT = 256 * 2**20
"""How many bytes are kept in one process."""
_ATTEMPTS = 3
_LANGUAGES = 64  # domains whose language is kept

State: TypeAlias = frozenset[tuple[int, int, int | None]]
"""Of each domain that an answer rests on: primary key, revision and parent."""


@dataclass(frozen=True)
class _Kept:
    domain: int
    state: State
    reach: Reach

    def holds(self, at: datetime) -> bool:
        until = self.reach.until
        return self.reach.at <= at and (until is None or at < until)


_kept: OrderedDict[tuple[int, State, datetime], _Kept] = OrderedDict()
_languages: OrderedDict[int, tuple[State, Language]] = OrderedDict()
_lock = threading.Lock()


def find(domain: Domain, at: datetime) -> Reach | None:
    """What is known of a domain at a moment, if it still holds."""
    if connection.in_atomic_block:
        return None
    with _lock:
        possible = [each for each in _kept.values() if each.domain == domain.pk and each.holds(at)]
    for each in possible:
        if _now({pk for pk, _, _ in each.state}) == each.state:
            with _lock:
                if (key := (each.domain, each.state, each.reach.at)) in _kept:
                    _kept.move_to_end(key)
            return each.reach
    return None


def keep(domain: Domain, at: datetime, read: Callable[[Domain], Reach]) -> Reach:
    """Read while the domain stands still, and keep what was found.

    What is read is the domain as it is now, whatever the caller's copy says of its parent.
    """
    if connection.in_atomic_block:
        return read(domain)
    for _ in range(_ATTEMPTS):
        fresh = Domain.objects.select_related("parent").get(pk=domain.pk)
        resting = {pk for each in (fresh, *guests.consumers(fresh, at)) for pk in _above(each)}
        before = _now(resting)
        found = read(fresh)
        if _now(resting) == before:
            _store(_Kept(domain.pk, before, found))
            break
    return found


def language(domain: Domain, at: datetime) -> Language:
    """The language of a domain, as the environment is at a moment.

    Names and types are kept, and what the environment says is read anew.
    """
    if connection.in_atomic_block:
        return selectors.language(domain, at=at)
    with _lock:
        state, known = _languages.get(domain.pk, (None, None))
    if known is None or state is None or _now({pk for pk, _, _ in state}) != state:
        fresh = Domain.objects.select_related("parent").get(pk=domain.pk)
        resting = _above(fresh)
        before = _now(resting)
        known = selectors.language(fresh, at=at)
        if _now(resting) != before:
            return known
        with _lock:
            _languages[domain.pk] = before, known
            _languages.move_to_end(domain.pk)
            while len(_languages) > _LANGUAGES:
                _languages.popitem(last=False)
    return replace(known, values=environment(domain).at(at))


def forget() -> None:
    """Let go of everything."""
    with _lock:
        _kept.clear()
        _languages.clear()


def _above(domain: Domain) -> set[int]:
    return {each.pk for each in lineage(domain)}


def _now(domains: set[int]) -> State:
    rows = Domain.objects.filter(pk__in=domains).values_list("pk", "revision", "parent_id")
    return frozenset(rows)


def _store(new: _Kept) -> None:
    with _lock:
        for key, old in list(_kept.items()):
            if old.domain == new.domain and old.state != new.state:
                del _kept[key]
        _kept[(new.domain, new.state, new.reach.at)] = new
        size = sum(each.reach.nbytes for each in _kept.values())
        while size > LIMIT and _kept:
            _, oldest = _kept.popitem(last=False)
            size -= oldest.reach.nbytes
