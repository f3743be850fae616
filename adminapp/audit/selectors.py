"""Reads the audit and checks its chain."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.db.models import Q, QuerySet

from adminapp.audit import mapping
from adminapp.audit.models import ChainHead, Entry


@dataclass(frozen=True)
class ChainProblem:
    """One place where the chain is broken.

    Args:
        sequence: the number of the entry concerned.
        kind: what happened to it.
        message: the same for a person.
    """

    sequence: int
    kind: Literal["changed", "removed", "reordered", "added"]
    message: str


def search(
    *,
    domain_names: set[str] | None = None,
    actor: str = "",
    action: str = "",
    object_type: str = "",
    object_id: str = "",
    text: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[Entry]:
    """Entries that fit, newest first; `domain_names` None is every domain and the platform."""
    found = Entry.objects.order_by("-sequence")
    if domain_names is not None:
        found = found.filter(domain_name__in=domain_names)
    exact = {
        "actor_name": actor,
        "action": action,
        "object_type": object_type,
        "object_id": object_id,
        "at__gte": since,
        "at__lt": until,
    }
    found = found.filter(**{name: value for name, value in exact.items() if value})
    if text:
        found = found.filter(
            Q(object_name__icontains=text)
            | Q(action__icontains=text)
            | Q(actor_name__icontains=text)
        )
    return found


def visible_to(user: Any, **filters: Any) -> QuerySet[Entry]:
    """Entries of the user's domains; operators also see those of the platform."""
    if not user.is_authenticated or not user.is_active:
        return Entry.objects.none()
    if user.is_superuser:
        return search(**filters)
    names = set(user.memberships.values_list("domain__name", flat=True))
    names |= set(user.delegations.in_force().values_list("domain__name", flat=True))
    return search(domain_names=names, **filters)


def verify_chain() -> list[ChainProblem]:
    """Every entry that was changed, removed, added or moved, in order; empty when all is well."""
    problems: list[ChainProblem] = []
    last, previous, sound = 0, "", True
    for entry in Entry.objects.order_by("sequence").iterator(chunk_size=500):
        problems += _missing(last + 1, entry.sequence)
        # After an entry that is missing or wrong, the next one's link says nothing about itself.
        found = _check(entry, previous if sound and entry.sequence == last + 1 else None)
        problems += found
        last, previous, sound = entry.sequence, entry.hash, not found
    return problems + _check_end(last, previous)


def _missing(expected: int, found: int) -> list[ChainProblem]:
    return [
        ChainProblem(number, "removed", f"entry {number} is gone")
        for number in range(expected, found)
    ]


def _check(entry: Entry, previous: str | None) -> list[ChainProblem]:
    number = entry.sequence
    if mapping.digest(entry) != entry.hash:
        home = _number_it_was_hashed_under(entry)
        if home is not None:
            message = f"entry {number} stood at {home} when it was written"
            return [ChainProblem(number, "reordered", message)]
        return [ChainProblem(number, "changed", f"entry {number} was changed")]
    if previous is not None and entry.previous_hash != previous:
        message = f"entry {number} does not follow the one before it"
        return [ChainProblem(number, "reordered", message)]
    return []


def _number_it_was_hashed_under(entry: Entry) -> int | None:
    """The place of a moved entry: it is whole under that number and under no other."""
    numbers = Entry.objects.filter(hash=entry.previous_hash).values_list("sequence", flat=True)
    stored = entry.sequence
    candidates = {number + 1 for number in numbers} | _neighbours(stored)
    try:
        for number in sorted(candidates - {stored}):
            entry.sequence = number
            if mapping.digest(entry) == entry.hash:
                return number
    finally:
        entry.sequence = stored
    return None


def _neighbours(number: int, reach: int = 50) -> set[int]:
    return set(range(max(1, number - reach), number + reach + 1))


def _check_end(last: int, last_hash: str) -> list[ChainProblem]:
    head = ChainHead.objects.first()
    if head is None:
        return [] if last == 0 else [ChainProblem(last, "removed", "the end of the chain is gone")]
    problems = _missing(last + 1, head.sequence + 1)
    if last > head.sequence:
        problems += [
            ChainProblem(number, "added", f"entry {number} was added past the chain's end")
            for number in range(head.sequence + 1, last + 1)
        ]
    elif last == head.sequence and head.hash != last_hash:
        problems.append(ChainProblem(last, "changed", "the chain's end has another hash"))
    return problems
