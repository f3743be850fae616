"""Leases: what an audience must hold at least, signed over its fresh nonce.

INVARIANT: from the commit of a revocation on, no lease is signed that does not demand its
notices: what is demanded is read again after the signature was made, and a lease that was
overtaken is signed anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Case, OuterRef, QuerySet, Subquery, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from django.utils import timezone

from adminapp.core.authority import get_authority
from adminapp.distribution import boundaries, delivery, reports
from adminapp.distribution.models import Bundle, Notice, Recipient
from adminapp.distribution.recipients import Audience
from adminapp.identity.models import Domain
from policyengine.bundles import messages
from policyengine.bundles.framing import Request

# How long a bundle may be on its way before a lease demands it. Without this a network that
# holds back bundles but lets leases through would keep an old policy in force for ever.
GRACE = timedelta(seconds=15)

Minimum = dict[str, int]


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


def grant(asked: Audience, request: Request) -> Granted | None:
    """The lease for a request, or None when this audience gets none.

    Raises:
        RejectedError: the request does not verify.
    """
    wish = messages.verify_lease_request(request, asked.verify_key)
    # A request of somebody banned or revoked is read, but never answered.
    every = {domain.name: domain for domain in asked.domains}
    if not every:
        return None
    reports.record_held(
        asked.address, every, wish.held, at=wish.at, reads=wish.reads, root=wish.root
    )
    domains = _current(every)
    signed = _signed(asked, wish.nonce, domains)
    _note_leased(asked.address, domains)
    _mend(asked.address, every)
    return None if signed is None else Granted(*signed, trusted=wish.root)


def _current(domains: Mapping[str, Domain]) -> dict[str, Domain]:
    """Without those of which agents hold what has lapsed since.

    INVARIANT: a right that ends by itself is enforced no later than `GRACE` and one lease after
    its end, though nobody should compile: no lease is given on what grants more than it should.
    """
    late = boundaries.overdue([domain.pk for domain in domains.values()], timezone.now() - GRACE)
    return {name: domain for name, domain in domains.items() if domain.pk not in late}


def _signed(asked: Audience, nonce: str, domains: Mapping[str, Domain]) -> tuple[bytes, int] | None:
    demanded = minimums(asked.address, domains)
    while demanded:
        signed = _seal(asked, nonce, domains, demanded)
        overtaken = minimums(asked.address, domains)
        if overtaken == demanded:
            return signed
        demanded = overtaken
    return None


def _seal(
    asked: Audience, nonce: str, domains: Mapping[str, Domain], demanded: Mapping[str, Minimum]
) -> tuple[bytes, int]:
    authority = get_authority()
    root = authority.anchors().root_version
    lease = messages.Lease(
        audience=asked.address,
        nonce=nonce,
        time=timezone.now().timestamp(),
        seconds={name: domains[name].lease_seconds for name in demanded},
        domains=demanded,
        root=root,
    )
    sealed = messages.seal_lease(
        lease,
        sign=lambda context, payload: authority.sign("lease", context, payload),
        recipient=asked.sealing_key,
    )
    return sealed, root


def minimums(address: str, domains: Mapping[str, Domain]) -> dict[str, Minimum]:
    """What a lease for this audience must demand now, for each domain with a bundle for it."""
    mine = {"audience": address, "domain": OuterRef("pk")}
    # The newest revision that had its time to arrive.
    ripe = Bundle.objects.filter(**mine, built_at__lt=timezone.now() - GRACE)
    found = Domain.objects.filter(pk__in=[domain.pk for domain in domains.values()]).values_list(
        "name",
        _one(Recipient.objects.filter(**mine), "minimum_revision"),
        _one(ripe.order_by("-revision"), "revision"),
        _one(Notice.objects.filter(**mine).order_by("-number"), "number"),
    )
    return {
        name: {"minimum_revision": max(floor, ripe), "minimum_notice": notice}
        for name, floor, ripe, notice in found.order_by("pk")
    }


def _one(rows: QuerySet[Any], column: str) -> Combinable:
    return Coalesce(Subquery(rows.values(column)[:1]), 0)


def _note_leased(address: str, domains: Mapping[str, Domain]) -> None:
    now = timezone.now()
    by_length: dict[int, list[Domain]] = {}
    for domain in domains.values():
        by_length.setdefault(domain.lease_seconds, []).append(domain)
    for seconds, alike in by_length.items():
        Recipient.objects.filter(audience=address, domain__in=alike).update(
            leased_until=now + timedelta(seconds=seconds),
            leased_since=Case(When(leased_until__gte=now, then="leased_since"), default=now),
        )


def _mend(address: str, domains: Mapping[str, Domain]) -> None:
    """Send again what an audience shows that it lacks: it lost its state, or a message was lost."""
    late = timezone.now() - delivery.RESEND_AFTER
    mine = {"audience": address, "domain": OuterRef("domain")}
    held = Subquery(Recipient.objects.filter(**mine).values("revision")[:1])
    newer = Bundle.objects.filter(
        audience=address, domain__in=domains.values(), revision__gt=held
    ).defer("message")
    newest = {bundle.domain_id: bundle for bundle in newer.order_by("revision")}
    for bundle in newest.values():
        # One that was rejected waits for a newer one; one just sent may still be on its way.
        if bundle.state == Bundle.State.REJECTED:
            continue
        if bundle.state == Bundle.State.APPLIED or (bundle.sent_at and bundle.sent_at < late):
            delivery.restart(bundle)
