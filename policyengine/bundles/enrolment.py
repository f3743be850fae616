"""Enrolment: how an agent or a client comes to take part, before anybody knows its keys.

1. It sends an `EnrolmentRequest` with three public keys of its own, signed by one of them and
   bound to a token; its certificate request proves the key for TLS.
2. It is answered with an `EnrolmentOffer` (whom to trust, where brokers stand) and a challenge
   that only the holder of the sealing key can read; every later question carries what it said.
3. Both ends compute the `fingerprint` of request and offer, and a person compares the two. So
   neither another key nor another authority can be put in between by whoever carries messages.
4. Once confirmed it is told its place and its certificate, an `EnrolmentPlace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha512
from typing import Annotated, Final, TypeVar

from policyengine.bundles.contexts import (
    ENROLMENT_CHALLENGE,
    ENROLMENT_FINGERPRINT,
    ENROLMENT_QUESTION,
    ENROLMENT_RENEWAL,
    ENROLMENT_REQUEST,
)
from policyengine.bundles.roots import Root, decode_root, open_root
from policyengine.errors import InputError
from policyengine.primitives.canonical import dumps, loads, pack
from policyengine.primitives.hpke import SealingKey, open_sealed, seal_to
from policyengine.primitives.issuing import MAX_REQUEST
from policyengine.primitives.records import (
    DIGEST,
    HEX_ID,
    IDENTIFIER,
    KEY,
    LABEL,
    Binary,
    Choice,
    Integer,
    MapOf,
    Nested,
    Record,
    Text,
)
from policyengine.primitives.signatures import SigningKey, sign, verify

MAX_ENROLMENT: Final = 64 * 1024
"""Most bytes of any of these records."""
CHALLENGE_BYTES: Final = 32
GROUPS, GROUP_DIGITS = 6, 5
_KINDS: Final = ("agent", "client")
_NAME: Final = Text("[a-z0-9-]{0,64}", 64, "must be empty, or 1 to 64 of `a-z`, `0-9` and `-`")
_REQUEST: Final = Text(None, MAX_REQUEST, "must be a certificate request")
_PEM: Final = Text(None, 16_384, "must be text in PEM")
_SERIAL: Final = Text("[0-9a-f]{1,40}", 40, "must be 1 to 40 hexadecimal digits")

_Record = TypeVar("_Record", bound=Record)


@dataclass(frozen=True)
class EnrolmentRequest(Record):
    """Who asks to take part, with which keys.

    Args:
        kind: `agent` or `client`.
        name: the agent's name or the client's handle; empty leaves it to the token.
        token: SHA-256 of the token, 64 hexadecimal digits: this request spends no other.
        sealing_key: X25519, 32 bytes; what is for it alone is sealed to it.
        verify_key: Ed25519, 32 bytes; verifies what it says, this request first.
        tls_request: PKCS#10 in PEM over its key for TLS.
    """

    kind: Annotated[str, Choice(_KINDS)]
    name: Annotated[str, _NAME]
    token: Annotated[str, DIGEST]
    sealing_key: Annotated[bytes, KEY]
    verify_key: Annotated[bytes, KEY]
    tls_request: Annotated[str, _REQUEST]


@dataclass(frozen=True)
class BrokerPlace(Record):
    """Where a broker stands.

    Args:
        host: name or address.
        port: its STOMP port.
        ca: PEM of the authority that signed its certificate, or empty without TLS.
    """

    host: Annotated[str, LABEL]
    port: Annotated[int, Integer(1, 65_535)]
    ca: Annotated[str, _PEM]


@dataclass(frozen=True)
class EnrolmentOffer(Record):
    """Whom to trust and where to go; nothing of it holds before the fingerprint was compared.

    Args:
        root: the signed root in force, to be pinned, as its file holds it.
        authority: certificate in PEM of the authority that issues certificates for TLS.
        control: name of the overlay whose broker carries the control queues, or empty where
            whoever enrols is told otherwise where brokers stand.
        brokers: overlay -> where its broker stands.
    """

    root: Annotated[bytes, Binary(1, 2**14)]
    authority: Annotated[str, _PEM]
    control: Annotated[str, _NAME]
    brokers: Annotated[Mapping[str, BrokerPlace], MapOf(IDENTIFIER, Nested(BrokerPlace), 64)]

    def trusted(self) -> Root:
        """The root, signed as it itself demands.

        Raises:
            RejectedError: it is none, or its own holders did not sign it.
        """
        return open_root(decode_root(self.root))


@dataclass(frozen=True)
class EnrolmentQuestion(Record):
    """What became of a request; signed by the key that it named.

    Args:
        enrolment: its identifier.
        answer: what the challenge said, which only the sealing key opens.
    """

    enrolment: Annotated[str, HEX_ID]
    answer: Annotated[bytes, KEY]


@dataclass(frozen=True)
class EnrolmentPlace(Record):
    """What a confirmed enrolment gives.

    Args:
        kind: `agent` or `client`.
        name: the agent's name or the client's handle.
        place: an agent's overlay, a client's domain.
        certificate: for TLS, in PEM.
        serial: of the certificate, hexadecimal.
    """

    kind: Annotated[str, Choice(_KINDS)]
    name: Annotated[str, IDENTIFIER]
    place: Annotated[str, IDENTIFIER]
    certificate: Annotated[str, _PEM]
    serial: Annotated[str, _SERIAL]


@dataclass(frozen=True)
class EnrolmentRenewal(Record):
    """The wish for the next certificate, signed by the registered key.

    Args:
        kind: `agent` or `client`.
        name: the agent's name or the client's handle.
        serial: of the certificate that it follows: each is followed once.
        tls_request: PKCS#10 in PEM over a fresh key for TLS.
    """

    kind: Annotated[str, Choice(_KINDS)]
    name: Annotated[str, IDENTIFIER]
    serial: Annotated[str, _SERIAL]
    tls_request: Annotated[str, _REQUEST]


_PURPOSES: Final[Mapping[type[Record], bytes]] = {
    EnrolmentRequest: ENROLMENT_REQUEST,
    EnrolmentQuestion: ENROLMENT_QUESTION,
    EnrolmentRenewal: ENROLMENT_RENEWAL,
}


def write_enrolment(record: Record) -> bytes:
    """The one form of a record of enrolment, canonical JSON."""
    return dumps(record.to_json())


def read_enrolment(kind: type[_Record], data: bytes) -> _Record:
    """Read a record of enrolment strictly.

    Raises:
        DecodeError: it is not exactly one of this kind.
        InputError: a field holds what it cannot.
    """
    return kind.from_json(loads(data, max_bytes=MAX_ENROLMENT))


def sign_enrolment(record: Record, key: SigningKey) -> tuple[bytes, bytes]:
    """Write a request, question or renewal and sign it.

    Returns:
        Its bytes and 64 bytes of signature.
    """
    data = write_enrolment(record)
    return data, sign(key, _PURPOSES[type(record)], data)


def verify_enrolment(
    kind: type[_Record], data: bytes, signature: bytes, verify_key: bytes
) -> _Record:
    """Check who signed a question or renewal, then read it.

    Raises:
        SignatureError: the key did not sign this.
        DecodeError, InputError: as `read_enrolment`.
    """
    verify(verify_key, signature, _PURPOSES[kind], data)
    return read_enrolment(kind, data)


def verify_enrolment_request(data: bytes, signature: bytes) -> EnrolmentRequest:
    """Read a request that the key which it names has signed.

    Raises:
        SignatureError: that key did not sign it.
        DecodeError, InputError: as `read_enrolment`.
    """
    request = read_enrolment(EnrolmentRequest, data)
    verify(request.verify_key, signature, ENROLMENT_REQUEST, data)
    return request


def seal_challenge(secret: bytes, *, enrolment: str, recipient: bytes) -> bytes:
    """Seal a challenge to a key whose holder is to be proven.

    Args:
        secret: 32 random bytes, never the same twice.
        enrolment: identifier of the enrolment.
        recipient: the public sealing key of the request.

    Raises:
        InputError: `invalid` when the secret has another length, or the key is none.
    """
    if len(secret) != CHALLENGE_BYTES:
        raise InputError("invalid", f"a challenge has {CHALLENGE_BYTES} bytes")
    return seal_to(recipient, secret, info=pack(ENROLMENT_CHALLENGE, enrolment.encode()))


def open_challenge(sealed: bytes, *, enrolment: str, key: SealingKey) -> bytes:
    """What a challenge says.

    Raises:
        DecryptionError: it is for another key or enrolment.
    """
    return open_sealed(key, sealed, info=pack(ENROLMENT_CHALLENGE, enrolment.encode()))


def fingerprint(request: bytes, offer: bytes) -> str:
    """What a person compares: the same at both ends only if both saw the same.

    Args:
        request: the exact bytes of the request.
        offer: the exact bytes of the offer.

    Returns:
        Six groups of five digits, 99 bits: nobody finds other keys with the same digits.
    """
    number = int.from_bytes(sha512(pack(ENROLMENT_FINGERPRINT, request, offer)).digest(), "big")
    digits = f"{number % 10 ** (GROUPS * GROUP_DIGITS):0{GROUPS * GROUP_DIGITS}d}"
    groups = range(0, len(digits), GROUP_DIGITS)
    return " ".join(digits[start : start + GROUP_DIGITS] for start in groups)
