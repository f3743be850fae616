"""X.509 for TLS: keys and requests of those who take part, and the authority that certifies them.

ECDSA over P-256 with SHA-256 throughout, which every broker's TLS takes (Java 17 among them).
Requests are PKCS#10 (RFC 2986), certificates follow RFC 5280. Whoever requests proves the key;
under which name it is certified, the issuer says and never the request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from policyengine.errors import InputError, SignatureError
from policyengine.primitives.kdf import derive

MAX_REQUEST: Final = 8192
"""Most characters of a certificate request."""
_CURVE: Final = ec.SECP256R1()
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_INFO: Final = b"portcullis/certificate-authority/v1"
# The authority's own certificate says nothing of when it is used: it goes with its key.
_BEGIN: Final = datetime(2020, 1, 1, tzinfo=UTC)
_END: Final = datetime(2049, 12, 31, tzinfo=UTC)
_PARTS: Final = {
    "CN": NameOID.COMMON_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "UID": NameOID.USER_ID,
}


def generate_tls_key() -> str:
    """Make a fresh P-256 key from the system's generator.

    Returns:
        PKCS#8 in PEM, not encrypted.
    """
    return _private_pem(ec.generate_private_key(_CURVE))


def request_certificate(key: str) -> str:
    """Ask for a certificate over a key, proving to hold it.

    Args:
        key: from `generate_tls_key`.

    Returns:
        A PKCS#10 request in PEM, without a name: the issuer knows who asks.

    Raises:
        InputError: `invalid` when the key is none.
    """
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    request = made.sign(_private_key(key), hashes.SHA256())
    return request.public_bytes(Encoding.PEM).decode("ascii")


def read_request(request: str) -> bytes:
    """Read a request whose sender holds the key that it names.

    Args:
        request: PKCS#10 in PEM.

    Returns:
        The public key, SubjectPublicKeyInfo in DER.

    Raises:
        InputError: `too-large`, or `invalid` when it is no request, or not over P-256.
        SignatureError: the sender does not hold the key.
    """
    return _spki(_requested_key(request))


def key_of_private(key: str) -> bytes:
    """The public half of a private key, SubjectPublicKeyInfo in DER.

    Raises:
        InputError: `invalid` when the key is none.
    """
    return _spki(_private_key(key).public_key())


@dataclass(frozen=True)
class Subject:
    """Whom a certificate names.

    Args:
        common_name: an agent's name or a client's handle.
        unit: `agents` or `clients`.
        user: what tells this enrolment from every other one of the same name.
    """

    common_name: str
    unit: str
    user: str

    def text(self) -> str:
        """The distinguished name as brokers compare it (RFC 4514 with a blank after commas)."""
        return f"CN={self.common_name}, OU={self.unit}, UID={self.user}"

    def _name(self) -> x509.Name:
        # A certificate has the least specific part first.
        parts = (("UID", self.user), ("OU", self.unit), ("CN", self.common_name))
        return x509.Name([x509.NameAttribute(_PARTS[kind], value) for kind, value in parts])


@dataclass(frozen=True)
class CertificateAuthority:
    """Issues certificates of clients; drawn from one secret, so that nothing else is to be kept.

    Args:
        secret: at least 16 random bytes; never shown by `repr`.

    Raises:
        InputError: `invalid` when the secret is too short.
    """

    secret: bytes = field(repr=False)
    _key: ec.EllipticCurvePrivateKey = field(init=False, repr=False, compare=False)
    certificate: str = field(init=False, compare=False)
    """Its own certificate in PEM: the same bytes for the same secret."""

    def __post_init__(self) -> None:
        # 64 bits more than the order has: no number is likelier than another.
        drawn = int.from_bytes(derive(self.secret, info=_INFO, size=40), "big")
        key = ec.derive_private_key(drawn % (_ORDER - 1) + 1, _CURVE)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "certificate", _pem(_own_certificate(key)))

    def issue(
        self, request: str, subject: Subject, *, serial: int, begins: datetime, ends: datetime
    ) -> str:
        """Certify the key of a request under a name of the issuer's choice, for TLS clients.

        Args:
            request: PKCS#10 in PEM.
            subject: whom it is for.
            serial: 1 to 2^159 - 1, never the same twice.
            begins: when it begins to hold, with time zone.
            ends: when it ends.

        Returns:
            The certificate in PEM.

        Raises:
            InputError: the request, the name, the serial or the time cannot be.
            SignatureError: whoever requests does not hold the key.
        """
        public = _requested_key(request)
        try:
            builder = (
                x509.CertificateBuilder()
                .subject_name(subject._name())
                .issuer_name(_issuer_name())
                .public_key(public)
                .serial_number(serial)
                .not_valid_before(begins)
                .not_valid_after(ends)
            )
        except (ValueError, TypeError) as error:
            raise InputError("invalid", "no certificate can say this") from error
        made = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(_issued_by(self._key), critical=False)
        )
        return _pem(made.sign(self._key, hashes.SHA256()))


def check_issued(certificate: str, authority: str, key: str, now: datetime) -> tuple[str, datetime]:
    """Check a certificate that was handed over, before anything is written.

    Args:
        certificate: PEM.
        authority: certificate of the authority that must have issued it, PEM.
        key: the private key that it must be over, PEM.
        now: the moment, with time zone.

    Returns:
        Its subject (RFC 4514) and when it ends.

    Raises:
        InputError: `invalid` when one of them is none, it is over another key, or over.
        SignatureError: the authority did not issue it.
    """
    found, issuer = _certificate(certificate), _certificate(authority)
    try:
        found.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        raise SignatureError("the signature does not verify") from None
    if _spki(found.public_key()) != key_of_private(key):
        raise InputError("invalid", "the certificate is over another key")
    if found.not_valid_after_utc <= now:
        raise InputError("invalid", "the certificate is over already")
    return found.subject.rfc4514_string(), found.not_valid_after_utc


def read_dates(certificate: str) -> tuple[str, datetime, datetime]:
    """What is asked of one's own certificate.

    Args:
        certificate: PEM; a private key may stand before it.

    Returns:
        Its serial number in hexadecimal, when it begins and when it ends.

    Raises:
        InputError: `invalid` when there is none.
    """
    found = _certificate(certificate)
    return f"{found.serial_number:x}", found.not_valid_before_utc, found.not_valid_after_utc


def _requested_key(request: str) -> ec.EllipticCurvePublicKey:
    if len(request) > MAX_REQUEST:
        raise InputError("too-large", f"a certificate request has at most {MAX_REQUEST} characters")
    try:
        found = x509.load_pem_x509_csr(request.encode("ascii"))
        key = found.public_key()
        proven = found.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError("invalid", "not a certificate request") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != _CURVE.name:
        raise InputError("invalid", "a key for TLS is one of ECDSA over P-256")
    if not proven:
        raise SignatureError("the signature does not verify")
    return key


def _own_certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    public = key.public_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    made = (
        x509.CertificateBuilder()
        .subject_name(_issuer_name())
        .issuer_name(_issuer_name())
        .public_key(public)
        .serial_number(int.from_bytes(identifier.digest[:15], "big") + 1)
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
    )
    return made.sign(key, hashes.SHA256(), ecdsa_deterministic=True)


def _issuer_name() -> x509.Name:
    return x509.Name([x509.NameAttribute(_PARTS["CN"], "Portcullis enrolment")])


def _issued_by(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    # Two keys under one issuer's name must not be taken for one another when a chain is built.
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate(pem: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem.encode("ascii"))
    except ValueError as error:
        raise InputError("invalid", "not a certificate") from error


def _private_key(pem: str) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(pem.encode("ascii"), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError("invalid", "not a private key for TLS") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError("invalid", "a key for TLS is one of ECDSA over P-256")
    return key


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


def _spki(key: CertificatePublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode("ascii")
