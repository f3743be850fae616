"""Records of enrolment: who proves what, and what a person compares."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from policyengine.bundles.enrolment import (
    BrokerPlace,
    EnrolmentOffer,
    EnrolmentPlace,
    EnrolmentQuestion,
    EnrolmentRenewal,
    EnrolmentRequest,
    fingerprint,
    open_challenge,
    read_enrolment,
    seal_challenge,
    sign_enrolment,
    verify_enrolment,
    verify_enrolment_request,
    write_enrolment,
)
from policyengine.bundles.roots import encode_root
from policyengine.errors import (
    DecodeError,
    DecryptionError,
    InputError,
    RejectedError,
    SignatureError,
)
from policyengine.primitives.hpke import generate_sealing_key
from policyengine.primitives.signatures import generate_signing_key
from tests.support import roots

SEALING, SIGNING = generate_sealing_key(), generate_signing_key()
UID = "0f" * 16
REQUEST = EnrolmentRequest("agent", "alpha", "ab" * 32, SEALING.public, SIGNING.public, "csr")
OFFER = EnrolmentOffer(
    encode_root(roots.signed(roots.root())),
    "pem",
    "a",
    {"a": BrokerPlace("mq.example", 61614, "pem")},
)


def test_a_request_is_signed_by_the_key_that_it_names() -> None:
    data, signature = sign_enrolment(REQUEST, SIGNING)
    assert verify_enrolment_request(data, signature) == REQUEST
    stranger = generate_signing_key()
    with pytest.raises(SignatureError):
        verify_enrolment_request(data, sign_enrolment(REQUEST, stranger)[1])
    other = write_enrolment(replace(REQUEST, name="beta"))
    with pytest.raises(SignatureError):
        verify_enrolment_request(other, signature)


def test_a_signature_is_for_one_purpose() -> None:
    question = EnrolmentQuestion(UID, b"a" * 32)
    data, signature = sign_enrolment(question, SIGNING)
    assert verify_enrolment(EnrolmentQuestion, data, signature, SIGNING.public) == question
    with pytest.raises(SignatureError):
        verify_enrolment(EnrolmentRenewal, data, signature, SIGNING.public)
    renewal = EnrolmentRenewal("agent", "alpha", "1f", "csr")
    data, signature = sign_enrolment(renewal, SIGNING)
    assert verify_enrolment(EnrolmentRenewal, data, signature, SIGNING.public) == renewal


def test_every_record_has_one_form() -> None:
    place = EnrolmentPlace("client", "p-1", "flights", "pem", "1f")
    for record in (REQUEST, OFFER, place):
        data = write_enrolment(record)
        assert read_enrolment(type(record), data) == record
        with pytest.raises(DecodeError):
            read_enrolment(type(record), data + b" ")
    for wrong in (
        {"kind": "broker"},
        {"name": "Alpha"},
        {"sealing_key": b"k"},
        {"tls_request": "x" * 8193},
    ):
        with pytest.raises(InputError):
            replace(REQUEST, **wrong)  # type: ignore[arg-type]


def test_a_challenge_opens_for_its_key_and_its_enrolment() -> None:
    sealed = seal_challenge(b"s" * 32, enrolment=UID, recipient=SEALING.public)
    assert open_challenge(sealed, enrolment=UID, key=SEALING) == b"s" * 32
    with pytest.raises(DecryptionError):
        open_challenge(sealed, enrolment="1f" * 16, key=SEALING)
    with pytest.raises(DecryptionError):
        open_challenge(sealed, enrolment=UID, key=generate_sealing_key())
    with pytest.raises(InputError):
        seal_challenge(b"s", enrolment=UID, recipient=SEALING.public)


def test_a_fingerprint_covers_what_both_ends_saw() -> None:
    request, offer = write_enrolment(REQUEST), write_enrolment(OFFER)
    found = fingerprint(request, offer)
    assert [len(group) for group in found.split(" ")] == [5] * 6
    assert found.replace(" ", "").isdecimal()
    other_root = replace(OFFER, root=encode_root(roots.signed(roots.root(generation=2))))
    other_key = replace(REQUEST, sealing_key=generate_sealing_key().public)
    assert found not in {
        fingerprint(request, write_enrolment(other_root)),
        fingerprint(write_enrolment(other_key), offer),
        fingerprint(request + b"x", offer),
    }


def test_the_root_of_an_offer_is_signed_by_its_holders() -> None:
    assert OFFER.trusted() == roots.root()
    unsigned = replace(OFFER, root=encode_root(roots.signed(roots.root(), by=("ada",))))
    with pytest.raises(RejectedError):
        unsigned.trusted()


def test_a_fingerprint_by_another_way() -> None:
    """Computed with nothing but hashlib: lengths before fields, SHA-512, thirty digits."""
    fields = (b"portcullis/enrolment-fingerprint/v1", b"request", b"offer")
    packed = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    digits = str(int(hashlib.sha512(packed).hexdigest(), 16) % 10**30).rjust(30, "0")
    expected = " ".join(digits[at : at + 5] for at in range(0, 30, 5))
    assert fingerprint(b"request", b"offer") == expected
