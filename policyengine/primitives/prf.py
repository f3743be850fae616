"""The pseudo-random function: keyed BLAKE2b (RFC 7693)."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from policyengine.errors import InputError
from policyengine.primitives.canonical import pack

MIN_KEY: Final = 16
MAX_KEY: Final = 64
MAX_SIZE: Final = 64


def prf(key: bytes, *parts: bytes | str, size: int = 32) -> bytes:
    """Map parts to `size` pseudo-random bytes under a key.

    Args:
        key: 16 to 64 bytes.
        parts: fields; each stands behind its length, so that no two lists collide.
            Text counts as its UTF-8 bytes.
        size: 1 to 64 bytes of output; different sizes are unrelated outputs.

    Raises:
        InputError: `invalid` when the key or the size is out of range.
    """
    if not MIN_KEY <= len(key) <= MAX_KEY:
        raise InputError("invalid", "a PRF key has 16 to 64 bytes")
    if not 1 <= size <= MAX_SIZE:
        raise InputError("invalid", "a PRF output has 1 to 64 bytes")
    message = pack(*(part.encode() if isinstance(part, str) else part for part in parts))
    return blake2b(message, key=key, digest_size=size).digest()
