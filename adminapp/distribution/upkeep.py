"""What the clock asks for: reconciling, renewing, and grants that begin or lapse by themselves."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Exists, F, Max, OuterRef, Q
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.catalog import selectors as catalog
from adminapp.distribution import (
    bans,
    boundaries,
    decisionlogs,
    delivery,
    history,
    revocation,
    roots,
    scopes,
)
from adminapp.distribution.building import RENEW_BEFORE
from adminapp.distribution.models import Bundle, Compilation, EncodingEpoch, RecomputeJob, Rollout
from adminapp.identity.models import Agent, Domain
from adminapp.identity.services import record_change
from adminapp.outbox import relay
from adminapp.outbox import services as outbox
from adminapp.policies.selectors import next_boundary
from adminapp.roles import lapsing

KEEP_BUNDLES = timedelta(days=2)


def reconcile() -> dict[str, int]:
    """Bring what agents hold and what they should hold together, from the database alone."""
    return {
        "rekeyed": rekey_after_bans(),
        "resigned": roots.follow(),
        "recompiled": _recompile_missing(),
        "resent": delivery.resend_unacknowledged(),
        "reordered": _reorder_recomputes(),
        "advanced": revocation.advance_all(),
    }


def rekey_after_bans() -> int:
    """Stage new keys where a banned agent was given the current ones; returns how many."""
    banned = Agent.objects.filter(state=Agent.State.BANNED).select_related("overlay")
    return sum(bans.rekey(agent) for agent in banned)


def renew_expiring(now: datetime | None = None) -> int:
    """Re-issue bundles long before they expire; returns how many domains."""
    limit = (now or timezone.now()) + RENEW_BEFORE
    ends = Bundle.objects.order_by().values("domain_id", "audience")
    newest = ends.annotate(end=Max("expires_at")).filter(end__lt=limit)
    return _raise_revision({row["domain_id"] for row in newest}, "bundles.renewed")


def apply_due(now: datetime | None = None) -> int:
    """To the second: record the appointments that lapsed, and have domains compiled where an
    appointment or a policy began or ended; returns how many domains.

    It costs a few queries however many domains there are, so that it may run every second; what
    is rarer, `apply_boundaries` looks for.
    """
    lapsing.lapse_due(now)
    crossed = boundaries.crossed(now or timezone.now())
    # A domain that waits for a compile already will be read after this moment.
    waiting = Compilation.objects.filter(domain__in=crossed, revision__lt=F("domain__revision"))
    return _raise_revision(
        crossed - set(waiting.values_list("domain_id", flat=True)), "validity.changed"
    )


def apply_boundaries(now: datetime | None = None) -> int:
    """Compile domains where anything began or ended since: a policy, an appointment, an accepted
    risk, a certificate, what the clock says. Roles in sessions that rest on the clock end.
    """
    moment = now or timezone.now()
    lapsing.lapse_due(moment)
    crossed = set()
    for done in Compilation.objects.select_related("domain"):
        if any(
            boundary is not None and boundary <= moment
            for boundary in (
                next_boundary(done.domain, after=done.at),
                catalog.next_boundary(done.domain, after=done.at),
            )
        ):
            crossed.add(done.domain_id)
            lapsing.settle_domain(done.domain, now=moment)
    return _raise_revision(crossed, "validity.changed")


def prune(now: datetime | None = None) -> int:
    """Forget bundles that were replaced long ago, and who enforced what before the period; the
    newest of each audience always stays.
    """
    old = (now or timezone.now()) - KEEP_BUNDLES
    newer = Bundle.objects.filter(
        audience=OuterRef("audience"), domain=OuterRef("domain"), revision__gt=OuterRef("revision")
    )
    deleted, _ = Bundle.objects.filter(Exists(newer), built_at__lt=old).delete()
    return deleted + history.forget(now)


@audit.change
def resume_after_loss(*, by: int) -> int:
    """Raise every domain's revision by so much and compile it; returns how many domains.

    For a database that was restored from before: agents refuse what is not newer than what they
    hold, and nobody knows any more how far they got.
    """
    Domain.objects.update(revision=F("revision") + by)
    decisionlogs.doubt()
    return _raise_revision(set(Domain.objects.values_list("pk", flat=True)), "domain.restored")


def _raise_revision(domain_ids: set[int], action: str) -> int:
    for domain in Domain.objects.filter(pk__in=domain_ids).order_by("pk"):
        record_change(
            actor=None,
            domain=domain,
            action=action,
            object_type="domain",
            object_id=domain.pk,
            object_name=domain.name,
            before=None,
            after=None,
        )
    return len(domain_ids)


def _recompile_missing() -> int:
    """Domains that nobody compiled up to their newest revision (work that was lost)."""
    behind = Domain.objects.filter(revision__gt=0).exclude(compilation__revision__gte=F("revision"))
    lost = [domain for domain in behind if not relay.waiting(prefix=f"compile:{domain.pk}:")]
    for domain in lost:
        _order_compile(domain)
    return len(lost)


def _order_compile(domain: Domain) -> None:
    stamp = int(timezone.now().timestamp())
    outbox.put(
        topic="compile",
        key=f"compile:{domain.pk}:{domain.revision}:{stamp}",
        payload={"domain": domain.pk, "revision": domain.revision},
    )


def _reorder_recomputes() -> int:
    """Runs whose worker vanished, or that wait for another try or for their turn."""
    unfinished = RecomputeJob.objects.exclude(state__in=RecomputeJob.ENDED)
    waiting = unfinished.filter(
        Q(
            scope=RecomputeJob.Scope.ALL,
            epoch__state=EncodingEpoch.State.PREPARING,
            epoch__domain__rollouts__state=Rollout.State.RECOMPUTING,
        )
        | (~Q(scope=RecomputeJob.Scope.ALL) & Q(epoch__state=EncodingEpoch.State.CURRENT))
    ).distinct()
    stamp = int(timezone.now().timestamp())
    for job in waiting:
        scopes.request(job, attempt=stamp)
    return len(waiting)
