"""Digests."""

from __future__ import annotations

from hashlib import sha256


def digest(data: bytes) -> str:
    """Return the SHA-256 of the data as 64 lower-case hexadecimal digits."""
    return sha256(data).hexdigest()
