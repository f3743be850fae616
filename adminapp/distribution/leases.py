"""Leases: what an audience must hold at least, signed over its fresh nonce.

INVARIANT: from the commit of a revocation on, no lease is signed that does not demand its
notices: what is demanded is read again after the signature was made, and a lease that was
overtaken is signed anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Case, OuterRef, QuerySet, Subquery, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from django.utils import timezone

from adminapp.core.authority import get_authority
from adminapp.distribution import boundaries, delivery, recipients, reports
from adminapp.distribution.models import Bundle, Notice, Recipient
from adminapp.distribution.recipients import Audience
from adminapp.identity.models import Domain
from policyengine.bundles import messages
from policyengine.bundles.framing import Request

# How long a bundle may be on its way before a lease demands it. Without this a network that
# holds back bundles but lets leases through would keep an old policy in force for ever.
GRACE = timedelta(seconds=15)


@dataclass(frozen=True)
class Demand:
    """What a lease says of one domain.

    Args:
        row: primary key of the recipient's row.
        seconds: how long the lease is.
        minimum_revision: the audience may act on no older one.
        minimum_notice: it must have applied every notice up to this one.
    """

    row: int
    seconds: int
    minimum_revision: int
    minimum_notice: int


Demands = Mapping[str, Demand]
"""By the domain's name."""
Served = Mapping[str, Collection[Domain]]
"""Domains by the address of who may hear of them."""


@dataclass(frozen=True)
class Granted:
    """A lease for an audience.

    Args:
        sealed: the lease.
        root: version of the root that it was signed under.
        trusted: version of the root that the audience says that it trusts.
    """

    sealed: bytes
    root: int
    trusted: int


@dataclass(frozen=True)
class Wish:
    """A question for a lease whose signature was checked."""

    asked: Audience
    request: messages.LeaseRequest


def read(asked: Audience, request: Request) -> Wish:
    """Check a question for a lease.

    Raises:
        RejectedError: the request does not verify.
    """
    return Wish(asked, messages.verify_lease_request(request, asked.verify_key))


def grant(wishes: Sequence[Wish]) -> list[Granted | None]:
    """The lease for each of some questions, in their order; None for whom there is none.

    Together they cost little more than one of them: what they say and what is demanded of them is
    read and written at once.
    """
    served = recipients.served(wish.asked for wish in wishes)
    # A request of somebody banned or revoked is read, but never answered.
    asking = [wish for wish in wishes if served[wish.asked.address]]
    if not asking:
        return [None] * len(wishes)
    reports.record_held(_report(wish, served[wish.asked.address]) for wish in asking)
    signed = _signed(asking, served)
    _mend(served)
    found = dict(zip(map(id, asking), signed, strict=True))
    return [found.get(id(wish)) for wish in wishes]


def _report(wish: Wish, domains: Iterable[Domain]) -> reports.Report:
    request = wish.request
    return reports.Report(
        wish.asked.address,
        {domain.name: domain for domain in domains},
        request.held,
        at=request.at,
        reads=request.reads,
        root=request.root,
    )


def _signed(wishes: Sequence[Wish], served: Served) -> list[Granted | None]:
    """Signed, sealed and noted."""
    found: list[Granted | None] = [None] * len(wishes)
    current = demands(served)
    open_ = [number for number, wish in enumerate(wishes) if current.get(wish.asked.address)]
    while open_:
        root = get_authority().anchors().root_version
        sealed = {
            number: _seal(wishes[number], current[wishes[number].asked.address], root)
            for number in open_
        }
        # INVARIANT: all of it is read again, who may still hear of what as well.
        again = recipients.find_all({wishes[number].asked.address for number in open_})
        held, current = current, demands(recipients.served(again.values()))
        done = []
        for number, lease in sealed.items():
            address = wishes[number].asked.address
            if current.get(address) == held[address]:
                found[number] = Granted(lease, root, wishes[number].request.root)
                done.append(address)
        _note_leased(demand for address in done for demand in held[address].values())
        open_ = [
            number
            for number in open_
            if found[number] is None and current.get(wishes[number].asked.address)
        ]
    return found


