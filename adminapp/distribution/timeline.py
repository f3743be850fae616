"""Events of a revocation, written as they happen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adminapp.distribution.models import Revocation, RevocationEvent, Rollout


def note(revocation: Revocation, kind: str, **detail: Any) -> None:
    """Add one event to a revocation's timeline."""
    RevocationEvent.objects.create(revocation=revocation, kind=kind, detail=detail)


def note_rollout(rollout: Rollout, kind: str, **detail: Any) -> None:
    """Add one event to the timeline of every revocation that a rollout carries out."""
    note_all(rollout.revocations.all(), kind, **detail)


def note_each(rollout: Rollout, kind: str, details: Iterable[Mapping[str, Any]]) -> None:
    """Add an event for each of these details, to the same timelines."""
    told = list(details)
    RevocationEvent.objects.bulk_create(
        RevocationEvent(revocation=revocation, kind=kind, detail=dict(detail))
        for revocation in rollout.revocations.all()
        for detail in told
    )


def note_several(told: Iterable[tuple[Revocation, Mapping[str, Any]]], kind: str) -> None:
    """Add an event to each of these revocations' timelines, with a detail of its own."""
    RevocationEvent.objects.bulk_create(
        RevocationEvent(revocation=revocation, kind=kind, detail=dict(detail))
        for revocation, detail in told
    )


def note_all(revocations: Iterable[Revocation], kind: str, **detail: Any) -> None:
    """Add the same event to several timelines."""
    RevocationEvent.objects.bulk_create(
        RevocationEvent(revocation=revocation, kind=kind, detail=detail)
        for revocation in revocations
    )
