"""Keys that are renewed by themselves, each after its time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import versions
from adminapp.core.errors import Invalid
from adminapp.distribution import blindepochs, rollouts
from adminapp.distribution.models import RotationSchedule
from adminapp.identity import kinds, permissions
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.models import Domain, User
from adminapp.identity.services import record_row
from adminapp.trustgroups.selectors import group_refs
from adminapp.trustgroups.services import stage_epoch
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

ALL, BLIND, ENCODINGS = "all", "blind", "encodings"
REASON = "its time was up"
_FRACTION = 2**32


def schedules(user: Any, domain: Domain | None = None) -> QuerySet[RotationSchedule]:
    """Schedules that `user` may see."""
    found = RotationSchedule.objects.visible_to(user).select_related("domain")
    return found if domain is None else found.filter(domain=domain)


def document(row: RotationSchedule) -> dict[str, Any]:
    """A schedule as files and the audit have it; when it runs next is a fact of the moment."""
    return {
        "key": row.key,
        "every_days": row.every_days,
        "jitter_percent": row.jitter_percent,
    }


def next_after(
    moment: datetime, every_days: int, jitter_percent: int, random: RandomSource = SYSTEM_RANDOM
) -> datetime:
    """When a key is due again: up to `jitter_percent` earlier than after `every_days`."""
    drawn = int.from_bytes(random.token(4), "big") / _FRACTION
    return moment + timedelta(days=every_days) * (1 - drawn * jitter_percent / 100)


@audit.change
def set_schedule(
    *,
    actor: User | None,
    domain: Domain,
    key: str,
    every_days: int,
    jitter_percent: int = 10,
    expected_version: int | None = None,
) -> RotationSchedule:
    """Have a key renewed every so many days.

    Args:
        key: `key:<name>`, `overlay:<name>`, `blind`, `encodings`, or `all` for every key of
            agents without a schedule of its own.
        jitter_percent: up to how much of the time is left away at random, each time.

    Raises:
        Forbidden: the actor does not manage the domain.
        Invalid: there is no such key, or a number is out of range.
    """
    permissions.require_manager(actor, domain)
    if key not in (ALL, BLIND, ENCODINGS) and key not in group_refs(domain):
        raise Invalid.at("/key", f"`{key}` is no key of this domain", "unknown")
    held = RotationSchedule.objects.filter(domain=domain, key=key).first()
    if held is None:
        row = RotationSchedule(domain=domain, key=key)
        before = None
    else:
        row = versions.locked(held, expected_version)
        before = document(row)
    row.every_days, row.jitter_percent = every_days, jitter_percent
    versions.check(row)
    row.next_at = next_after(row.last_at or timezone.now(), every_days, jitter_percent)
    (versions.create if held is None else versions.save)(row)
    action = "rotation.created" if held is None else "rotation.updated"
    record_row(actor, domain, action, row, before=before, after=document(row), affects_agents=False)
    return row


@audit.change
def remove_schedule(
    *, actor: User | None, schedule: RotationSchedule, expected_version: int | None = None
) -> None:
    """Have a key renewed only where somebody asks for it."""
    permissions.require_manager(actor, schedule.domain)
    row = versions.locked(schedule, expected_version)
    before, pk = document(row), row.pk
    row.delete()
    row.pk = pk
    record_row(actor, row.domain, "rotation.deleted", row, before=before, affects_agents=False)


def run_due(now: datetime | None = None) -> int:
    """Renew what is due; returns how many schedules ran."""
    moment = now or timezone.now()
    due = RotationSchedule.objects.filter(next_at__lte=moment).order_by("pk")
    return sum(_run(schedule_id=pk, now=moment) for pk in due.values_list("pk", flat=True))


@audit.change
def _run(*, schedule_id: int, now: datetime) -> bool:
    rows = RotationSchedule.objects.select_for_update(of=("self",)).select_related("domain")
    row = rows.filter(pk=schedule_id, next_at__lte=now).first()
    # Two workers may have found it: the second finds it done.
    if row is None or not _renew(row):
        return False
    row.last_at = now
    row.next_at = next_after(now, row.every_days, row.jitter_percent)
    row.version += 1
    row.save()
    record_row(
        None,
        row.domain,
        "rotation.ran",
        row,
        before=None,
        after={"key": row.key, "next_at": row.next_at.isoformat()},
        affects_agents=False,
    )
    rollouts.request_advance(row.domain)
    return True


def _renew(row: RotationSchedule) -> bool:
    """False where it must be tried again: another rollout of the domain is on its way."""
    if row.key == ENCODINGS:
        return rollouts.begin(domain=row.domain, cause="schedule") is not None
    if row.key == BLIND:
        held = blindepochs.current(row.domain)
        if held is not None:
            blindepochs.note_due(held, REASON)
        return True
    for ref in _refs(row):
        stage_epoch(actor=None, domain=row.domain, group_ref=ref, reason=REASON)
    return True


def _refs(row: RotationSchedule) -> list[str]:
    known = group_refs(row.domain)
    if row.key != ALL:
        return [ref for ref in known if ref == row.key]
    own = set(RotationSchedule.objects.filter(domain=row.domain).values_list("key", flat=True))
    return [ref for ref in known if ref not in own]


# -- as files ------------------------------------------------------------------------------------


def _documents(domain: Domain) -> dict[str, Document]:
    rows = RotationSchedule.objects.filter(domain=domain).order_by("key")
    return {row.key: document(row) for row in rows}


def _key(said: Mapping[str, Any]) -> str:
    return str(said.get("key", ""))


ROTATION = Kind(
    name="rotation",
    rank=91,
    documents=_documents,
    find=lambda domain, key: RotationSchedule.objects.filter(domain=domain, key=key).first(),
    create=lambda actor, domain, _key, said: set_schedule(actor=actor, domain=domain, **said),
    update=lambda actor, row, said: set_schedule(actor=actor, domain=row.domain, **said),
    delete=lambda actor, row: remove_schedule(actor=actor, schedule=row),
    document=document,
    required=("key", "every_days"),
    defaults={"jitter_percent": 10},
    key=_key,
)


def register_all() -> None:
    """Make the kind of this area known."""
    kinds.register(ROTATION)
