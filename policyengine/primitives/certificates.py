"""X.509 certificates (RFC 5280): what a control plane needs to know of one.

A certificate is read, not trusted: no chain is built and no signature checked. Who registers it for
a principal vouches for it, as with a bare public key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa, x448, x25519
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from policyengine.errors import InputError

MAX_PEM: Final = 64 * 1024
Algorithm: TypeAlias = Literal[
    "Ed25519", "X25519", "RSA", "EC", "DSA", "Ed448", "X448", "post-quantum"
]
_BLOCK: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----", re.ASCII
)
_ALGORITHMS: Final[tuple[tuple[type, Algorithm], ...]] = (
    (ed25519.Ed25519PublicKey, "Ed25519"),
    (x25519.X25519PublicKey, "X25519"),
    (rsa.RSAPublicKey, "RSA"),
    (ec.EllipticCurvePublicKey, "EC"),
    (dsa.DSAPublicKey, "DSA"),
    (ed448.Ed448PublicKey, "Ed448"),
    (x448.X448PublicKey, "X448"),
)


@dataclass(frozen=True)
class Certificate:
    """What a certificate says.

    Args:
        pem: the certificate alone, in canonical PEM.
        subject: the subject's distinguished name (RFC 4514).
        issuer: the issuer's distinguished name.
        not_before: when it begins to hold, with time zone.
        not_after: the last moment at which it holds.
        fingerprint: SHA-256 over the DER encoding, 64 hexadecimal digits.
        algorithm: of the public key.
        public_key: 32 raw bytes for Ed25519 and X25519, else SubjectPublicKeyInfo in DER.
    """

    pem: str
    subject: str
    issuer: str
    not_before: datetime
    not_after: datetime
    fingerprint: str
    algorithm: Algorithm
    public_key: bytes

    def check(self, now: datetime) -> None:
        """Refuse it where it does not hold.

        Args:
            now: the moment, with time zone.

        Raises:
            InputError: it is not valid yet, or no longer.
        """
        if now < self.not_before:
            raise InputError(
                "invalid", f"the certificate is not valid before {self.not_before.isoformat()}"
            )
        if now > self.not_after:
            raise InputError("invalid", f"the certificate expired at {self.not_after.isoformat()}")


def read_certificate(pem: str) -> Certificate:
    """Read one certificate.

    Args:
        pem: PEM text with exactly one certificate; text around it is dropped.

    Returns:
        What it says.

    Raises:
        InputError: `too-large`, or `invalid` when there is no certificate, more than one, a private
            key beside it, or one that cannot be read.
    """
    if len(pem) > MAX_PEM:
        raise InputError("too-large", f"a certificate has at most {MAX_PEM} characters")
    if "PRIVATE KEY-----" in pem:
        raise InputError("invalid", "this holds a private key, which must stay with its owner")
    found = _BLOCK.findall(pem)
    if len(found) != 1:
        raise InputError(
            "invalid", f"one certificate in PEM is expected, and there are {len(found)}"
        )
    try:
        parsed = x509.load_pem_x509_certificate(found[0].encode("ascii"))
        return _certificate(parsed)
    except (ValueError, TypeError, x509.InvalidVersion) as error:
        raise InputError("invalid", "the certificate cannot be read") from error


def _certificate(parsed: x509.Certificate) -> Certificate:
    key = parsed.public_key()
    algorithm = _algorithm(key)
    return Certificate(
        pem=parsed.public_bytes(Encoding.PEM).decode("ascii"),
        subject=parsed.subject.rfc4514_string(),
        issuer=parsed.issuer.rfc4514_string(),
        not_before=parsed.not_valid_before_utc,
        not_after=parsed.not_valid_after_utc,
        fingerprint=parsed.fingerprint(hashes.SHA256()).hex(),
        algorithm=algorithm,
        public_key=_public_bytes(key),
    )


def _algorithm(key: CertificatePublicKeyTypes) -> Algorithm:
    for kind, name in _ALGORITHMS:
        if isinstance(key, kind):
            return name
    return "post-quantum"


def _public_bytes(key: CertificatePublicKeyTypes) -> bytes:
    if isinstance(key, (ed25519.Ed25519PublicKey, x25519.X25519PublicKey)):
        return key.public_bytes_raw()
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
