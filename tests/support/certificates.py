"""A throw-away certificate authority with a broker's and a client's certificate, for TLS tests."""

from __future__ import annotations

import datetime
import ipaddress
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
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True)
    )
    if name == "127.0.0.1":
        address = x509.IPAddress(ipaddress.ip_address(name))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
