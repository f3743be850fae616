"""Leases: what an audience must hold at least, signed over its fresh nonce.

INVARIANT: from the commit of a revocation on, no lease is signed that does not demand its
notices: what is demanded is read again after the signature was made, and a lease that was
overtaken is signed anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import Max
from django.utils import timezone

from adminapp.core.authority import get_authority
from adminapp.distribution import boundaries, delivery, reports
from adminapp.distribution.models import Bundle, Recipient
from adminapp.distribution.recipients import Audience
from adminapp.identity.models import Domain
from policyengine.bundles import messages
from policyengine.bundles.framing import Request

# How long a bundle may be on its way before a lease demands it. Without this a network that
# holds back bundles but lets leases through would keep an old policy in force for ever.
GRACE = timedelta(seconds=15)

Minimum = dict[str, int]


def grant(asked: Audience, request: Request) -> bytes | None:
    """The sealed lease for a request, or None when this audience gets none.

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
    sealed = _signed(asked, wish.nonce, domains)
    _note_leased(asked.address, domains)
    _mend(asked.address, every)
    return sealed


def _current(domains: Mapping[str, Domain]) -> dict[str, Domain]:
    """Without those of which agents hold what has lapsed since.

    INVARIANT: a right that ends by itself is enforced no later than `GRACE` and one lease after
    its end, though nobody should compile: no lease is given on what grants more than it should.
    """
    late = boundaries.overdue([domain.pk for domain in domains.values()], timezone.now() - GRACE)
    return {name: domain for name, domain in domains.items() if domain.pk not in late}


def _signed(asked: Audience, nonce: str, domains: Mapping[str, Domain]) -> bytes | None:
    demanded = minimums(asked.address, domains)
    while demanded:
        sealed = _seal(asked, nonce, domains, demanded)
        overtaken = minimums(asked.address, domains)
        if overtaken == demanded:
            return sealed
        demanded = overtaken
    return None


def _seal(
    asked: Audience, nonce: str, domains: Mapping[str, Domain], demanded: Mapping[str, Minimum]
) -> bytes:
    authority = get_authority()
    lease = messages.Lease(
        audience=asked.address,
        nonce=nonce,
        time=timezone.now().timestamp(),
        seconds={name: domains[name].lease_seconds for name in demanded},
        domains=demanded,
        root=authority.anchors().root_version,
    )
    return messages.seal_lease(
        lease,
        sign=lambda context, payload: authority.sign("lease", context, payload),
        recipient=asked.sealing_key,
    )


def minimums(address: str, domains: Mapping[str, Domain]) -> dict[str, Minimum]:
    """What a lease for this audience must demand now, for each domain with a bundle for it."""
    by_id = {domain.pk: name for name, domain in domains.items()}
    floors = dict(
        Recipient.objects.filter(audience=address, domain__in=by_id).values_list(
            "domain_id", "minimum_revision"
        )
    )
    return {
        name: {
            "minimum_revision": max(floors.get(pk, 0), _ripe(address, pk)),
            "minimum_notice": delivery.newest_notice(address, pk),
        }
        for pk, name in by_id.items()
    }


def _ripe(address: str, domain_id: int) -> int:
    """The newest revision that had its time to arrive."""
    ripe = Bundle.objects.filter(
        audience=address, domain_id=domain_id, built_at__lt=timezone.now() - GRACE
    )
    return ripe.aggregate(top=Max("revision"))["top"] or 0


def _note_leased(address: str, domains: Mapping[str, Domain]) -> None:
    now = timezone.now()
    for domain in domains.values():
        Recipient.objects.filter(audience=address, domain=domain).update(
            leased_until=now + timedelta(seconds=domain.lease_seconds)
        )


def _mend(address: str, domains: Mapping[str, Domain]) -> None:
    """Send again what an audience shows that it lacks: it lost its state, or a message was lost."""
    late = timezone.now() - delivery.RESEND_AFTER
    held = Recipient.objects.filter(audience=address, domain__in=domains.values())
    for row in held.select_related("domain"):
        _resend_bundle(address, row.domain, row.revision, late)


def _resend_bundle(address: str, domain: Domain, revision: int, late: datetime) -> None:
    newest = (
        Bundle.objects.filter(audience=address, domain=domain)
        .defer("message")
        .order_by("-revision")
        .first()
    )
    # One that was rejected waits for a newer one; one just sent may still be on its way.
    if newest is None or newest.revision <= revision or newest.state == Bundle.State.REJECTED:
        return
    if newest.state == Bundle.State.APPLIED or (newest.sent_at and newest.sent_at < late):
        delivery.restart(newest)
