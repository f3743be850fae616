"""What an operator must know, as numbers; `docs/alerts.yml` says from when on it is bad.

Ages are in seconds and 0 where nothing waits. A number that cannot be told is left out, so that a
rule on its absence fires.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Count, F, Max, Min
from django.utils import timezone

from adminapp.audit import selectors as audit
from adminapp.core.authority import AuthorityError, get_authority
from adminapp.core.exposition import Gauge
from adminapp.distribution import evidence, roots
from adminapp.distribution.decisionlogs import Coverage, coverage
from adminapp.distribution.models import (
    ActivityRun,
    Bundle,
    DecisionSegment,
    Notice,
    Pulse,
    Recipient,
    RecomputeJob,
    Revocation,
    Rollout,
)
from adminapp.distribution.serving import serving_agents
from adminapp.enrolment.models import Certificate, Enrolment
from adminapp.enrolment.selectors import in_force
from adminapp.identity.models import Domain
from adminapp.outbox import selectors as outbox
from policyengine.bundles.addresses import audience

BEAT = "beat"
_RECENT = timedelta(days=1)
_OPEN = (Revocation.State.COMPLETE, Revocation.State.FAILED)
_LOOK_BACK = timedelta(days=7)
_UNVERIFIED = timedelta(days=2)  # logs are counted every day


def beat() -> None:
    """The schedule and a worker are alive."""
    Pulse.objects.update_or_create(name=BEAT, defaults={"at": timezone.now()})


def collect() -> list[Gauge]:
    """All metrics as of now."""
    now = timezone.now()
    return [
        *_outbox(now),
        *_sent(now),
        *_agents(now),
        *_rollouts(now),
        *_revocations(now),
        *_jobs(now),
        *_logs(now),
        *_services(now),
        *_root(),
    ]


def _outbox(now: datetime) -> Iterator[Gauge]:
    found = outbox.summary()
    depth = Gauge("portcullis_outbox_rows", "Work in the outbox, by state.")
    for state, number in found["counts"].items():
        if state != "done":
            depth.add(number, state=state)
    yield depth
    yield _age("portcullis_outbox_oldest_seconds", "Age of the oldest work that waits.",
               found["oldest_pending"], now)  # fmt: skip


def _sent(now: datetime) -> Iterator[Gauge]:
    states = (Bundle.State.SENT, Bundle.State.RECEIVED)
    for word, rows in (
        ("bundles", Bundle.objects.filter(state__in=states)),
        ("notices", Notice.objects.filter(state=Notice.State.SENT)),
    ):
        agents = rows.filter(audience__startswith="agent:")
        found = agents.aggregate(number=Count("id"), oldest=Min("sent_at"))
        yield Gauge(
            f"portcullis_{word}_unacknowledged", f"Sent {word} that agents did not acknowledge."
        ).add(found["number"])
        yield _age(f"portcullis_{word}_oldest_unacknowledged_seconds",
                   f"Age of the oldest of these {word}.", found["oldest"], now)  # fmt: skip
    rejected = Bundle.objects.filter(state=Bundle.State.REJECTED, domain__revision=F("revision"))
    yield Gauge("portcullis_bundles_rejected", "Newest bundles that their audience refused.").add(
        rejected.count()
    )


def _agents(now: datetime) -> Iterator[Gauge]:
    unleased = Gauge("portcullis_agents_without_lease", "Agents that serve nothing, by domain.")
    behind = Gauge("portcullis_agents_behind", "Agents without the newest revision, by domain.")
    lying = Gauge(
        "portcullis_agents_contradicting",
        "Agents that claim to hold what was never built for them, by domain.",
    )
    expiry = Gauge(
        "portcullis_bundle_expiry_seconds", "Until the first newest bundle expires, by domain."
    )
    for domain in Domain.objects.all():
        names = {audience("agent", agent.name) for agent in serving_agents(domain)}
        held = {row.audience: row for row in Recipient.objects.filter(domain=domain)}
        leased = {name for name in names & held.keys() if (held[name].leased_until or now) > now}
        liars = {n for n in names & held.keys() if held[n].state == Recipient.State.CONTRADICTS}
        believed = (names & held.keys()) - liars
        current = {name for name in believed if held[name].revision >= domain.revision}
        unleased.add(len(names - leased), domain=domain.name)
        behind.add(len(names - current), domain=domain.name)
        lying.add(len(liars), domain=domain.name)
        ends = Bundle.objects.filter(domain=domain, audience__in=names).order_by()
        newest = [row["end"] for row in ends.values("audience").annotate(end=Max("expires_at"))]
        if newest:
            expiry.add((min(newest) - now).total_seconds(), domain=domain.name)
    return iter((unleased, behind, lying, expiry, _certificates(now)))


def _certificates(now: datetime) -> Gauge:
    """Of agents that serve still; they renew at half of a certificate's life."""
    agents = Enrolment.objects.filter(in_force(), agent__isnull=False)
    newest = Certificate.objects.filter(enrolment__in=agents, followed_by__isnull=True)
    first = newest.filter(ends__gt=now).aggregate(first=Min("ends"))["first"]
    gauge = Gauge("portcullis_certificate_expiry_seconds", "Until an agent's certificate expires.")
    return gauge if first is None else gauge.add((first - now).total_seconds())


