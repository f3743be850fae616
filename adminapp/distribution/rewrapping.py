"""Every wrapped key in the database under the authority's newest key-encryption key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from adminapp.core.authority import get_authority
from adminapp.distribution import decisionlogs, epochs
from adminapp.distribution.models import BlindEpoch, DecisionKey, EncodingKey, RecomputeJob
from adminapp.trustgroups.models import KeyEpoch

State = RecomputeJob.State


@dataclass(frozen=True)
class Rewrapped:
    """What was done.

    Args:
        keys: how many wrapped keys there are.
        renewed: how many of them were under an older key-encryption key.
        waiting: runs of a recompute that hold wrapped keys of their own; ask again when they
            have ended.
    """

    keys: int
    renewed: int
    waiting: int


def rewrap_keys() -> Rewrapped:
    """Wrap anew what is under an older key-encryption key; may be cut off and asked again.

    Raises:
        AuthorityError: a key does not open, or the authority does not answer.
    """
    authority = get_authority()
    found = renewed = 0
    for row, key_id in _rows():
        found += 1
        anew = authority.rewrap(key_id, row.wrapped)
        if anew != row.wrapped:
            # Only where it still stands as it was read: somebody may have replaced it meanwhile.
            model = type(row)
            rows = model._default_manager.filter(pk=row.pk, wrapped=row.wrapped)
            renewed += rows.update(wrapped=anew)
    running = RecomputeJob.objects.filter(state__in=(State.PENDING, State.RUNNING))
    return Rewrapped(found, renewed, running.count())


def _rows() -> Iterator[tuple[Any, str]]:
    for key in KeyEpoch.objects.exclude(wrapped="").select_related("domain"):
        yield key, key.key_id
    for own in EncodingKey.objects.exclude(wrapped="").select_related("epoch__domain"):
        yield own, epochs.key_id(own.epoch, own.scope)
    for blind in BlindEpoch.objects.exclude(wrapped="").select_related("domain"):
        yield blind, f"blind:{blind.domain.name}:master:{blind.number}"
    for decisions in DecisionKey.objects.exclude(wrapped="").select_related("domain"):
        yield decisions, decisionlogs.key_id(decisions.domain)
