"""Key derivation: HKDF with SHA-256 (RFC 5869)."""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from policyengine.errors import InputError

MIN_KEY: Final = 16
MAX_SIZE: Final = 255 * 32


def derive(key: bytes, *, info: bytes, size: int = 32) -> bytes:
    """Derive an independent key for one purpose.

    Args:
        key: uniformly random secret of at least 16 bytes.
        info: what the new key is for; different purposes give unrelated keys.
        size: 1 to 8160 bytes of output.

    Raises:
        InputError: `invalid` when the key or the size is out of range.
    """
    if len(key) < MIN_KEY:
        raise InputError("invalid", "a key to derive from has at least 16 bytes")
    if not 1 <= size <= MAX_SIZE:
        raise InputError("invalid", "a derived key has 1 to 8160 bytes")
    return HKDF(algorithm=SHA256(), length=size, salt=None, info=info).derive(key)
