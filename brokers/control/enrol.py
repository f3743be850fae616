"""The applicant's side of enrolment: what it sends, and what it believes of the answers.

Nothing here reads a file, a clock or a socket. What an applicant has to keep is `Application`,
then `Offered`; asked again with the same ones, the control plane gives the same answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from policyengine.bundles.enrolment import (
    EnrolmentOffer,
    EnrolmentPlace,
    EnrolmentQuestion,
    EnrolmentRenewal,
    EnrolmentRequest,
    fingerprint,
    open_challenge,
    read_enrolment,
    sign_enrolment,
)
from policyengine.errors import InputError
from policyengine.primitives.hashing import digest
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.issuing import (
    check_issued,
    generate_tls_key,
    request_certificate,
)
from policyengine.primitives.signatures import SigningKey


@dataclass(frozen=True)
class Application:
    """A request as it is sent, however often.

    Args:
        kind: `agent` or `client`.
        record: its bytes.
        signature: over them.
        tls_key: the private key for TLS that it asks a certificate for, PEM.
    """

    kind: str
    record: bytes
    signature: bytes
    tls_key: str = field(repr=False)


@dataclass(frozen=True)
class Offered:
    """What the first answer said.

    Args:
        enrolment: identifier of the request.
        offer: the exact bytes of the offer.
        answer: what the challenge said, 32 bytes.
    """

    enrolment: str
    offer: bytes
    answer: bytes = field(repr=False)

    def read(self) -> EnrolmentOffer:
        """The offer.

        Raises:
            DecodeError: it is none.
        """
        return read_enrolment(EnrolmentOffer, self.offer)


def apply(
    *, kind: str, name: str, token: str, sealing: SealingKey, signing: SigningKey
) -> Application:
    """Ask to take part with these keys and a fresh one for TLS.

    Args:
        kind: `agent` or `client`.
        name: the agent's name or the client's handle; empty leaves it to the token.
        token: the secret that lets one ask.
        sealing: opens what will be for the applicant alone.
        signing: signs what it will say.

    Raises:
        InputError: name or kind cannot be.
    """
    tls_key = generate_tls_key()
    request = EnrolmentRequest(
        kind=kind,
        name=name,
        token=digest(token.encode()),
        sealing_key=sealing.public,
        verify_key=signing.public,
        tls_request=request_certificate(tls_key),
    )
    record, signature = sign_enrolment(request, signing)
    return Application(kind, record, signature, tls_key)


def take_offer(*, enrolment: str, offer: bytes, challenge: bytes, sealing: SealingKey) -> Offered:
    """Read the first answer, and what only the holder of the sealing key can read.

    Raises:
        DecryptionError: the challenge is for another key.
        DecodeError: the offer is none.
        RejectedError: its root is not signed by its own holders.
    """
    answer = open_challenge(challenge, enrolment=enrolment, key=sealing)
    offered = Offered(enrolment, offer, answer)
    offered.read().trusted()
    return offered


def compare(application: Application, offered: Offered) -> str:
    """The fingerprint that a person compares with the one that the control plane shows."""
    return fingerprint(application.record, offered.offer)


def question(offered: Offered, signing: SigningKey) -> tuple[bytes, bytes]:
    """Ask what became of the request.

    Returns:
        Its bytes and 64 bytes of signature.
    """
    return sign_enrolment(EnrolmentQuestion(offered.enrolment, offered.answer), signing)


def take_place(
    place: EnrolmentPlace, *, application: Application, offered: Offered, now: datetime
) -> EnrolmentPlace:
    """Believe a confirmation only if it fits what the fingerprint covered.

    Raises:
        InputError: it is for another kind, name or key, or over already.
        SignatureError: the authority that was offered did not issue the certificate.
    """
    asked = read_enrolment(EnrolmentRequest, application.record)
    if place.kind != asked.kind or asked.name not in {"", place.name}:
        raise InputError("invalid", f"the place of {place.kind} `{place.name}` was not asked for")
    authority = offered.read().authority
    subject, _ = check_issued(place.certificate, authority, application.tls_key, now)
    _check_subject(subject, place.kind, place.name)
    return place


@dataclass(frozen=True)
class Renewal:
    """The wish for the next certificate as it is sent, however often.

    Args:
        record: its bytes.
        signature: over them.
        tls_key: the private key that it is for, PEM.
    """

    record: bytes
    signature: bytes
    tls_key: str = field(repr=False)


def renewal(*, kind: str, name: str, serial: str, signing: SigningKey) -> Renewal:
    """Ask for the certificate that follows one, over a fresh key.

    Args:
        kind: `agent` or `client`.
        name: the agent's name or the client's handle.
        serial: of the certificate that holds now, hexadecimal.
        signing: the registered key.
    """
    tls_key = generate_tls_key()
    wish = EnrolmentRenewal(kind, name, serial, request_certificate(tls_key))
    record, signature = sign_enrolment(wish, signing)
    return Renewal(record, signature, tls_key)


def take_renewal(
    wish: Renewal, certificate: str, *, authority: str, kind: str, name: str, now: datetime
) -> str:
    """Believe the next certificate only if it is ours.

    Args:
        wish: what was sent.
        certificate: the answer, PEM.
        authority: certificate of the authority that was pinned, PEM.

    Returns:
        Key and certificate as one PEM text: what is replaced as one file is never half there.

    Raises:
        InputError: it is over another key or another's name, or over already.
        SignatureError: another authority issued it.
    """
    subject, _ = check_issued(certificate, authority, wish.tls_key, now)
    _check_subject(subject, kind, name)
    return wish.tls_key + certificate


def is_due(begins: datetime, ends: datetime, now: datetime) -> bool:
    """Whether half of a certificate's life is over."""
    return now >= begins + (ends - begins) / 2


def _check_subject(subject: str, kind: str, name: str) -> None:
    if not subject.startswith(f"CN={name},OU={kind}s,"):
        raise InputError("invalid", f"the certificate is for `{subject}`")
