"""Compiling: what every agent and client of a domain must now hold, signed, sealed and queued."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from adminapp.core.authority import get_authority
from adminapp.distribution import (
    blindepochs,
    blindkeys,
    comparators,
    contents,
    delivery,
    epochs,
    keyepochs,
    rollouts,
)
from adminapp.distribution.contents import Snapshot
from adminapp.distribution.gather import gather, steady
from adminapp.distribution.models import Bundle, Compilation, Notice
from adminapp.distribution.plan import longest_conjunction
from adminapp.distribution.recipients import recipient
from adminapp.identity.models import Domain
from policyengine.bundles import addresses
from policyengine.bundles.envelope import SealedBundle, build_bundle
from policyengine.bundles.model import AgentContent, ClientContent, ComparatorContent
from policyengine.primitives.canonical import dumps, unb64
from policyengine.primitives.hashing import digest

LIFETIME = timedelta(days=7)
RENEW_BEFORE = timedelta(days=3, hours=12)


@dataclass(frozen=True)
class Job:
    """One bundle to be made: for whom, sealed to which key, holding what."""

    address: str
    recipient: bytes
    content: AgentContent | ClientContent | ComparatorContent

    @property
    def content_hash(self) -> str:
        """Tells whether a client's content changed; an agent's wraps are new every time."""
        if isinstance(self.content, AgentContent):
            return ""
        return digest(dumps(self.content.to_json()))


def compile_domain(domain_id: int) -> int:
    """Make the bundles of the domain's newest revision; returns that revision.

    Older revisions that were waiting are skipped: a bundle is whole, so only the newest matters.
    """
    done, _ = Compilation.objects.get_or_create(domain_id=domain_id)
    if done.revision >= Domain.objects.values_list("revision", flat=True).get(pk=domain_id):
        return done.revision
    began = timezone.now()
    snapshot = _snapshot(domain_id)
    for job in _jobs(snapshot):
        _build(snapshot, job)
    # Last: a compile that was cut off is done again.
    Compilation.objects.filter(pk=done.pk, revision__lt=snapshot.domain.revision).update(
        revision=snapshot.domain.revision, at=began
    )
    _follow_up(snapshot)
    return snapshot.domain.revision


def _follow_up(snapshot: Snapshot) -> None:
    """Begin with the next blind epoch where the compile has shown that one must follow."""
    if not snapshot.rings:
        return
    domain = Domain.objects.get(pk=snapshot.domain.id)
    blindepochs.note_gone(domain)
    if blindepochs.due(domain) and rollouts.running(domain) is None:
        rollouts.request_advance(domain)


def rebuild(bundle_id: int) -> None:
    """Make a bundle again so that it stands alone, for an audience that holds something else."""
    old = Bundle.objects.select_related("domain").defer("message").filter(pk=bundle_id).first()
    if old is None or old.revision < old.domain.revision:
        return
    snapshot = _snapshot(old.domain_id)
    for job in _jobs(snapshot):
        if job.address == old.audience:
            _replace(snapshot, job, old)


def _snapshot(domain_id: int) -> Snapshot:
    keyepochs.ensure(Domain.objects.get(pk=domain_id))
    snapshot = steady(domain_id, _read)
    if _make_room(snapshot):
        snapshot = steady(domain_id, _read)
    names = [agent.name for agent in snapshot.domain.agents]
    for epoch in snapshot.epochs:
        epochs.ensure_keys(epoch, names, snapshot.domain.overlays)
    return snapshot


def _make_room(snapshot: Snapshot) -> bool:
    """Open the first epoch, or ask for another when this one no longer fits the domain.

    Returns True when the snapshot must be read again.
    """
    domain = Domain.objects.get(pk=snapshot.domain.id)
    tokens = longest_conjunction(snapshot.domain)
    fresh = snapshot.blind.any and blindepochs.ensure(domain)
    current = epochs.current(domain) or epochs.open_first(domain, tokens)
    if fresh or not snapshot.epochs:
        # Opened here, or by another compiler after we had read: without it bundles would be
        # empty, and they would stay so until the next revision.
        return True
    if epochs.outgrown(current, domain, tokens):
        rollouts.begin(domain=domain, cause="size", tokens=tokens)
    return False


def _read(domain: Domain) -> Snapshot:
    tops = Notice.objects.filter(domain=domain).order_by().values("audience")
    return Snapshot(
        domain=gather(domain),
        epochs=tuple(epochs.live(domain)),
        rings=blindkeys.rings(domain),
        comparators=tuple(
            contents.PlainComparator(one.name, unb64(one.sealing_key))
            for one in comparators.of(domain)
        ),
        notices={row["audience"]: row["top"] for row in tops.annotate(top=Max("number"))},
    )


def _jobs(snapshot: Snapshot) -> Iterator[Job]:
    """Agents first: they enforce, and publishers must not be ahead of them.

    One after the other, so that agents do not wait for what clients' keys cost to make.
    """
    for comparator in snapshot.comparators:
        # Before anybody: what nobody can compare waits.
        yield Job(
            addresses.audience("comparator", comparator.name),
            comparator.sealing_key,
            contents.comparator_content(snapshot, comparator),
        )
    for agent in snapshot.domain.agents:
        yield Job(
            addresses.audience("agent", agent.name),
            agent.sealing_key,
            contents.agent_content(snapshot, agent),
        )
    for subject in snapshot.domain.subjects:
        if subject.homes:
            yield Job(
                addresses.audience("client", subject.handle),
                subject.sealing_key,
                contents.client_content(snapshot, subject),
            )


def _build(snapshot: Snapshot, job: Job) -> None:
    newest = _newest(snapshot.domain.id, job.address)
    if newest is not None and newest.revision >= snapshot.domain.revision:
        return
    if newest is not None and _still_good(newest, job):
        return
    previous = _previous(snapshot.domain.id, job.address)
    sealed = _seal(snapshot, job, previous)
    _store(snapshot, job, sealed)


def _newest(domain_id: int, address: str) -> Bundle | None:
    rows = Bundle.objects.filter(domain_id=domain_id, audience=address).defer("message")
    return rows.order_by("-revision").first()


def _still_good(newest: Bundle, job: Job) -> bool:
    """A client hears of a revision only when it changes something for it.

    An agent hears of every one: its acknowledgement is the proof that the change arrived.
    """
    if isinstance(job.content, AgentContent):
        return False
    fresh = newest.expires_at - timezone.now() > RENEW_BEFORE
    return (
        fresh
        and newest.state not in (Bundle.State.REJECTED, Bundle.State.SUPERSEDED)
        and newest.content_hash == job.content_hash
    )


def _previous(domain_id: int, address: str) -> str:
    """The digest that the bundle follows, or "" for one that stands alone.

    It follows the last one that was applied only when nothing came after that: what is still on
    its way may be in force by the time that this one arrives.
    """
    newest = _newest(domain_id, address)
    applied = newest is not None and newest.state == Bundle.State.APPLIED
    return newest.digest if newest is not None and applied else ""


def _seal(snapshot: Snapshot, job: Job, previous: str) -> SealedBundle:
    authority = get_authority()
    now = timezone.now()
    return build_bundle(
        domain=snapshot.domain.name,
        audience=job.address,
        revision=snapshot.domain.revision,
        previous=previous,
        issued=int(now.timestamp()),
        expires=int((now + LIFETIME).timestamp()),
        root_version=authority.anchors().root_version,
        content=job.content,
        sign=lambda context, payload: authority.sign("policy", context, payload),
        recipient=job.recipient,
    )


@transaction.atomic
def _store(snapshot: Snapshot, job: Job, sealed: SealedBundle) -> None:
    rows = Bundle.objects.filter(audience=job.address, domain_id=snapshot.domain.id)
    rows.filter(revision__lt=snapshot.domain.revision, state__in=delivery.UNACKNOWLEDGED).update(
        state=Bundle.State.SUPERSEDED
    )
    bundle, created = Bundle.objects.get_or_create(
        audience=job.address,
        domain_id=snapshot.domain.id,
        revision=snapshot.domain.revision,
        defaults=_columns(job, sealed),
    )
    if created:
        recipient(job.address, bundle.domain)
        delivery.request_push(bundle)


@transaction.atomic
def _replace(snapshot: Snapshot, job: Job, old: Bundle) -> None:
    sealed = _seal(snapshot, job, previous="")
    row, _ = Bundle.objects.update_or_create(
        audience=job.address,
        domain_id=snapshot.domain.id,
        revision=snapshot.domain.revision,
        defaults={**_columns(job, sealed), "state": Bundle.State.BUILT, "reason": ""},
    )
    delivery.request_resend(row)


def _columns(job: Job, sealed: SealedBundle) -> dict[str, object]:
    return {
        "digest": sealed.digest,
        "content_hash": job.content_hash,
        "size": len(sealed.message),
        "message": sealed.message,
        "expires_at": timezone.now() + LIFETIME,
    }
