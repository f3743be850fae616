"""Compiling: what every agent and client of a domain must now hold, signed, sealed and queued."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from django.db.models import Max
from django.utils import timezone

from adminapp.core.authority import RevisionRefused
from adminapp.distribution import (
    blindepochs,
    blindkeys,
    building,
    comparators,
    contents,
    decisionlogs,
    epochs,
    keyepochs,
    numbering,
    rights,
    rollouts,
    stages,
)
from adminapp.distribution.building import Job
from adminapp.distribution.contents import Snapshot
from adminapp.distribution.gather import gather, steady
from adminapp.distribution.models import Bundle, Compilation, Notice
from adminapp.distribution.plan import PlainDomain, longest_conjunction
from adminapp.identity.models import Domain
from policyengine.bundles import addresses
from policyengine.primitives.canonical import dumps, unb64
from policyengine.primitives.hashing import digest


def compile_domain(domain_id: int, *, beat: Callable[[], None] = lambda: None) -> int:
    """Make the bundles of the domain's newest revision; returns that revision.

    Older revisions that were waiting are skipped: a bundle leads from what was acknowledged to
    the newest, or is whole, so only the newest matters. `beat` is called every few bundles: a
    large domain takes long.
    """
    done, _ = Compilation.objects.get_or_create(domain_id=domain_id)
    if done.revision >= Domain.objects.values_list("revision", flat=True).get(pk=domain_id):
        return done.revision
    began = timezone.now()
    snapshot = _snapshot(domain_id)
    views = stages.take_in(domain=done.domain, plain=snapshot.domain)
    try:
        building.build(snapshot, _jobs(snapshot, views), beat=beat)
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
                building.replace(snapshot, job, wanted[job.address])
                beat()
        except RevisionRefused:
            numbering.overtake(domain.pk, snapshot.domain.revision)


def _another_follows(old: Bundle) -> bool:
    """Whether a newer bundle is there or about to be made; an agent whose stage is not in force
    gets none for the newest revision.
    """
    compiled = Compilation.objects.filter(domain=old.domain, revision__gte=old.domain.revision)
    newer = Bundle.objects.filter(
        domain_id=old.domain_id, audience=old.audience, revision__gt=old.revision
    )
    return not compiled.exists() or newer.exists()


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
            partial(contents.comparator_content, snapshot, comparator),
        )
    for agent in snapshot.domain.agents:
        address = addresses.audience("agent", agent.name)
        if only is not None and address not in only:
            continue
        yield Job(
            address,
            agent.sealing_key,
            partial(contents.agent_content, _seen(snapshot, views.of(agent.name)), agent),
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
                partial(contents.client_content, told, subject),
            )


def _seen(snapshot: Snapshot, domain: PlainDomain) -> Snapshot:
    return snapshot if domain is snapshot.domain else replace(snapshot, domain=domain)


def _fingerprint(snapshot: Snapshot, views: stages.Views, agent: str) -> str:
    """Of what an agent is to hold, its epochs included."""
    seen = views.fingerprint(agent)
    held = [[each.number, str(each.state)] for each in snapshot.epochs]
    return digest(dumps([seen, held])) if seen else ""
