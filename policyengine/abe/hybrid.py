"""Payloads under the secret of an encapsulation: AES-256-GCM (KEM and DEM).

The header, which is what has to be sent beside the sealed payload for it to be opened (the
encapsulation and whatever else must not be exchanged), is authenticated with it.

Source: paper 001, section 5.2, with the correction that M' is no element of GT.
"""

from __future__ import annotations

from typing import Final

from policyengine.abe.cp_model import SECRET_BYTES
from policyengine.errors import InputError
from policyengine.primitives import aead
from policyengine.primitives.kdf import derive
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

_KEY: Final = b"portcullis/abe/hybrid/v1"


def seal(
    secret: bytes, payload: bytes, header: bytes, *, random: RandomSource = SYSTEM_RANDOM
) -> bytes:
    """Encrypt a payload.

    Args:
        secret: 32 bytes from an encapsulation.
        payload: what to hide.
        header: what must be the same when it is opened; not hidden, not stored.
        random: source of the nonce.

    Raises:
        InputError: `invalid` when the secret has another length.
    """
    return aead.seal(_key(secret), payload, aad=header, random=random)


def open_(secret: bytes, sealed: bytes, header: bytes) -> bytes:
    """Decrypt what `seal` made under the same secret and header.

    Raises:
        DecryptionError: anything does not fit.
        InputError: `invalid` when the secret has another length.
    """
    return aead.open_(_key(secret), sealed, aad=header)


def _key(secret: bytes) -> bytes:
    if len(secret) != SECRET_BYTES:
        raise InputError("invalid", f"a secret has {SECRET_BYTES} bytes")
    return derive(secret, info=_KEY)
