"""Certificates for TLS: the first with the confirmation, each next one by the key that holds."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import journal, versions
from adminapp.core.authority import get_authority
from adminapp.core.errors import Forbidden
from adminapp.enrolment import mapping, selectors
from adminapp.enrolment.models import Certificate, Enrolment
from adminapp.identity.recording import record_row
from policyengine.bundles.enrolment import (
    EnrolmentRenewal,
    EnrolmentRequest,
    read_enrolment,
    verify_enrolment,
)
from policyengine.errors import PortcullisError
from policyengine.primitives.canonical import unb64
from policyengine.primitives.certificates import read_certificate
from policyengine.primitives.issuing import read_request

NO_RENEWAL = "this certificate is not renewed: it is over, replaced or banned, or the key is not"


def issue_first(row: Enrolment) -> Certificate:
    """The certificate of a confirmed request; within the change that confirms it."""
    request = read_enrolment(EnrolmentRequest, bytes(row.request))
    return _issue(row, request.tls_request, None)


def renew(*, data: bytes, signature: bytes) -> Certificate:
    """The certificate that follows one that holds still; asked twice, the same one.

    Raises:
        Forbidden: the certificate is over or was followed by another one, its holder is banned,
            revoked or enrolled anew, or the registered key did not sign this.
    """
    try:
        renewal = read_enrolment(EnrolmentRenewal, data)
        held = _held(renewal)
        key = unb64(held.enrolment.verify_key)
        verify_enrolment(EnrolmentRenewal, data, signature, key)
        read_request(renewal.tls_request)
    except PortcullisError as error:
        raise Forbidden(NO_RENEWAL) from error
    with journal.source(journal.SYSTEM):
        return _follow(held, renewal.tls_request)


def _held(renewal: EnrolmentRenewal) -> Certificate:
    found = (
        Certificate.objects.select_related("enrolment__domain", "enrolment__overlay")
        .filter(
            serial=renewal.serial,
            enrolment__kind=renewal.kind,
            enrolment__name=renewal.name,
            enrolment__in=Enrolment.objects.filter(selectors.in_force()).values("pk"),
            ends__gt=timezone.now(),
        )
        .first()
    )
    if found is None:
        raise Forbidden(NO_RENEWAL)
    return found


@audit.change
def _follow(held: Certificate, request: str) -> Certificate:
    row = versions.locked(held, None)
    # INVARIANT: each certificate is followed once, so that a renewal that was overheard gives
    # nothing, and two machines with one key show themselves.
    after = Certificate.objects.filter(follows=row).first()
    if after is not None:
        if after.request != request:
            raise Forbidden(NO_RENEWAL)
        return after
    return _issue(held.enrolment, request, row)


def _issue(row: Enrolment, request: str, follows: Certificate | None) -> Certificate:
    issued = get_authority().issue_certificate(
        kind=row.kind,
        name=row.name,
        enrolment=row.uid,
        request=request,
        seconds=settings.CERTIFICATE_SECONDS,
    )
    made = Certificate(
        enrolment=row,
        serial=issued.serial,
        subject=", ".join(read_certificate(issued.pem).subject.split(",")),
        request=request,
        pem=issued.pem,
        begins=datetime.fromtimestamp(issued.begins, UTC),
        ends=datetime.fromtimestamp(issued.ends, UTC),
        follows=follows,
    )
    versions.create(made)
    record_row(
        None,
        row.domain,
        "certificate.issued",
        made,
        before=None if follows is None else mapping.certificate(follows),
        after=mapping.certificate(made),
        affects_agents=False,
    )
    return made
