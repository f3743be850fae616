"""Signatures: Ed25519 (RFC 8032) over a context and a payload.

What is signed is `pack(context, payload)`: a signature made for one purpose never
verifies for another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from policyengine.errors import InputError, SignatureError
from policyengine.primitives.canonical import pack

KEY_SIZE: Final = 32
SIGNATURE_SIZE: Final = 64


@dataclass(frozen=True)
class SigningKey:
    """A private Ed25519 key with its public half.

    Args:
        private: 32 raw bytes (the seed of RFC 8032); never shown by `repr`.

    Raises:
        InputError: `invalid` when the key has another length.
    """

    private: bytes = field(repr=False)
    public: bytes = field(init=False, compare=False)
    _parsed: Ed25519PrivateKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.private) != KEY_SIZE:
            raise InputError("invalid", "a private Ed25519 key has 32 bytes")
        parsed = Ed25519PrivateKey.from_private_bytes(self.private)
        object.__setattr__(self, "_parsed", parsed)
        object.__setattr__(self, "public", parsed.public_key().public_bytes_raw())

    def _sign(self, message: bytes) -> bytes:
        return self._parsed.sign(message)


def generate_signing_key() -> SigningKey:
    """Make a fresh key from the system's generator."""
    return SigningKey(Ed25519PrivateKey.generate().private_bytes_raw())


def sign(key: SigningKey, context: bytes, payload: bytes) -> bytes:
    """Sign a payload for one purpose.

    Args:
        key: the signer's key.
        context: the purpose, for example `portcullis/bundle/v1`.
        payload: the exact bytes.

    Returns:
        64 bytes.
    """
    return key._sign(pack(context, payload))


def verify(public: bytes, signature: bytes, context: bytes, payload: bytes) -> None:
    """Check a signature.

    Args:
        public: 32 raw bytes of the signer's key.
        signature: 64 bytes.
        context: the purpose that it must have been made for.
        payload: the exact bytes that it must cover.

    Raises:
        SignatureError: it does not verify, or key or signature have a wrong length.
    """
    _verify(public, signature, pack(context, payload))


def sign_text(key: SigningKey, text: bytes) -> bytes:
    """Sign bytes as they are, for formats of others. Such a key signs in that format alone.

    Args:
        key: the signer's key, kept for this format.
        text: the exact bytes; not the beginning of a packed context (it has no NUL in front).

    Raises:
        InputError: `invalid` when the text could be taken for what `sign` signs.
    """
    if text[:1] in {b"", b"\x00"}:
        raise InputError("invalid", "a text to be signed begins with a character")
    return key._sign(text)


def verify_text(public: bytes, signature: bytes, text: bytes) -> None:
    """Check a signature that `sign_text` made.

    Raises:
        SignatureError: it does not verify, or key or signature have a wrong length.
    """
    _verify(public, signature, text)


def _verify(public: bytes, signature: bytes, message: bytes) -> None:
    if len(public) != KEY_SIZE or len(signature) != SIGNATURE_SIZE:
        raise SignatureError("the signature does not verify")
    try:
        _public_key(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise SignatureError("the signature does not verify") from None


@lru_cache(maxsize=4096)
def _public_key(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)
