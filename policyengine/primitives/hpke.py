"""Sealing to one recipient: HPKE base mode (RFC 9180).

Suite: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM. Layout: version
(1 byte, 0x01), encapsulated key (32 bytes), ciphertext and tag. The library's
single-shot interface has no associated data, so the context goes into `info`.
Base mode says nothing about the sender: sign inside what you seal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from policyengine.errors import DecryptionError, InputError

KEY_SIZE: Final = 32
OVERHEAD: Final = 1 + 32 + 16
_VERSION: Final = b"\x01"
_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


@dataclass(frozen=True)
class SealingKey:
    """A private X25519 key with its public half.

    Args:
        private: 32 raw bytes (RFC 7748); never shown by `repr`.

    Raises:
        InputError: `invalid` when the key has another length.
    """

    private: bytes = field(repr=False)
    public: bytes = field(init=False, compare=False)
    _parsed: X25519PrivateKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.private) != KEY_SIZE:
            raise InputError("invalid", "a private X25519 key has 32 bytes")
        parsed = X25519PrivateKey.from_private_bytes(self.private)
        object.__setattr__(self, "_parsed", parsed)
        object.__setattr__(self, "public", parsed.public_key().public_bytes_raw())

    def _decrypt(self, data: bytes, info: bytes) -> bytes:
        return _SUITE.decrypt(data, self._parsed, info=info)


def generate_sealing_key() -> SealingKey:
    """Make a fresh key from the system's generator."""
    return SealingKey(X25519PrivateKey.generate().private_bytes_raw())


def seal_to(public: bytes, plaintext: bytes, *, info: bytes) -> bytes:
    """Encrypt for the holder of one private key.

    Args:
        public: 32 raw bytes of the recipient's X25519 key.
        plaintext: what to hide.
        info: purpose and recipient; must be the same when it is opened.

    Returns:
        `OVERHEAD` bytes more than the plaintext.

    Raises:
        InputError: `invalid` when the public key is not one.
    """
    recipient = _public_key(public)
    try:
        return _VERSION + _SUITE.encrypt(plaintext, recipient, info=info)
    except ValueError:  # a point of small order: the shared secret would be zero
        raise InputError("invalid", "not a usable public X25519 key") from None


def open_sealed(key: SealingKey, data: bytes, *, info: bytes) -> bytes:
    """Decrypt what `seal_to` made for this key and this context.

    Raises:
        DecryptionError: anything does not fit; all causes look alike.
    """
    if len(data) < OVERHEAD or data[:1] != _VERSION:
        raise DecryptionError("the sealed message does not open")
    try:
        return key._decrypt(data[1:], info)
    except (InvalidTag, ValueError):
        raise DecryptionError("the sealed message does not open") from None


@lru_cache(maxsize=4096)
def _public_key(public: bytes) -> X25519PublicKey:
    if len(public) != KEY_SIZE:
        raise InputError("invalid", "a public X25519 key has 32 bytes")
    return X25519PublicKey.from_public_bytes(public)
