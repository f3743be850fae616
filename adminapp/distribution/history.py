"""Who enforced which revision when: told by signed acknowledgements, held against what was built.

An audience can say what it likes about itself. What it says is kept, and believed only where a
bundle of that revision with that digest was built for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from adminapp.distribution.models import Bundle, Enforcement, Recipient
from adminapp.identity.models import Domain
from policyengine.bundles.addresses import audience


@dataclass(frozen=True)
class Built:
    """What was built of revisions that audiences speak of.

    Args:
        digests: (audience, domain's number, revision) -> every digest that it ever had.
        keys: the same -> the epochs of keys in it.
    """

    digests: Mapping[tuple[str, int, int], Collection[str]]
    keys: Mapping[tuple[str, int, int], Mapping[str, Mapping[str, str]]]


def built(told: Iterable[tuple[Recipient, Mapping[str, Any]]]) -> Built:
    """What was built of what these say that they hold."""
    places = {(row.audience, row.domain_id, held["revision"]) for row, held in told}
    rows = Bundle.objects.filter(
        audience__in={audience for audience, _, _ in places},
        domain__in={domain for _, domain, _ in places},
        revision__in={revision for _, _, revision in places},
    ).values_list("audience", "domain_id", "revision", "digest", "replaced", "keys")
    found = {row[:3]: row[3:] for row in rows}
    return Built(
        {place: {digest, *replaced} for place, (digest, replaced, _) in found.items()},
        {place: keys for place, (_, _, keys) in found.items()},
    )


def proven(row: Recipient, held: Mapping[str, Any], built: Built) -> bool:
    """Whether what an audience says that it holds was built for it."""
    revision, digest = held["revision"], held["digest"]
    if revision == 0:
        return bool(digest == "")
    if (row.revision, row.digest) == (revision, digest) and row.state != row.State.CONTRADICTS:
        return True
    place = row.audience, row.domain_id, revision
    if digest in built.digests.get(place, ()):
        return True
    # Bundles are forgotten after days, what was acknowledged of them is not.
    mine = {"audience": row.audience, "domain": row.domain_id, "revision": revision}
    return Enforcement.objects.filter(**mine, digest=digest, proven=True).exists()


def keys_of(row: Recipient, held: Mapping[str, Any], built: Built) -> dict[str, Any]:
    """Epochs of keys in the bundle that an audience proved to hold."""
    same = (row.revision, row.digest) == (held["revision"], held["digest"])
    if (row.keys and same) or not row.audience.startswith("agent:"):
        return dict(row.keys)
    return dict(built.keys.get((row.audience, row.domain_id, held["revision"]), {}))


def note(row: Recipient, held: Mapping[str, Any], *, believed: bool) -> None:
    """Write down that an audience says something else than before."""
    Enforcement.objects.create(
        audience=row.audience,
        domain_id=row.domain_id,
        revision=held["revision"],
        digest=held["digest"],
        proven=believed,
    )


def entries(user: Any = None) -> QuerySet[Enforcement]:
    """What `user` may see, in the order in which it was told (None: all)."""
    found = Enforcement.objects.select_related("domain")
    return found if user is None else found.visible_to(user)


def forget(now: datetime | None = None) -> int:
    """Forget what is older than the period; what is still in force always stays."""
    before = (now or timezone.now()) - timedelta(days=settings.ENFORCEMENT_DAYS)
    later = Enforcement.objects.filter(
        audience=OuterRef("audience"),
        domain=OuterRef("domain"),
        pk__gt=OuterRef("pk"),
        applied_at__lt=before,
    )
    deleted, _ = Enforcement.objects.filter(Exists(later), applied_at__lt=before).delete()
    return deleted


# -- lanes, to be drawn ------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """A revision in force at one agent from a moment on.

    Args:
        revision: which; 0 is none.
        since: when its signed acknowledgement came.
        until: when another one's did, or the end of what is looked at.
        kind: `applied`, `silent` (its lease had ended), `contradicts` or `none`.
        start: where it begins, in parts of a thousand of the time looked at.
        width: how long it is, in the same parts.
    """

    revision: int
    since: datetime
    until: datetime
    kind: str
    start: int
    width: int


@dataclass(frozen=True)
class Lane:
    """One agent's revisions of one domain over time."""

    agent: str
    domain: str
    spans: tuple[Span, ...]


HOURS_SHOWN = 24
_PARTS = 1000


def lanes(
    domain: Domain, agents: Iterable[str], *, now: datetime | None = None, hours: int = HOURS_SHOWN
) -> list[Lane]:
    """What each of these agents enforced of a domain in the last hours, in two queries."""
    end = now or timezone.now()
    start = end - timedelta(hours=hours)
    names = list(agents)
    addresses = [audience("agent", name) for name in names]
    told: dict[str, list[Enforcement]] = {address: [] for address in addresses}
    for row in _since(domain, addresses, start):
        told[row.audience].append(row)
    held = Recipient.objects.filter(domain=domain, audience__in=addresses)
    leases = dict(held.values_list("audience", "leased_until"))
    return [
        Lane(name, domain.name, tuple(_spans(told[address], leases.get(address), start, end)))
        for name, address in zip(names, addresses, strict=True)
    ]


def _since(domain: Domain, addresses: list[str], start: datetime) -> QuerySet[Enforcement]:
    """Everything since a moment, and what was in force at that moment."""
    mine = Enforcement.objects.filter(domain=domain, audience__in=addresses)
    newer = Enforcement.objects.filter(
        audience=OuterRef("audience"), domain=domain, pk__gt=OuterRef("pk"), applied_at__lte=start
    )
    return mine.filter(Q(applied_at__gt=start) | ~Exists(newer)).order_by("pk")


def _spans(
    rows: list[Enforcement], leased_until: datetime | None, start: datetime, end: datetime
) -> Iterator[Span]:
    ends = [*(row.applied_at for row in rows[1:]), end][: len(rows)]
    for number, (row, until) in enumerate(zip(rows, ends, strict=True)):
        kind, times = _kind(row), (start, end)
        silent = leased_until is not None and row.applied_at <= leased_until < end
        if leased_until and silent and number == len(rows) - 1 and kind == "applied":
            # INVARIANT: without a lease it delivers nothing; what it said before is no news.
            yield _span(row, kind, (row.applied_at, leased_until), times)
            yield _span(row, "silent", (leased_until, end), times)
        else:
            yield _span(row, kind, (row.applied_at, until), times)


def _kind(row: Enforcement) -> str:
    if not row.proven:
        return "contradicts"
    return "applied" if row.revision else "none"


def _span(
    row: Enforcement, kind: str, lasts: tuple[datetime, datetime], shown: tuple[datetime, datetime]
) -> Span:
    start, end = shown
    whole = (end - start) / _PARTS
    left, right = (round((max(moment, start) - start) / whole) for moment in lasts)
    return Span(row.revision, *lasts, kind, left, max(right - left, 1))
