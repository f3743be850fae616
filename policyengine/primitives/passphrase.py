"""Encryption under a passphrase: scrypt (RFC 7914), then AES-256-GCM over numbered chunks.

Each chunk is bound to its number and to whether it is the last one, so that chunks can neither
be dropped nor exchanged nor cut off.
"""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from policyengine.errors import InputError
from policyengine.primitives import aead
from policyengine.primitives.canonical import pack
from policyengine.primitives.rand import RandomSource

SALT_SIZE: Final = 16
KEY_SIZE: Final = 32
# 128 MiB and about half a second: what OWASP recommends for passwords.
COST: Final = 2**17
MIN_COST: Final = 2**4
MAX_COST: Final = 2**20
_BLOCK: Final = 8
_CONTEXT: Final = b"portcullis/passphrase/v1"


def stretch(passphrase: str, salt: bytes, *, cost: int = COST) -> bytes:
    """Derive a key from what a person can remember, at a price for whoever guesses.

    Args:
        passphrase: at least one character.
        salt: 16 random bytes, kept beside the ciphertext.
        cost: scrypt's N, a power of two.

    Raises:
        InputError: `invalid` when something is out of range.
    """
    if not passphrase or len(salt) != SALT_SIZE:
        raise InputError("invalid", "a passphrase is not empty, and its salt has 16 bytes")
    if not MIN_COST <= cost <= MAX_COST or cost & (cost - 1):
        raise InputError("invalid", "the cost of a passphrase is a power of two in range")
    return Scrypt(salt=salt, length=KEY_SIZE, n=cost, r=_BLOCK, p=1).derive(passphrase.encode())


def seal_chunk(key: bytes, number: int, chunk: bytes, *, last: bool, random: RandomSource) -> bytes:
    """Encrypt one chunk; numbers count from 0 and none is used twice under one key."""
    return aead.seal(key, chunk, aad=_place(number, last), random=random)


def open_chunk(key: bytes, number: int, sealed: bytes, *, last: bool) -> bytes:
    """Decrypt one chunk.

    Raises:
        DecryptionError: another key, number or end, or altered bytes.
    """
    return aead.open_(key, sealed, aad=_place(number, last))


def _place(number: int, last: bool) -> bytes:
    return pack(_CONTEXT, number.to_bytes(8, "big"), b"last" if last else b"more")