def _seal(wish: Wish, demanded: Demands, root: int) -> bytes:
    authority = get_authority()
    lease = messages.Lease(
        audience=wish.asked.address,
        nonce=wish.request.nonce,
        time=timezone.now().timestamp(),
        seconds={name: demand.seconds for name, demand in demanded.items()},
        domains={
            name: {
                "minimum_revision": demand.minimum_revision,
                "minimum_notice": demand.minimum_notice,
            }
            for name, demand in demanded.items()
        },
        root=root,
    )
    return messages.seal_lease(
        lease,
        sign=lambda context, payload: authority.sign("lease", context, payload),
        recipient=wish.asked.sealing_key,
    )


def demands(served: Served) -> dict[str, Demands]:
    """What a lease must demand now of each audience, for each domain that it may hear of.

    INVARIANT: a right that ends by itself is enforced no later than `GRACE` and one lease after
    its end, though nobody should compile: no lease is given on what grants more than it should.
    """
    domains = {domain.pk: domain for each in served.values() for domain in each}
    late = boundaries.overdue(domains.keys(), timezone.now() - GRACE)
    mine = {"audience": OuterRef("audience"), "domain": OuterRef("domain")}
    # The newest revision that had its time to arrive.
    ripe = Bundle.objects.filter(**mine, built_at__lt=timezone.now() - GRACE)
    rows = Recipient.objects.filter(audience__in=served.keys(), domain__in=domains.keys() - late)
    told = rows.order_by("domain__name").values_list(
        "audience",
        "domain",
        "pk",
        "minimum_revision",
        _one(ripe.order_by("-revision"), "revision"),
        _one(Notice.objects.filter(**mine).order_by("-number"), "number"),
    )
    found: dict[str, dict[str, Demand]] = {address: {} for address in served}
    for address, pk, row, floor, newest, notice in told:
        domain = domains[pk]
        if domain in served[address]:
            demand = Demand(row, domain.lease_seconds, max(floor, newest), notice)
            found[address][domain.name] = demand
    return {**found}


def _one(rows: QuerySet[Any], column: str) -> Combinable:
    return Coalesce(Subquery(rows.values(column)[:1]), 0)


def _note_leased(given: Iterable[Demand]) -> None:
    now = timezone.now()
    by_length: dict[int, list[int]] = defaultdict(list)
    for demand in given:
        by_length[demand.seconds].append(demand.row)
    for seconds, rows in by_length.items():
        Recipient.objects.filter(pk__in=rows).update(
            leased_until=now + timedelta(seconds=seconds),
            leased_since=Case(When(leased_until__gte=now, then="leased_since"), default=now),
        )


def _mend(served: Served) -> None:
    """Send again what audiences show that they lack: one lost its state, or a message was lost."""
    late = timezone.now() - delivery.RESEND_AFTER
    mine = {"audience": OuterRef("audience"), "domain": OuterRef("domain")}
    held = Subquery(Recipient.objects.filter(**mine).values("revision")[:1])
    newer = Bundle.objects.filter(
        audience__in=served.keys(),
        domain__in={domain.pk for each in served.values() for domain in each},
        revision__gt=held,
    ).defer("message")
    newest = {(bundle.audience, bundle.domain_id): bundle for bundle in newer.order_by("revision")}
    for (address, pk), bundle in newest.items():
        # One that was rejected waits for a newer one; one just sent may still be on its way.
        if bundle.state == Bundle.State.REJECTED or pk not in {each.pk for each in served[address]}:
            continue
        if bundle.state == Bundle.State.APPLIED or (bundle.sent_at and bundle.sent_at < late):
            delivery.restart(bundle)
