"""Authenticated encryption under a shared key: AES-256-GCM (NIST SP 800-38D).

Layout: version (1 byte, 0x01), nonce (12 bytes), ciphertext and tag. The version
is authenticated in front of the caller's associated data.
"""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from policyengine.errors import DecryptionError, InputError
from policyengine.primitives.rand import RandomSource

KEY_SIZE: Final = 32
_VERSION: Final = b"\x01"
_NONCE: Final = 12
_TAG: Final = 16


def seal(key: bytes, plaintext: bytes, *, aad: bytes, random: RandomSource) -> bytes:
    """Encrypt and authenticate.

    Args:
        key: 32 bytes. At most 2**32 messages under one key (random nonces).
        plaintext: what to hide.
        aad: what must be the same when it is opened; not hidden, not stored.
        random: source of the nonce.

    Raises:
        InputError: `invalid` when the key has another length.
    """
    return _seal_with_nonce(key, plaintext, aad=aad, nonce=random.token(_NONCE))


def _seal_with_nonce(key: bytes, plaintext: bytes, *, aad: bytes, nonce: bytes) -> bytes:
    return _VERSION + nonce + _cipher(key).encrypt(nonce, plaintext, _VERSION + aad)


def open_(key: bytes, data: bytes, *, aad: bytes) -> bytes:
    """Decrypt what `seal` made under the same key and associated data.

    Raises:
        DecryptionError: anything does not fit; all causes look alike.
        InputError: `invalid` when the key has another length.
    """
    cipher = _cipher(key)
    if len(data) < 1 + _NONCE + _TAG or data[:1] != _VERSION:
        raise DecryptionError("the ciphertext does not open")
    try:
        return cipher.decrypt(data[1 : 1 + _NONCE], data[1 + _NONCE :], _VERSION + aad)
    except InvalidTag:
        raise DecryptionError("the ciphertext does not open") from None


def _cipher(key: bytes) -> AESGCM:
    if len(key) != KEY_SIZE:
        raise InputError("invalid", "an AES-256-GCM key has 32 bytes")
    return AESGCM(key)
