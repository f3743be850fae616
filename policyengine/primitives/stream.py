"""A deterministic stream of bytes from a key: AES-256 in counter mode (NIST SP 800-38A)."""

from __future__ import annotations

from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from policyengine.errors import InputError

KEY_SIZE: Final = 32
_START: Final = bytes(16)


class KeyStream:
    """The stream of one key; the same key gives the same bytes, so use it for one purpose.

    Not safe for use by several threads.

    Args:
        key: 32 bytes.

    Raises:
        InputError: `invalid` when the key has another length.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_SIZE:
            raise InputError("invalid", "a key of a stream has 32 bytes")
        # the counter starts at zero: a key has one stream, so no nonce is needed
        self._encryptor = Cipher(AES(key), CTR(_START)).encryptor()

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        return self._encryptor.update(bytes(size))
