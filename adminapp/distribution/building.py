"""Bundles of a domain's audiences: sealed one by one, kept and queued a set at a time.

What the control plane knows of the audiences of a set is read at once, and the set is written in
one transaction: a domain has hundreds of agents, and each of them hears of every revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from django.db import IntegrityError, transaction
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from adminapp.core.authority import get_authority
from adminapp.distribution import delivery, deltas, recipients, roots
from adminapp.distribution.batches import chunked
from adminapp.distribution.contents import Snapshot
from adminapp.distribution.models import Bundle, Recipient
from policyengine.bundles.deltas import Delta
from policyengine.bundles.entries import Content, Entries, take_apart
from policyengine.bundles.envelope import SealedBundle, build_bundle
from policyengine.bundles.limits import MAX_CHUNK
from policyengine.bundles.model import AgentContent, ClientContent
from policyengine.primitives.canonical import dumps
from policyengine.primitives.hashing import digest

LIFETIME = timedelta(days=7)
RENEW_BEFORE = timedelta(days=3, hours=12)
TOGETHER = 20
MOST_BYTES = 8 * 2**20
"""Of sealed bundles that wait in memory until they are written."""


@dataclass(frozen=True)
class Job:
    """One bundle to be made: for whom, sealed to which key, holding what.

    Args:
        make: gives the content; it is asked once, where the content is needed.
        fingerprint: of what an agent is to hold, where its domain is rolled out by stages.
        waits: whether it is an agent whose stage is not in force: it gets a bundle only where
            something else than policies changed for it.
    """

    address: str
    recipient: bytes
    make: Callable[[], Content]
    fingerprint: str = ""
    waits: bool = False

    @cached_property
    def content(self) -> Content:
        """What the audience is to hold."""
        return self.make()

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


@dataclass(frozen=True)
class Made:
    """A sealed bundle that is not kept yet.

    Args:
        tag_epoch: the newest epoch that a client can make tags of with it, or 0.
    """

    address: str
    sealed: SealedBundle
    outline: bytes
    columns: Mapping[str, object]
    tag_epoch: int

    @classmethod
    def of(cls, job: Job, sealed: SealedBundle, root: int, delta: Delta | None) -> Made:
        """What is to be kept of a job that was sealed under a root."""
        columns = {
            "root_version": root,
            "digest": sealed.digest,
            "content_hash": job.content_hash,
            "keys": _keys(job.content),
            "size": sealed.size,
            "message": sealed.message,
            "expires_at": timezone.now() + LIFETIME,
            "form": Bundle.Form.DELTA if delta else Bundle.Form.WHOLE,
        }
        return cls(job.address, sealed, job.entries.outline, columns, _tag_epoch(job.content))

    def remembered(self, bundle: Bundle) -> deltas.Remembered:
        """With the row that keeps it."""
        return deltas.Remembered(bundle, self.sealed, self.outline)


def build(snapshot: Snapshot, jobs: Iterable[Job], *, beat: Callable[[], None]) -> None:
    """Make, keep and queue the bundles that these audiences lack, in this order; `beat` is called
    after each set.

    Raises:
        RevisionRefused: the authority does not sign this revision for one of them.
    """
    for some in chunked(jobs, TOGETHER):
        left = some
        while left:
            left = _build_some(snapshot, left)
            beat()


def _build_some(snapshot: Snapshot, jobs: list[Job]) -> list[Job]:
    """The first of these, until they are much to keep in memory; returns those that are left."""
    root = roots.version()
    addresses = [job.address for job in jobs]
    newest = _newest(snapshot.domain.id, addresses)
    bases = deltas.bases(snapshot.domain.id, addresses)
    made: list[Made] = []
    done = 0
    for job in jobs:
        if found := _made(snapshot, job, newest.get(job.address), bases, root):
            made.append(found)
        done += 1
        if sum(one.sealed.size for one in made) >= MOST_BYTES:
            break
    # A root that came into force meanwhile may have another key for them.
    if made and roots.version() != root:
        return jobs
    try:
        _store(snapshot, made)
    except IntegrityError:
        if not _kept(snapshot, made):
            raise
        return jobs  # somebody else who compiles this revision was quicker with some of them
    return jobs[done:]


def _made(
    snapshot: Snapshot, job: Job, newest: Bundle | None, bases: Mapping[str, deltas.Base], root: int
) -> Made | None:
    if newest is not None:
        if newest.revision >= snapshot.domain.revision:
            return None
        if _still_good(newest, job, root):
            return None
    previous = _previous(newest, root)
    delta = deltas.choose(bases.get(job.address), previous, job.entries)
    return Made.of(job, _sealed(snapshot, job, previous, delta, root), root, delta)


def _newest(domain_id: int, addresses: Sequence[str]) -> dict[str, Bundle]:
    """The last bundle that each of these was built."""
    rows = Bundle.objects.filter(domain_id=domain_id)
    mine = rows.filter(audience=OuterRef("audience")).order_by("-revision").values("pk")
    found = rows.filter(audience__in=addresses, pk=Subquery(mine[:1])).defer("message")
    return {row.audience: row for row in found}


def _still_good(newest: Bundle, job: Job, root: int) -> bool:
    """A client hears of a revision only when it changes something for it.

    An agent hears of every one, since its acknowledgement is the proof that the change arrived,
    unless it waits for its stage: then it must not hear of what the change is about.
    """
    if isinstance(job.content, AgentContent) and not job.waits:
        return False
    fresh = newest.expires_at - timezone.now() > RENEW_BEFORE
    return (
        fresh
        and newest.root_version == root
        and newest.state not in (Bundle.State.REJECTED, Bundle.State.SUPERSEDED)
        and newest.content_hash == job.content_hash
    )


def _previous(newest: Bundle | None, root: int) -> str:
    """The digest that the bundle follows, or "" for one that stands alone.

    It follows the last one that was applied only when nothing came after that: what is still on
    its way may be in force by the time that this one arrives. Nothing stands on a bundle under
    an older root.
    """
    if newest is None or newest.state != Bundle.State.APPLIED:
        return ""
    return newest.digest if newest.root_version == root else ""


def _sealed(
    snapshot: Snapshot, job: Job, previous: str, delta: Delta | None, root: int
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
        root_version=root,
        content=job.content,
        sign=lambda context, payload: authority.sign("policy", context, payload),
        recipient=job.recipient,
        delta=delta,
        chunk=MAX_CHUNK,
    )


@transaction.atomic
def _store(snapshot: Snapshot, made: Sequence[Made]) -> None:
    if not made:
        return
    domain = snapshot.domain
    addresses = [one.address for one in made]
    Bundle.objects.filter(
        audience__in=addresses,
        domain_id=domain.id,
        revision__lt=domain.revision,
        state__in=delivery.UNACKNOWLEDGED,
    ).update(state=Bundle.State.SUPERSEDED)
    bundles = Bundle.objects.bulk_create(
        Bundle(
            audience=one.address, domain_id=domain.id, revision=domain.revision, **one.columns
        )
        for one in made
    )  # fmt: skip
    deltas.remember([one.remembered(row) for one, row in zip(made, bundles, strict=True)])
    recipients.ensure(domain.id, addresses)
    _note_tag_keys(domain.id, made)
    delivery.request_pushes(bundles)


def _kept(snapshot: Snapshot, made: Sequence[Made]) -> bool:
    """Whether one of these audiences has a bundle of this revision."""
    return Bundle.objects.filter(
        audience__in=[one.address for one in made],
        domain_id=snapshot.domain.id,
        revision=snapshot.domain.revision,
    ).exists()


def _note_tag_keys(domain_id: int, made: Sequence[Made]) -> None:
    """Keep in mind who can make tags of an epoch: the end of its rights asks for another one."""
    for epoch in {one.tag_epoch for one in made if one.tag_epoch}:
        concerned = [one.address for one in made if one.tag_epoch == epoch]
        rows = Recipient.objects.filter(audience__in=concerned, domain_id=domain_id)
        rows.filter(tag_epoch__lt=epoch).update(tag_epoch=epoch)


def replace(snapshot: Snapshot, job: Job, old: Bundle) -> None:
    """Make a bundle again, whole, in the place of one that its audience cannot use."""
    while True:
        root = roots.version()
        made = Made.of(job, _sealed(snapshot, job, "", None, root), root, None)
        if roots.version() == root:
            return _put_in_place(snapshot, made, old)


@transaction.atomic
def _put_in_place(snapshot: Snapshot, made: Made, old: Bundle) -> None:
    row, _ = Bundle.objects.update_or_create(
        audience=made.address,
        domain_id=snapshot.domain.id,
        revision=snapshot.domain.revision,
        defaults={
            **made.columns,
            "state": Bundle.State.BUILT,
            "reason": "",
            "replaced": _replaced(old, snapshot.domain.revision),
        },
    )
    deltas.remember([made.remembered(row)])
    delivery.request_resend(row)


def _replaced(old: Bundle, revision: int) -> list[str]:
    return [*old.replaced, old.digest] if old.revision == revision else []


def _keys(content: Content) -> dict[str, dict[str, str]]:
    """Epochs of keys that an agent holds with it, by group and number."""
    found: dict[str, dict[str, str]] = {}
    if isinstance(content, AgentContent):
        for wrap in content.wraps:
            found.setdefault(wrap.group, {})[str(wrap.epoch)] = wrap.state
        for ring in content.blind:
            found.setdefault("blind", {})[str(ring.epoch)] = ring.state
    return found


def _tag_epoch(content: Content) -> int:
    keys = content.tag_keys if isinstance(content, ClientContent) else ()
    return max((key.epoch for key in keys), default=0)