def _rollouts(now: datetime) -> Iterator[Gauge]:
    running = Rollout.objects.exclude(state=Rollout.State.COMPLETE)
    found = running.aggregate(number=Count("id"), oldest=Min("stage_started"))
    yield Gauge("portcullis_rollouts_running", "Changes of epoch under way.").add(found["number"])
    yield _age("portcullis_rollout_stage_seconds", "How long one has stood in its stage.",
               found["oldest"], now)  # fmt: skip


def _revocations(now: datetime) -> Iterator[Gauge]:
    under_way = Revocation.objects.exclude(state__in=_OPEN).select_related("domain")
    rows = list(under_way)
    late = [row for row in rows if row.created + timedelta(seconds=row.domain.lease_seconds) < now]
    untold = Notice.objects.filter(revocation__in=late, audience__startswith="agent:").exclude(
        state=Notice.State.APPLIED
    )
    yield Gauge("portcullis_revocations_open", "Revocations without a receipt.").add(len(rows))
    yield _age("portcullis_revocation_oldest_seconds", "Age of the oldest of them.",
               min((row.created for row in rows), default=None), now)  # fmt: skip
    yield Gauge(
        "portcullis_revocations_past_guarantee",
        "Those whose guarantee has passed while an agent's confirmation is missing.",
    ).add(untold.values("revocation").distinct().count())
    yield Gauge(
        "portcullis_receipts_contradicted",
        "Revocations after which agents' logs show a delivery that was not to be.",
    ).add(evidence.contradicted())
    yield Gauge(
        "portcullis_receipts_unverified",
        "Revocations whose guarantee passed two days ago and that no whole logs speak for yet.",
    ).add(evidence.unverified(now - _UNVERIFIED))


def _jobs(now: datetime) -> Iterator[Gauge]:
    failed = Gauge("portcullis_jobs_failed", "Runs of the last day that failed, by kind.")
    since = now - _RECENT
    recomputes = RecomputeJob.objects.filter(state=RecomputeJob.State.FAILED, finished__gt=since)
    counts = ActivityRun.objects.filter(state=ActivityRun.State.FAILED, finished__gt=since)
    failed.add(recomputes.count(), kind="recompute").add(counts.count(), kind="activity")
    yield failed
    heartbeats = RecomputeJob.objects.filter(state=RecomputeJob.State.RUNNING)
    yield _age("portcullis_recompute_silent_seconds", "Since the most silent run was heard.",
               heartbeats.aggregate(oldest=Min("heartbeat"))["oldest"], now)  # fmt: skip


def _logs(now: datetime) -> Iterator[Gauge]:
    waiting = DecisionSegment.objects.filter(state=DecisionSegment.State.RECEIVED)
    broken = DecisionSegment.objects.filter(state=DecisionSegment.State.BROKEN)
    yield Gauge("portcullis_decision_segments_waiting", "Pieces of logs not counted yet.").add(
        waiting.count()
    )
    yield Gauge("portcullis_decision_segments_broken", "Pieces of logs that do not open.").add(
        broken.count()
    )
    oldest = Gauge(
        "portcullis_decision_log_silent_seconds",
        "Since the most silent agent's log was last counted, by domain; 0 where none ever was.",
    )
    since = int((now - _LOOK_BACK).timestamp() * 1000)
    for domain in Domain.objects.filter(decision_days__gt=0):
        oldest.add(_silence(coverage(domain, since), now), domain=domain.name)
    yield oldest


def _silence(found: list[Coverage], now: datetime) -> float:
    known = [one.through for one in found if one.through]
    return max(0.0, now.timestamp() - min(known) / 1000) if known else 0.0


def _services(now: datetime) -> Iterator[Gauge]:
    yield Gauge("portcullis_authority_up", "1 where the trusted authority answers, else 0.").add(
        _authority_answers()
    )
    pulse = Pulse.objects.filter(name=BEAT).first()
    alive = Gauge("portcullis_beat_age_seconds", "Since the schedule was last carried out.")
    yield alive if pulse is None else alive.add((now - pulse.at).total_seconds())
    newest = audit.checkpoints().first()
    checkpoint = Gauge(
        "portcullis_audit_checkpoint_age_seconds",
        "How long entries of the audit have waited for a signature; 0 where none waits.",
    )
    if newest is not None:
        behind = audit.state().size > newest.size
        checkpoint.add((now - newest.at).total_seconds() if behind else 0)
    yield checkpoint


def _root() -> Iterator[Gauge]:
    """Nothing of it is known while the authority is away."""
    version = Gauge("portcullis_root_version", "Version of the root of trust in force.")
    own = Gauge(
        "portcullis_root_self_made",
        "1 where the authority made the root itself and no ceremony was held, else 0.",
    )
    ends = Gauge(
        "portcullis_root_expiry_days", "Until the root of trust ends and delivery stops, in days."
    )
    behind = Gauge(
        "portcullis_agents_under_older_root",
        "Agents with a lease that last said they trust an older root.",
    )
    found = roots.standing()
    if found is not None:
        version.add(found.version)
        own.add(found.self_made)
        ends.add(found.days)
        behind.add(roots.agents_behind(found.version))
    return iter((version, own, ends, behind))


def _authority_answers() -> bool:
    try:
        get_authority().audit_log()
    except (AuthorityError, OSError):
        return False
    return True


def _age(name: str, text: str, since: datetime | None, now: datetime) -> Gauge:
    age = 0.0 if since is None else max(0.0, (now - since).total_seconds())
    return Gauge(name, text).add(age)
