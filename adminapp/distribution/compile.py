"""Compiling: what every agent and client of a domain must now hold, signed, sealed and queued."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property

from django.db import transaction
from django.db.models import F, Max
from django.db.models.functions import Greatest
from django.utils import timezone

from adminapp.core.authority import RevisionRefused, get_authority
from adminapp.distribution import (
    blindepochs,
    blindkeys,
    comparators,
    contents,
    decisionlogs,
    delivery,
    deltas,
    epochs,
    keyepochs,
    numbering,
    rights,
    rollouts,
    roots,
    stages,
)
from adminapp.distribution.contents import Snapshot
from adminapp.distribution.gather import gather, steady
from adminapp.distribution.models import Bundle, Compilation, Notice, Recipient
from adminapp.distribution.plan import PlainDomain, longest_conjunction
from adminapp.distribution.recipients import recipient
from adminapp.identity.models import Domain
from policyengine.bundles import addresses
from policyengine.bundles.deltas import Delta
from policyengine.bundles.entries import Entries, take_apart
from policyengine.bundles.envelope import SealedBundle, build_bundle
from policyengine.bundles.limits import MAX_CHUNK
from policyengine.bundles.model import AgentContent, ClientContent, ComparatorContent
from policyengine.primitives.canonical import dumps, unb64
from policyengine.primitives.hashing import digest

LIFETIME = timedelta(days=7)
RENEW_BEFORE = timedelta(days=3, hours=12)


@dataclass(frozen=True)
class Job:
    """One bundle to be made: for whom, sealed to which key, holding what.

    Args:
        fingerprint: of what an agent is to hold, where its domain is rolled out by stages.
        waits: whether it is an agent whose stage is not in force: it gets a bundle only where
            something else than policies changed for it.
    """

    address: str
    recipient: bytes
    content: AgentContent | ClientContent | ComparatorContent
    fingerprint: str = ""
    waits: bool = False

    @cached_property
    def entries(self) -> Entries:
        """The content taken apart."""
        return take_apart(self.content)

    @cached_property
    def content_hash(self) -> str:
        """Tells whether the content changed; an agent hears of every revision."""
        if isinstance(self.content, AgentContent):
            return self.fingerprint
        return digest(dumps(self.content.to_json()))


def compile_domain(domain_id: int) -> int:
    """Make the bundles of the domain's newest revision; returns that revision.

    Older revisions that were waiting are skipped: a bundle leads from what was acknowledged to
    the newest, or is whole, so only the newest matters.
    """
    done, _ = Compilation.objects.get_or_create(domain_id=domain_id)
    if done.revision >= Domain.objects.values_list("revision", flat=True).get(pk=domain_id):
        return done.revision
    began = timezone.now()
    snapshot = _snapshot(domain_id)
    views = stages.take_in(domain=done.domain, plain=snapshot.domain)
    try:
        for job in _jobs(snapshot, views):
            _build(snapshot, job)
    except RevisionRefused:
        numbering.overtake(domain_id, snapshot.domain.revision)
        return done.revision
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


def rebuild(bundle_ids: Collection[int], *, beat: Callable[[], None] = lambda: None) -> None:
    """Make bundles again so that they stand alone, for audiences that hold something else.

    `beat` is called after each of them: in a large domain many take long.
    """
    found = Bundle.objects.select_related("domain").defer("message").filter(pk__in=bundle_ids)
    by_domain: dict[Domain, dict[str, Bundle]] = defaultdict(dict)
    for old in found.order_by("domain", "revision"):
        if not _another_follows(old):
            by_domain[old.domain][old.audience] = old
    for domain, wanted in by_domain.items():
        snapshot = _snapshot(domain.pk)
        views = stages.views(domain, snapshot.domain)
        try:
            for job in _jobs(snapshot, views, only=wanted.keys()):
                _replace(snapshot, job, wanted[job.address])
                beat()
        except RevisionRefused:
            numbering.overtake(domain.pk, snapshot.domain.revision)


def _another_follows(old: Bundle) -> bool:
    """Whether a newer bundle is there or about to be made; an agent whose stage is not in force
    gets none for the newest revision.
    """
    compiled = Compilation.objects.filter(domain=old.domain, revision__gte=old.domain.revision)
    newest = _newest(old.domain_id, old.audience)
    return not compiled.exists() or (newest is not None and newest.revision > old.revision)


def _snapshot(domain_id: int) -> Snapshot:
    domain = Domain.objects.get(pk=domain_id)
    keyepochs.ensure(domain)
    decisionlogs.ensure_key(domain)
    rights.expire(domain)
    snapshot = steady(domain_id, _read)
    if _make_room(snapshot):
        snapshot = steady(domain_id, _read)
    # Before any agent can use what it says.
    rights.note_again(snapshot.again, snapshot.domain.revision)
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
        again=rights.held_again(domain),
    )


def _jobs(
    snapshot: Snapshot, views: stages.Views, *, only: Collection[str] | None = None
) -> Iterator[Job]:
    """Agents first: they enforce, and publishers must not be ahead of them.

    One after the other, so that agents do not wait for what clients' keys cost to make. `only`
    are addresses; None is everybody.
    """
    for comparator in snapshot.comparators:
        # Before anybody: what nobody can compare waits.
        address = addresses.audience("comparator", comparator.name)
        if only is not None and address not in only:
            continue
        yield Job(
            address,
            comparator.sealing_key,
            contents.comparator_content(snapshot, comparator),
        )
    for agent in snapshot.domain.agents:
        address = addresses.audience("agent", agent.name)
        if only is not None and address not in only:
            continue
        yield Job(
            address,
            agent.sealing_key,
            contents.agent_content(_seen(snapshot, views.of(agent.name)), agent),
            _fingerprint(snapshot, views, agent.name),
            views.waits(agent.name),
        )
    told = _seen(snapshot, views.clients)
    for subject in told.domain.subjects:
        address = addresses.audience("client", subject.handle)
        if subject.homes and (only is None or address in only):
            yield Job(
                address,
                subject.sealing_key,
                contents.client_content(told, subject),
            )


def _seen(snapshot: Snapshot, domain: PlainDomain) -> Snapshot:
    return snapshot if domain is snapshot.domain else replace(snapshot, domain=domain)


def _fingerprint(snapshot: Snapshot, views: stages.Views, agent: str) -> str:
    """Of what an agent is to hold, its epochs included."""
    seen = views.fingerprint(agent)
    held = [[each.number, str(each.state)] for each in snapshot.epochs]
    return digest(dumps([seen, held])) if seen else ""


def _build(snapshot: Snapshot, job: Job) -> None:
    newest = _newest(snapshot.domain.id, job.address)
    if newest is not None and newest.revision >= snapshot.domain.revision:
        return
    if newest is not None and _still_good(newest, job):
        return
    previous = _previous(snapshot.domain.id, job.address)
    delta = deltas.choose(snapshot.domain.id, job.address, previous, job.entries)
    sealed, root = _seal(snapshot, job, previous, delta)
    _store(snapshot, job, sealed, root, Bundle.Form.DELTA if delta else Bundle.Form.WHOLE)
    _note_tag_keys(snapshot, job)


def _note_tag_keys(snapshot: Snapshot, job: Job) -> None:
    """Keep in mind who can make tags of an epoch: the end of its rights asks for another one."""
    keys = job.content.tag_keys if isinstance(job.content, ClientContent) else ()
    newest = max((key.epoch for key in keys), default=0)
    if newest:
        row = recipient(job.address, Domain.objects.get(pk=snapshot.domain.id))
        Recipient.objects.filter(pk=row.pk).update(tag_epoch=Greatest(F("tag_epoch"), newest))


def _newest(domain_id: int, address: str) -> Bundle | None:
    rows = Bundle.objects.filter(domain_id=domain_id, audience=address).defer("message")
    return rows.order_by("-revision").first()


def _still_good(newest: Bundle, job: Job) -> bool:
    """A client hears of a revision only when it changes something for it.

    An agent hears of every one, since its acknowledgement is the proof that the change arrived,
    unless it waits for its stage: then it must not hear of what the change is about.
    """
    if isinstance(job.content, AgentContent) and not job.waits:
        return False
    fresh = newest.expires_at - timezone.now() > RENEW_BEFORE
    return (
        fresh
        and newest.root_version == roots.version()
        and newest.state not in (Bundle.State.REJECTED, Bundle.State.SUPERSEDED)
        and newest.content_hash == job.content_hash
    )


def _previous(domain_id: int, address: str) -> str:
    """The digest that the bundle follows, or "" for one that stands alone.

    It follows the last one that was applied only when nothing came after that: what is still on
    its way may be in force by the time that this one arrives. Nothing stands on a bundle under
    an older root.
    """
    newest = _newest(domain_id, address)
    if newest is None or newest.state != Bundle.State.APPLIED:
        return ""
    return newest.digest if newest.root_version == roots.version() else ""


def _seal(
    snapshot: Snapshot, job: Job, previous: str, delta: Delta | None = None
) -> tuple[SealedBundle, int]:
    """Sign and seal; returns the bundle and the version of the root that it goes with."""
    while True:
        version = roots.version()
        sealed = _sealed(snapshot, job, previous, delta, version)
        # A root that came into force meanwhile may have another key for it.
        if roots.version() == version:
            return sealed, version


def _sealed(
    snapshot: Snapshot, job: Job, previous: str, delta: Delta | None, root_version: int
) -> SealedBundle:
    authority = get_authority()
    now = timezone.now()
    return build_bundle(
        domain=snapshot.domain.name,
        audience=job.address,
        revision=snapshot.domain.revision,
        previous=previous,
        issued=int(now.timestamp()),
        expires=int((now + LIFETIME).timestamp()),
        root_version=root_version,
        content=job.content,
        sign=lambda context, payload: authority.sign("policy", context, payload),
        recipient=job.recipient,
        delta=delta,
        chunk=MAX_CHUNK,
    )


@transaction.atomic
def _store(snapshot: Snapshot, job: Job, sealed: SealedBundle, root: int, form: str) -> None:
    rows = Bundle.objects.filter(audience=job.address, domain_id=snapshot.domain.id)
    rows.filter(revision__lt=snapshot.domain.revision, state__in=delivery.UNACKNOWLEDGED).update(
        state=Bundle.State.SUPERSEDED
    )
    bundle, created = Bundle.objects.get_or_create(
        audience=job.address,
        domain_id=snapshot.domain.id,
        revision=snapshot.domain.revision,
        defaults={**_columns(job, sealed, root), "form": form},
    )
    if created:
        deltas.remember(bundle, sealed, job.entries.outline)
        recipient(job.address, bundle.domain)
        delivery.request_push(bundle)


@transaction.atomic
def _replace(snapshot: Snapshot, job: Job, old: Bundle) -> None:
    sealed, root = _seal(snapshot, job, previous="")
    row, _ = Bundle.objects.update_or_create(
        audience=job.address,
        domain_id=snapshot.domain.id,
        revision=snapshot.domain.revision,
        defaults={
            **_columns(job, sealed, root),
            "form": Bundle.Form.WHOLE,
            "state": Bundle.State.BUILT,
            "reason": "",
            "replaced": _replaced(old, snapshot.domain.revision),
        },
    )
    deltas.remember(row, sealed, job.entries.outline)
    delivery.request_resend(row)


def _keys(job: Job) -> dict[str, dict[str, str]]:
    """Epochs of keys that an agent holds with it, by group and number."""
    found: dict[str, dict[str, str]] = {}
    if isinstance(job.content, AgentContent):
        for wrap in job.content.wraps:
            found.setdefault(wrap.group, {})[str(wrap.epoch)] = wrap.state
        for ring in job.content.blind:
            found.setdefault("blind", {})[str(ring.epoch)] = ring.state
    return found


def _replaced(old: Bundle, revision: int) -> list[str]:
    return [*old.replaced, old.digest] if old.revision == revision else []


def _columns(job: Job, sealed: SealedBundle, root: int) -> dict[str, object]:
    return {
        "root_version": root,
        "digest": sealed.digest,
        "content_hash": job.content_hash,
        "keys": _keys(job),
        "size": sealed.size,
        "message": sealed.message,
        "expires_at": timezone.now() + LIFETIME,
    }
