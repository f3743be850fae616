"""What those who want to take part send: nobody is signed in here, keys speak for themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase

from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import journal, versions
from adminapp.core.errors import Forbidden, Invalid
from adminapp.enrolment import deciding, mapping, offers, selectors
from adminapp.enrolment.models import Certificate, Enrolment, EnrolmentToken, Kind
from adminapp.enrolment.tokens import check_agent, check_principal
from adminapp.identity.models import Agent
from adminapp.identity.recording import record_row
from policyengine.bundles.enrolment import (
    CHALLENGE_BYTES,
    EnrolmentPlace,
    EnrolmentQuestion,
    EnrolmentRequest,
    fingerprint,
    read_enrolment,
    seal_challenge,
    verify_enrolment,
    verify_enrolment_request,
    write_enrolment,
)
from policyengine.errors import InputError, PortcullisError
from policyengine.primitives.canonical import b64, unb64
from policyengine.primitives.hashing import digest
from policyengine.primitives.issuing import read_request
from policyengine.primitives.rand import SYSTEM_RANDOM

PENDING_FOR = timedelta(hours=24)
State = Enrolment.State
# One answer for a wrong, an expired, a withdrawn and a spent token: nobody learns which.
NO_TOKEN = "this token is not valid: it may be wrong, over, or spent with other keys"  # noqa: S105
NO_PROOF = "the request is not signed by its own keys"


@dataclass(frozen=True)
class Asked:
    """The answer to a request.

    Args:
        enrolment: what became of it.
        challenge: sealed to the request's key; what it says is asked for later.
    """

    enrolment: Enrolment
    challenge: bytes


@dataclass(frozen=True)
class Told:
    """The answer to a question.

    Args:
        enrolment: what became of it.
        place: what a confirmed one gives, or None.
    """

    enrolment: Enrolment
    place: EnrolmentPlace | None


class _Reused(Exception):
    """A token that was spent came again with other keys."""

    def __init__(self, token: EnrolmentToken) -> None:
        super().__init__(token.uid)
        self.token = token


def request_enrolment(*, secret: str, data: bytes, signature: bytes) -> Asked:
    """Take a request; the first one spends the token, and later ones must be the very same.

    Raises:
        Forbidden: the token is not valid, or a key was not proven.
        Invalid: the request asks for what cannot be.
    """
    request = _proven(secret, data, signature)
    with journal.source(journal.SYSTEM):
        try:
            return _take(secret=secret, request=request, data=data)
        except _Reused as error:
            # Written for itself: what was refused leaves nothing else behind.
            _note_reuse(token=error.token)
            raise Forbidden(NO_TOKEN) from None


def _proven(secret: str, data: bytes, signature: bytes) -> EnrolmentRequest:
    try:
        request = verify_enrolment_request(data, signature)
        read_request(request.tls_request)
    except PortcullisError as error:
        raise Forbidden(NO_PROOF) from error
    if request.token != digest(secret.encode()):
        raise Forbidden(NO_TOKEN)
    return request


@audit.change
def _take(*, secret: str, request: EnrolmentRequest, data: bytes) -> Asked:
    token = (
        EnrolmentToken.objects.select_for_update(of=("self",))
        .select_related("overlay", "fleet", "principal", "domain")
        .filter(hash=selectors.token_hash(secret), kind=request.kind)
        .first()
    )
    if token is None:
        raise Forbidden(NO_TOKEN)
    if token.spent_at is not None:
        return _again(token, data)
    if token.expires <= timezone.now():
        raise Forbidden(NO_TOKEN)
    name = _name(token, request)
    offered = write_enrolment(offers.offer())
    row = Enrolment(
        token=token,
        kind=token.kind,
        name=name,
        overlay=token.overlay,
        principal=token.principal,
        domain=token.domain,
        request=data,
        offer=offered,
        sealing_key=b64(request.sealing_key),
        verify_key=b64(request.verify_key),
        fingerprint=fingerprint(data, offered),
        expires=timezone.now() + PENDING_FOR,
    )
    challenge = _challenge(row)
    versions.create(row)
    token.spent_at = timezone.now()
    versions.save(token)
    record_row(
        None,
        row.domain,
        "enrolment.requested",
        row,
        after=mapping.enrolment(row),
        affects_agents=False,
    )
    return Asked(row, challenge)


def _again(token: EnrolmentToken, data: bytes) -> Asked:
    row = Enrolment.objects.select_related("principal").get(token=token)
    # INVARIANT: a token is spent by one request; whoever stole it comes too late or is seen.
    if bytes(row.request) != data:
        raise _Reused(token)
    challenge = _challenge(row)
    versions.save(row)
    return Asked(row, challenge)


def _challenge(row: Enrolment) -> bytes:
    secret = SYSTEM_RANDOM.token(CHALLENGE_BYTES)
    row.challenge = digest(secret)
    try:
        return seal_challenge(secret, enrolment=row.uid, recipient=unb64(row.sealing_key))
    except InputError as error:
        raise Forbidden(NO_PROOF) from error


def _name(token: EnrolmentToken, request: EnrolmentRequest) -> str:
    """The name that is enrolled; a request may leave it out, and may not say another."""
    if token.principal is not None:
        check_principal(token.principal)
        expected = token.principal.handle
    elif token.fleet is not None:
        _check_fleet_name(token, request.name)
        return request.name
    else:
        assert token.overlay is not None
        check_agent(token.name, token.overlay)
        expected = token.name
    if request.name not in {"", expected}:
        raise Invalid.at("/name", f"this token is not for `{request.name}`")
    return expected


def _check_fleet_name(token: EnrolmentToken, name: str) -> None:
    fleet = token.fleet
    assert fleet is not None
    if not name or not fnmatchcase(name, fleet.pattern):
        raise Invalid.at("/name", f"agents of this fleet are named `{fleet.pattern}`")
    # Nobody looks here: an agent that is there already must not lose its place this way.
    if Agent.objects.filter(name=name).exists():
        raise Invalid.at("/name", f"there is an agent `{name}` already")


@audit.change
def _note_reuse(*, token: EnrolmentToken) -> None:
    row = Enrolment.objects.get(token=token)
    document = {**mapping.enrolment(row), "token": token.uid}
    record_row(
        None,
        row.domain,
        "enrolment.token-reused",
        row,
        after=document,
        affects_agents=False,
    )


def ask(*, data: bytes, signature: bytes) -> Told:
    """What became of a request; who asks proves both keys that it named.

    A fleet's agent is confirmed here, once both are proven.

    Raises:
        Forbidden: there is no such request, or a key was not proven.
    """
    try:
        question = read_enrolment(EnrolmentQuestion, data)
        row = (
            Enrolment.objects.select_related("token__fleet", "overlay", "domain", "principal")
            .filter(uid=question.enrolment)
            .first()
        )
        if row is None:
            raise Forbidden(NO_PROOF)
        verify_enrolment(EnrolmentQuestion, data, signature, unb64(row.verify_key))
    except PortcullisError as error:
        raise Forbidden(NO_PROOF) from error
    if digest(question.answer) != row.challenge:
        raise Forbidden(NO_PROOF)
    if row.proven_at is None:
        with journal.source(journal.SYSTEM):
            row = _note_proof(row)
    if row.state == State.PENDING and row.token.fleet is not None:
        row = deciding.confirm_by_fleet(enrolment=row)
    return Told(deciding.current(row), place_of(row))


@audit.change
def _note_proof(row: Enrolment) -> Enrolment:
    held = versions.locked(row, None)
    if held.proven_at is None:
        held.proven_at = timezone.now()
        versions.save(held)
    return held


def place_of(row: Enrolment, certificate: Certificate | None = None) -> EnrolmentPlace | None:
    """What a confirmed enrolment gives; its newest certificate unless another is named."""
    if row.state != State.CONFIRMED:
        return None
    held = certificate or row.certificates.order_by("-pk")[0]
    if row.kind == Kind.AGENT:
        assert row.overlay is not None
        place = row.overlay.name
    else:
        assert row.domain is not None
        place = row.domain.name
    return EnrolmentPlace(row.kind, row.name, place, held.pem, held.serial)
