"""The root of trust as the control plane passes it on: it signs nothing of it and decides nothing.

Roots are public and signed by their holders. Whoever asks for a lease says which root it trusts
and gets those after it ahead of the lease; what was signed under the root before is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import F, Max
from django.utils import timezone

from adminapp.core.authority import AuthorityError, AuthorityUnavailable, get_authority
from adminapp.distribution.models import Bundle, Recipient
from adminapp.identity.models import Domain
from adminapp.identity.services import record_change
from policyengine.bundles import messages
from policyengine.bundles.roots import ROLES, decode_roots
from policyengine.errors import RejectedError
from policyengine.primitives.hashing import digest

WARN_DAYS = 90
"""From how many days before its end on a root is warned of: holders must be brought together."""
URGENT_DAYS = 14
_NEWEST = 2**31 - 1
_DAY = 86_400


@dataclass(frozen=True)
class RootStanding:
    """What an operator must know of the root in force.

    Args:
        version: its version.
        self_made: whether no ceremony was held: the authority itself holds its holders' keys.
        days: until it ends, and delivery with it; below 0 afterwards.
    """

    version: int
    self_made: bool
    days: float


def standing() -> RootStanding | None:
    """How the root in force stands; None while the authority does not answer."""
    try:
        found = get_authority().root(after=_NEWEST)
    except AuthorityError:
        return None
    days = (found.expires - timezone.now().timestamp()) / _DAY
    return RootStanding(found.version, found.self_made, days)


@dataclass(frozen=True)
class Signatory:
    """A holder of the root, called by the beginning of its key's digest, and whether it signed."""

    name: str
    signed: bool


@dataclass(frozen=True)
class RootShown(RootStanding):
    """What the root in force says, for people to look at.

    Args:
        issued: from when on it holds.
        expires: until when.
        fingerprint: SHA-256 of it, 64 hexadecimal digits.
        threshold: how many holders must sign the next one.
        holders: who they are.
        online: role -> the name of the authority's key for it.
    """

    issued: datetime
    expires: datetime
    fingerprint: str
    threshold: int
    holders: tuple[Signatory, ...]
    online: tuple[tuple[str, str], ...]


def shown() -> RootShown | None:
    """The root in force; None while the authority does not answer."""
    try:
        authority = get_authority()
        found = authority.root(after=authority.root(after=_NEWEST).version - 1)
        signed = decode_roots(found.roots)[-1]
    except (AuthorityError, RejectedError, IndexError):
        return None
    root = signed.claimed()
    by = signed.signers(root.holders)
    days = (found.expires - timezone.now().timestamp()) / _DAY
    return RootShown(
        found.version,
        found.self_made,
        days,
        datetime.fromtimestamp(root.issued, UTC),
        datetime.fromtimestamp(root.expires, UTC),
        signed.fingerprint,
        root.threshold,
        tuple(Signatory(_name(each), each in by) for each in root.holders),
        tuple((role, _name(getattr(root, role))) for role in ROLES),
    )


def _name(public: bytes) -> str:
    """How `policyctl root` calls a key."""
    return digest(public)[:16]


@dataclass(frozen=True)
class Follower:
    """Which root an agent trusts, as it last said, signed.

    Args:
        agent: its name.
        version: 0 where it never said.
        last_seen: when it last said something.
        leased: whether it holds a lease now.
    """

    agent: str
    version: int
    last_seen: datetime | None
    leased: bool


def followers(agents: Iterable[str]) -> list[Follower]:
    """Each of these agents, those with the oldest root first; in one query."""
    rows = Recipient.objects.filter(audience__startswith="agent:").order_by().values("audience")
    told = rows.annotate(root=Max("root_version"), seen=Max("last_seen"), lease=Max("leased_until"))
    held = {row["audience"].partition(":")[2]: row for row in told}
    now = timezone.now()
    found = [
        Follower(name, row["root"], row["seen"], row["lease"] is not None and row["lease"] > now)
        if (row := held.get(name)) is not None
        else Follower(name, 0, None, leased=False)
        for name in agents
    ]
    return sorted(found, key=lambda each: (each.version, each.agent))


def agents_behind(newest: int) -> int:
    """How many agents with a lease last said, signed, that they trust an older root."""
    told = Recipient.objects.filter(audience__startswith="agent:", root_version__gt=0)
    late = told.filter(root_version__lt=newest, leased_until__gt=timezone.now())
    return late.order_by().values("audience").distinct().count()


def version() -> int:
    """Version of the root in force."""
    return get_authority().anchors().root_version


def after(held: int) -> list[bytes]:
    """What must reach an audience that trusts an older root before anything else: those between."""
    roots = get_authority().root(after=held).roots
    return [messages.encode_control("root", "", roots)] if roots else []


def with_bundle(bundle: Bundle) -> list[bytes]:
    """What goes ahead of a bundle: whoever was away must not find it under a strange root."""
    return after(1) if bundle.root_version > 1 else []


def follow() -> int:
    """Have everything signed anew that was signed under an older root; returns how many domains."""
    try:
        newest = version()
    except AuthorityUnavailable:
        # Nothing can be signed now; the next time asks again.
        return 0
    made = Bundle.objects.order_by().values("domain_id").annotate(root=Max("root_version"))
    behind = made.filter(root__lt=newest).values_list("domain_id", flat=True)
    # One that is being compiled at this moment is signed under the newest one anyway.
    ready = Domain.objects.filter(pk__in=list(behind), compilation__revision__gte=F("revision"))
    domains = list(ready.order_by("pk"))
    for domain in domains:
        record_change(
            actor=None,
            domain=domain,
            action="root.followed",
            object_type="domain",
            object_id=domain.pk,
            object_name=domain.name,
            before=None,
            after={"root_version": newest},
        )
    return len(domains)
