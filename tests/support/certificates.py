"""A throw-away certificate authority with a broker's and a client's certificate, for TLS tests."""

from __future__ import annotations

import datetime
import ipaddress
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from tasks.local.activemq import TlsClient, TlsServer

_PASSWORD = "only-for-this-test"
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Certificates:
    """Files for a broker and for a client that it trusts, and one for a client it does not."""

    server: TlsServer
    client: TlsClient
    stranger: TlsClient


def make_certificates(folder: Path) -> Certificates:
    """Write an authority, a broker, a client and a self-made stranger into `folder`."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("test authority", authority_key, "test authority", authority_key)
    broker_key = ec.generate_private_key(ec.SECP256R1())
    broker = _certificate("127.0.0.1", broker_key, "test authority", authority_key)
    keystore, truststore = folder / "broker.p12", folder / "trust.p12"
    locked = serialization.BestAvailableEncryption(_PASSWORD.encode())
    keystore.write_bytes(
        pkcs12.serialize_key_and_certificates(b"broker", broker_key, broker, [authority], locked)
    )
    truststore.write_bytes(
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(authority, b"ca")], locked)
    )
    (folder / "ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    stranger_key = ec.generate_private_key(ec.SECP256R1())
    return Certificates(
        TlsServer(keystore, truststore, _PASSWORD),
        _client(folder, "client", "test authority", authority_key),
        _client(folder, "stranger", "another authority", stranger_key),
    )


class Issuer:
    """An operator's authority: a broker's key stores and certificates under names of one's choice.

    Args:
        folder: for all files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._numbers = itertools.count(1)
        authority = _certificate("operator", self._key, "operator", self._key)
        (folder / "ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
        self._authority = authority

    def equip(self, folder: Path, *others: str) -> None:
        """Put what `render_activemq` leaves to the operator beside the rendered files.

        Args:
            folder: of the rendered files.
            others: certificates in PEM of further authorities that the broker trusts.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        broker = _certificate("127.0.0.1", key, "operator", self._key)
        locked = serialization.BestAvailableEncryption(_PASSWORD.encode())
        (folder / "broker.p12").write_bytes(
            pkcs12.serialize_key_and_certificates(b"broker", key, broker, [self._authority], locked)
        )
        trusted = [pkcs12.PKCS12Certificate(self._authority, b"ca")]
        for number, pem in enumerate(others):
            found = x509.load_pem_x509_certificate(pem.encode())
            trusted.append(pkcs12.PKCS12Certificate(found, f"other-{number}".encode()))
        (folder / "trust.p12").write_bytes(pkcs12.serialize_java_truststore(trusted, locked))
        (folder / "credentials.properties").write_text(
            f"keystore.password={_PASSWORD}\ntruststore.password={_PASSWORD}\n"
        )

    def issue(self, subject: x509.Name, key: Any = None) -> TlsClient:
        """A certificate under this name and its key, as three PEM files."""
        number = next(self._numbers)
        own = key or ec.generate_private_key(ec.SECP256R1())
        certificate = _build(subject, own, _name("operator"), self._key).sign(
            self._key, hashes.SHA256()
        )
        return _write_client(self._folder, f"issued-{number}", certificate, own)


def named(common_name: str, unit: str, *more: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    """A distinguished name, least specific part first as certificates have it."""
    parts = [*more, (NameOID.ORGANIZATIONAL_UNIT_NAME, unit), (NameOID.COMMON_NAME, common_name)]
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


def client_certificate(
    key: Any,
    *,
    name: str = "client",
    begins: datetime.datetime | None = None,
    ends: datetime.datetime | None = None,
) -> str:
    """A certificate in PEM over the public half of a key, from a day ago until tomorrow."""
    issuer_key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name("test authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins or now - _DAY)
        .not_valid_after(ends or now + _DAY)
        .sign(issuer_key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode("ascii")


def _client(
    folder: Path, name: str, issuer: str, issuer_key: ec.EllipticCurvePrivateKey
) -> TlsClient:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(name, key, issuer, issuer_key)
    return _write_client(folder, name, certificate, key)


def _write_client(folder: Path, name: str, certificate: x509.Certificate, key: Any) -> TlsClient:
    certificate_path, key_path = folder / f"{name}.pem", folder / f"{name}.key"
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    key_path.chmod(0o600)
    return TlsClient(str(folder / "ca.pem"), str(certificate_path), str(key_path))


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    builder = _build(_name(name), key, _name(issuer), issuer_key).add_extension(
        x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True
    )
    if name == "127.0.0.1":
        address = x509.IPAddress(ipaddress.ip_address(name))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _build(
    subject: x509.Name, key: Any, issuer: x509.Name, issuer_key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    # Two keys under one issuer name must not be taken for one another when a chain is built.
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(identifier, critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
