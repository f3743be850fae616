"""What is read of a certificate, and what is refused."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa, x25519
from hypothesis import given
from hypothesis import strategies as st

from policyengine.errors import InputError
from policyengine.primitives.certificates import MAX_PEM, read_certificate
from tests.support.certificates import client_certificate

KEY = ed25519.Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)


def test_what_is_read() -> None:
    begins, ends = datetime(2020, 1, 2, tzinfo=UTC), datetime(2040, 5, 6, 7, 8, 9, tzinfo=UTC)
    pem = client_certificate(KEY, name="gate 7", begins=begins, ends=ends)
    found = read_certificate(pem)
    assert found.algorithm == "Ed25519"
    assert found.public_key == KEY.public_key().public_bytes_raw()
    assert (found.subject, found.issuer) == ("CN=gate 7", "CN=test authority")
    assert (found.not_before, found.not_after) == (begins, ends)
    assert found.pem == pem


def test_the_fingerprint_is_over_the_der() -> None:
    pem = client_certificate(KEY)
    body = "".join(line for line in pem.splitlines() if not line.startswith("-----"))
    assert read_certificate(pem).fingerprint == hashlib.sha256(base64.b64decode(body)).hexdigest()


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (x25519.X25519PrivateKey.generate(), "X25519"),
        (ec.generate_private_key(ec.SECP256R1()), "EC"),
        (rsa.generate_private_key(65537, 2048), "RSA"),
        (ed448.Ed448PrivateKey.generate(), "Ed448"),
    ],
    ids=["x25519", "ec", "rsa", "ed448"],
)
def test_other_keys(key: Any, algorithm: str) -> None:
    found = read_certificate(client_certificate(key))
    assert found.algorithm == algorithm
    if algorithm == "X25519":
        assert found.public_key == key.public_key().public_bytes_raw()
    else:
        assert serialization.load_der_public_key(found.public_key) == key.public_key()


def test_when_it_holds() -> None:
    found = read_certificate(client_certificate(KEY))
    found.check(found.not_before)
    found.check(found.not_after)
    second = timedelta(seconds=1)
    with pytest.raises(InputError, match="not valid before"):
        found.check(found.not_before - second)
    with pytest.raises(InputError, match="expired at"):
        found.check(found.not_after + second)


def test_text_around_it_is_dropped() -> None:
    pem = client_certificate(KEY)
    noisy = f"subject=CN = gate\n{pem.replace(chr(10), chr(13) + chr(10))}\nthe end"
    assert read_certificate(noisy).pem == pem


def test_what_is_refused() -> None:
    pem = client_certificate(KEY)
    private = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    for text, reason in (
        ("", "there are 0"),
        ("hello", "there are 0"),
        (pem + pem, "there are 2"),
        (pem + private, "private key"),
        (pem.replace("BEGIN", "BEGUN"), "there are 0"),
        ("\n".join(pem.splitlines()[:2] + pem.splitlines()[3:]), "cannot be read"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "cannot be read"),
        (pem + " " * MAX_PEM, "at most"),
    ):
        with pytest.raises(InputError, match=reason):
            read_certificate(text)


@given(st.binary(max_size=200))
def test_noise_is_refused_and_nothing_else_happens(noise: bytes) -> None:
    body = base64.b64encode(noise).decode()
    pem = f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"
    with pytest.raises(InputError):
        read_certificate(pem)
