"""Runs over a domain's decision logs: what goes in, how far it is, what comes out.

The run itself is the business of `tasks`. Days are counted whole: what came in for a day since
it was last counted has it counted anew, and its rows replaced in one transaction together with
the note that those segments are in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from bitarray import bitarray
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core.errors import Invalid
from adminapp.distribution import decisionlogs, evidence, rights
from adminapp.distribution.models import (
    ActivityDay,
    ActivityRun,
    DecisionSegment,
    RevocationCheck,
)
from adminapp.identity import permissions
from adminapp.identity.models import Domain, User
from adminapp.identity.selectors import active_principals
from adminapp.outbox import services as outbox
from adminapp.policies.models import Policy
from adminapp.roles.selectors import activations, effective_roles

State = ActivityRun.State
STALE = timedelta(seconds=30)
EVERY = timedelta(days=1)
MAX_ATTEMPTS = 3
KEEP_RUNS = timedelta(days=30)
_CHUNK = 2000


@dataclass(frozen=True)
class Context:
    """What agents do not know: which roles policies name and clients have, and who is revoked.

    Args:
        policy_roles: (name in bundles, role) pairs.
        client_roles: (handle, role) pairs.
        revoked: who lost what, see `evidence.table`.
    """

    policy_roles: tuple[tuple[str, str], ...]
    client_roles: tuple[tuple[str, str], ...]
    revoked: tuple[evidence.Row, ...]


@dataclass(frozen=True)
class UsageRow:
    """One row of a result; see `ActivityDay`."""

    day: date
    kind: str
    subject: str
    granted: int
    suppressed: int
    refused: int
    reasons: dict[str, int]
    last: int


@dataclass(frozen=True)
class CheckRow:
    """One row of a result; see `RevocationCheck`."""

    revocation: str
    day: date
    decisions: int
    within: int
    after: int
    unclear: int
    early: int
    refused: int
    last: int
    agents: tuple[str, ...]
    contradicting: tuple[str, ...]


@audit.change
def request_run(*, actor: User | None, domain: Domain, cause: str = "asked") -> ActivityRun:
    """Have the domain's logs counted; a run that is waiting already is given back.

    Raises:
        Forbidden: the actor does not manage the domain.
        Invalid: the domain keeps no decision logs.
    """
    permissions.require_manager(actor, domain)
    if not domain.decision_days:
        raise Invalid.at("/domain", "this domain keeps no decision logs")
    waiting = ActivityRun.objects.filter(
        domain=domain, state__in=(State.PENDING, State.RUNNING)
    ).first()
    if waiting is not None:
        return waiting
    run = ActivityRun.objects.create(domain=domain, cause=cause)
    if actor is not None:
        audit.write(
            actor=actor,
            action="activity.requested",
            domain_name=domain.name,
            object_type="activity",
            object_id=run.uid,
            object_name=domain.name,
            after={"cause": cause},
        )
    outbox.put(topic="activity", key=f"activity:{run.uid}", payload={"run": run.pk})
    return run


def request_daily() -> int:
    """Have the logs counted of every domain where that is a day ago; returns how many."""
    recent = ActivityRun.objects.filter(created__gt=timezone.now() - EVERY).values("domain")
    due = Domain.objects.filter(decision_days__gt=0).exclude(pk__in=recent)
    return len([request_run(actor=None, domain=domain, cause="schedule") for domain in due])


def take(run_id: int) -> ActivityRun | None:
    """Claim a run; None when it is finished or somebody else is at it."""
    now = timezone.now()
    free = Q(state=State.PENDING) | Q(state=State.RUNNING, heartbeat__lt=now - STALE)
    taken = ActivityRun.objects.filter(free, pk=run_id).update(
        state=State.RUNNING, heartbeat=now, attempts=F("attempts") + 1, error=""
    )
    return ActivityRun.objects.select_related("domain").get(pk=run_id) if taken else None


def running(run_id: int) -> bool:
    """Whether a run is under way, or was when whoever was at it died."""
    return ActivityRun.objects.filter(pk=run_id, state=State.RUNNING).exists()


def alive(run: ActivityRun) -> None:
    """Note that a run is alive."""
    ActivityRun.objects.filter(pk=run.pk).update(heartbeat=timezone.now())


def progress(run: ActivityRun, stage: str, done: int, total: int) -> None:
    """Note how far a run is, and that it is alive."""
    entry = {"stage": stage, "done": done, "total": total, "at": timezone.now().isoformat()}
    with transaction.atomic():
        row = ActivityRun.objects.select_for_update().get(pk=run.pk)
        row.stages = list(({held["stage"]: held for held in row.stages} | {stage: entry}).values())
        row.heartbeat = timezone.now()
        row.version += 1
        row.save()


def uncounted(domain: Domain) -> list[DecisionSegment]:
    """Segments that are in Parquet and in no count yet."""
    found = DecisionSegment.objects.filter(domain=domain, state=DecisionSegment.State.STORED)
    return list(found.defer("data"))


def days_of(segments: Iterable[DecisionSegment], oldest: datetime) -> tuple[str, ...]:
    """The days that segments may have rows of, none before `oldest`."""
    found: set[date] = set()
    for one in segments:
        # A batch that began before a segment was ended stands in the next one.
        first, last = _day(max(one.begin - 60_000, 0)), _day(one.end)
        first = max(first, oldest.date())
        found.update(first + timedelta(days=n) for n in range((last - first).days + 1))
    return tuple(day.isoformat() for day in sorted(found))


def context(domain: Domain) -> Context:
    """What is known at this moment of roles and revocations."""
    roles = [each.row.name for each in effective_roles(domain)]
    policy_roles = {
        (f"policy-{policy.pk}", role)
        for policy in Policy.objects.filter(domain=domain)
        for role in roles
        if _speaks_of(policy, role)
    }
    return Context(
        tuple(sorted(policy_roles)),
        tuple(sorted(_client_roles(domain, roles))),
        tuple(evidence.table(domain)),
    )


def _client_roles(domain: Domain, roles: Iterable[str]) -> Iterator[tuple[str, str]]:
    principals = list(active_principals(domain))
    having = activations(domain, principals=[each.pk for each in principals])
    for role in roles:
        rows = having.roles.get(role)
        if rows is not None:
            for position in having.holders(rows).search(bitarray("1")):
                yield principals[position].handle, role


def _speaks_of(policy: Policy, role: str) -> bool:
    return f'"{role}"' in policy.expression or f"subject.role.{role}." in policy.expression


def keep(
    run: ActivityRun,
    segments: Iterable[DecisionSegment],
    days: Iterable[str],
    usage: Iterable[UsageRow],
    checks: Iterable[CheckRow],
) -> None:
    """Replace what was counted of these days, as a whole."""
    domain, counted = run.domain, [one.pk for one in segments]
    with transaction.atomic():
        ActivityDay.objects.filter(domain=domain, day__in=list(days)).delete()
        ActivityDay.objects.bulk_create(
            [ActivityDay(domain=domain, **vars(row)) for row in usage], batch_size=_CHUNK
        )
        _keep_checks(domain, list(days), checks)
        DecisionSegment.objects.filter(pk__in=counted, state=DecisionSegment.State.STORED).update(
            state=DecisionSegment.State.COUNTED
        )
        evidence.settle(domain)


def _keep_checks(domain: Domain, days: list[str], checks: Iterable[CheckRow]) -> None:
    # What was found of those that are watched no longer stays: it was not counted anew.
    watched = rights.watched(domain).values_list("revocation__uid", "revocation")
    known = dict(watched.distinct())
    stale = RevocationCheck.objects.filter(domain=domain, day__in=days)
    stale.filter(revocation__in=rights.watched(domain).values("revocation")).delete()
    RevocationCheck.objects.bulk_create(
        [
            RevocationCheck(
                revocation_id=known[row.revocation],
                domain=domain,
                **{
                    name: list(value) if isinstance(value, tuple) else value
                    for name, value in vars(row).items()
                    if name != "revocation"
                },
            )
            for row in checks
            if row.revocation in known
        ],
        batch_size=_CHUNK,
    )


def finish(run: ActivityRun, days: Iterable[str], records: int) -> None:
    """The run is complete."""
    ActivityRun.objects.filter(pk=run.pk, state=State.RUNNING).update(
        state=State.DONE, finished=timezone.now(), days=list(days), records=records, error=""
    )


def fail(run: ActivityRun, error: str) -> bool:
    """The run broke; returns whether it may be tried again."""
    again = ActivityRun.objects.get(pk=run.pk).attempts < MAX_ATTEMPTS
    changes = {"state": State.PENDING} if again else {
        "state": State.FAILED, "finished": timezone.now()
    }  # fmt: skip
    ActivityRun.objects.filter(pk=run.pk, state=State.RUNNING).update(error=error[:2000], **changes)
    return again


def prune() -> int:
    """Forget finished runs, and logs that are older than their domain wants; returns how many."""
    old = ActivityRun.objects.filter(created__lt=timezone.now() - KEEP_RUNS)
    count, _ = old.filter(state__in=(State.DONE, State.FAILED)).delete()
    for domain in Domain.objects.filter(decision_segments__isnull=False).distinct():
        count += decisionlogs.expire(domain)
    return count


def _day(moment: int) -> date:
    return datetime.fromtimestamp(moment / 1000, UTC).date()
