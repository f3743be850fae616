"""One short text for each thing that live pages show: when it changes, the thing changed.

Read once a second by one task a process, so it is a fixed number of small queries however many
domains, agents and open pages there are.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Max, Sum
from django.utils import timezone

from adminapp.audit.models import TreeHead
from adminapp.distribution.models import (
    ActivityRun,
    Bundle,
    Notice,
    PolicyRollout,
    Recipient,
    RecomputeJob,
    Revocation,
    RevocationEvent,
    Rollout,
)
from adminapp.enrolment import selectors as enrolment
from adminapp.enrolment.models import Enrolment, Fleet
from adminapp.identity.models import Agent, Domain

SEEN_SECONDS = 10


def read() -> dict[str, str]:
    """Topic -> mark. Topics of one domain end in `:<domain>`, the others are the platform's."""
    domains = dict(Domain.objects.values_list("pk", "name"))
    marks = {"agents": _agents(), "audit": _mark(TreeHead.objects.values_list("root"))}
    marks["enrolments"] = _enrolments()
    marks |= _named("domain", domains, Domain.objects.values_list("pk", "revision", "version"))
    marks |= _named("revocations", domains, _revocations())
    marks |= _named("rollouts", domains, _rollouts())
    marks |= _named("jobs", domains, _jobs())
    marks |= _named("bundles", domains, _bundles())
    return marks


def _agents() -> str:
    now = timezone.now()
    held, seen = [], 0.0
    rows = Recipient.objects.order_by("pk").values_list(
        "pk", "revision", "notice", "state", "last_seen", "leased_until"
    )
    for *row, last_seen, leased_until in rows:
        # INVARIANT: nobody writes anything when a lease ends; that somebody fell silent is news.
        held.append((*row, leased_until is not None and leased_until > now))
        seen = max(seen, last_seen.timestamp() if last_seen else 0.0)
    states = Agent.objects.order_by("pk").values_list("pk", "version")
    # Each asks for its lease every few seconds: when they were seen is shown anew now and then.
    return _mark([*held, *states, seen // SEEN_SECONDS])


def _enrolments() -> str:
    """A request that nobody decided about ends by itself."""
    rows = Enrolment.objects.order_by()
    found = rows.aggregate(Count("pk"), Sum("version"))
    waiting = enrolment.waiting(rows).order_by("pk").values_list("pk", "proven_at")
    return _mark([found, Fleet.objects.aggregate(Count("pk"), Sum("version")), *waiting])


def _revocations() -> Iterable[tuple[Any, ...]]:
    fields = ("domain_id", "pk", "version", "state")
    yield from Revocation.objects.order_by("pk").values_list(*fields)
    yield from Rollout.objects.order_by("pk").values_list(*fields)
    events = RevocationEvent.objects.order_by().values_list("revocation__domain_id")
    yield from events.annotate(Max("pk"))
    notices = Notice.objects.order_by().values_list("domain_id", "state")
    yield from notices.annotate(Count("pk")).order_by("domain_id", "state")


def _rollouts() -> Iterable[tuple[Any, ...]]:
    return PolicyRollout.objects.order_by("pk").values_list("domain_id", "pk", "version", "state")


def _jobs() -> Iterable[tuple[Any, ...]]:
    fields = ("domain_id", "pk", "version", "state")
    yield from RecomputeJob.objects.order_by("pk").values_list(*fields, "rows_done", "stages")
    yield from ActivityRun.objects.order_by("pk").values_list(*fields, "attempts")


def _bundles() -> Iterable[tuple[Any, ...]]:
    found = Bundle.objects.order_by().values_list("domain_id", "state")
    return found.annotate(Count("pk"), Sum("version")).order_by("domain_id", "state")


def _named(topic: str, domains: dict[int, str], rows: Iterable[tuple[Any, ...]]) -> dict[str, str]:
    """Rows start with the number of their domain."""
    grouped = defaultdict(list)
    for row in rows:
        grouped[row[0]].append(row)
    return {f"{topic}:{name}": _mark(grouped[pk]) for pk, name in domains.items()}


def _mark(rows: Iterable[Any]) -> str:
    return hashlib.blake2b(repr(list(rows)).encode(), digest_size=12).hexdigest()
