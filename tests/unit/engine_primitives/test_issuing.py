"""Certificates for TLS, checked with OpenSSL through `ssl` and with the X.509 library itself."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from policyengine.errors import InputError, SignatureError
from policyengine.primitives.issuing import (
    MAX_REQUEST,
    CertificateAuthority,
    Subject,
    check_issued,
    generate_tls_key,
    key_of_private,
    read_dates,
    read_request,
    request_certificate,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
AUTHORITY = CertificateAuthority(b"s" * 32)
KEY = generate_tls_key()
ALPHA = Subject("alpha", "agents", "0f" * 16)


def issued(**other: object) -> str:
    given = {"serial": 7, "begins": NOW, "ends": NOW + DAY, **other}
    return AUTHORITY.issue(request_certificate(KEY), ALPHA, **given)  # type: ignore[arg-type]


def pem_of(key: object) -> str:
    held = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[attr-defined]
    return str(held.decode())


def request_over(key: object, algorithm: object) -> str:
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return made.sign(key, algorithm).public_bytes(Encoding.PEM).decode()  # type: ignore[arg-type]


def test_an_authority_is_its_secret() -> None:
    again, other = CertificateAuthority(b"s" * 32), CertificateAuthority(b"t" * 32)
    assert again.certificate == AUTHORITY.certificate != other.certificate
    assert "s" * 32 not in repr(AUTHORITY)
    found = x509.load_pem_x509_certificate(AUTHORITY.certificate.encode())
    found.verify_directly_issued_by(found)
    assert found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    with pytest.raises(InputError):
        CertificateAuthority(b"short")


def test_a_certificate_says_who_and_is_for_clients_alone() -> None:
    made = x509.load_pem_x509_certificate(issued().encode())
    assert made.subject.rfc4514_string() == f"CN=alpha,OU=agents,UID={'0f' * 16}"
    assert ALPHA.text() == made.subject.rfc4514_string().replace(",", ", ")
    assert (made.serial_number, made.not_valid_after_utc) == (7, NOW + DAY)
    held = made.extensions
    assert not held.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = held.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not held.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_openssl_takes_key_and_certificate_from_one_file(tmp_path: Path) -> None:
    path = tmp_path / "tls.pem"
    path.write_text(KEY + issued())
    context = ssl.create_default_context(cadata=AUTHORITY.certificate)
    context.load_cert_chain(path)


def test_what_was_issued_checks_out_and_nothing_else() -> None:
    subject, ends = check_issued(issued(), AUTHORITY.certificate, KEY, NOW)
    assert (subject, ends) == (ALPHA.text().replace(", ", ","), NOW + DAY)
    other = CertificateAuthority(b"t" * 32)
    with pytest.raises(SignatureError):
        check_issued(issued(), other.certificate, KEY, NOW)
    with pytest.raises(InputError, match="another key"):
        check_issued(issued(), AUTHORITY.certificate, generate_tls_key(), NOW)
    with pytest.raises(InputError, match="over already"):
        check_issued(issued(), AUTHORITY.certificate, KEY, NOW + DAY)
    with pytest.raises(InputError, match="not a certificate"):
        check_issued("none", AUTHORITY.certificate, KEY, NOW)


def test_dates_of_ones_own_certificate() -> None:
    assert read_dates(KEY + issued()) == ("7", NOW, NOW + DAY)
    with pytest.raises(InputError):
        read_dates(KEY)


def test_a_request_proves_its_key() -> None:
    request = request_certificate(KEY)
    assert read_request(request) == key_of_private(KEY)
    parsed = x509.load_pem_x509_csr(request.encode())
    der = bytearray(parsed.public_bytes(Encoding.DER))
    der[-1] ^= 1
    forged = x509.load_der_x509_csr(bytes(der)).public_bytes(Encoding.PEM).decode()
    with pytest.raises(SignatureError):
        read_request(forged)
    with pytest.raises(SignatureError):
        AUTHORITY.issue(forged, ALPHA, serial=1, begins=NOW, ends=NOW + DAY)


@pytest.mark.parametrize(
    "request_text",
    [
        "",
        "Grüße",
        request_over(ec.generate_private_key(ec.SECP384R1()), hashes.SHA256()),
        request_over(ed25519.Ed25519PrivateKey.generate(), None),
        request_over(rsa.generate_private_key(65537, 2048), hashes.SHA256()),
    ],
)
def test_requests_over_other_keys_are_refused(request_text: str) -> None:
    with pytest.raises(InputError):
        read_request(request_text)


def test_a_request_has_its_limits() -> None:
    with pytest.raises(InputError) as told:
        read_request("x" * (MAX_REQUEST + 1))
    assert told.value.kind == "too-large"


@pytest.mark.parametrize(
    "other",
    [{"serial": 0}, {"serial": 2**160}, {"ends": NOW - DAY}],
)
def test_what_no_certificate_can_say_is_refused(other: dict[str, object]) -> None:
    with pytest.raises(InputError):
        issued(**other)


def test_an_impossible_name_is_refused() -> None:
    with pytest.raises(InputError):
        AUTHORITY.issue(
            request_certificate(KEY),
            Subject("a" * 65, "agents", "00"),
            serial=1,
            begins=NOW,
            ends=NOW + DAY,
        )


@pytest.mark.parametrize("key", ["", "ü", pem_of(ed25519.Ed25519PrivateKey.generate())])
def test_only_a_key_of_the_kind_is_one(key: str) -> None:
    with pytest.raises(InputError):
        request_certificate(key)
