"""Adds to the audit, and orders the writers of the control plane."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from django.db import transaction
from django.utils import timezone

from adminapp.audit import mapping
from adminapp.audit.models import ChainHead, Entry

P = ParamSpec("P")
R = TypeVar("R")
HEAD = 1
SYSTEM = "system"


@contextmanager
def changing() -> Iterator[None]:
    """One transaction for one change of the control plane.

    It takes the end of the audit chain before any other row, so that two changes queue up and
    never wait for one another in a circle (SQLite does the same through BEGIN IMMEDIATE).
    """
    with transaction.atomic():
        _head()
        yield


def change(service: Callable[P, R]) -> Callable[P, R]:
    """Makes a service one transaction, see `changing`."""

    @functools.wraps(service)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with changing():
            return service(*args, **kwargs)

    return run


def write(
    *,
    actor: Any,
    action: str,
    object_type: str,
    object_id: object,
    object_name: str = "",
    domain_name: str = "",
    before: Any = None,
    after: Any = None,
) -> Entry:
    """Add an entry to the end of the chain; `actor` None is the system itself."""
    with transaction.atomic():
        head = _head()
        entry = Entry(
            sequence=head.sequence + 1,
            at=timezone.now(),
            actor_name=SYSTEM if actor is None else actor.get_username(),
            action=action,
            domain_name=domain_name,
            object_type=object_type,
            object_id=str(object_id),
            object_name=object_name[:200],
            before=before,
            after=after,
            previous_hash=head.hash,
        )
        entry.hash = mapping.digest(entry)
        entry.save(force_insert=True)
        ChainHead.objects.filter(pk=HEAD).update(sequence=entry.sequence, hash=entry.hash)
    return entry


def _head() -> ChainHead:
    head = ChainHead.objects.select_for_update().filter(pk=HEAD).first()
    if head is not None:
        return head
    ChainHead.objects.get_or_create(pk=HEAD)
    return ChainHead.objects.select_for_update().get(pk=HEAD)
