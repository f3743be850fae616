"""Passphrases: RFC 7914's scrypt, and chunks that stay in their places."""

from __future__ import annotations

import hashlib

import pytest

from policyengine.errors import DecryptionError, InputError
from policyengine.primitives.passphrase import open_chunk, seal_chunk, stretch
from policyengine.primitives.rand import SYSTEM_RANDOM

SALT = bytes(range(16))


def test_it_is_scrypt() -> None:
    for text in ("a long walk", "über"):
        expected = hashlib.scrypt(text.encode(), salt=SALT, n=256, r=8, p=1, dklen=32)
        assert stretch(text, SALT, cost=256) == expected


@pytest.mark.parametrize(
    ("text", "salt", "cost"),
    [("", SALT, 256), ("x", SALT[1:], 256), ("x", SALT, 8), ("x", SALT, 2**21), ("x", SALT, 300)],
)
def test_what_is_refused(text: str, salt: bytes, cost: int) -> None:
    with pytest.raises(InputError):
        stretch(text, salt, cost=cost)


def test_a_chunk_opens_in_its_own_place_alone() -> None:
    key = stretch("a long walk", SALT, cost=256)
    sealed = seal_chunk(key, 3, b"data", last=False, random=SYSTEM_RANDOM)
    assert open_chunk(key, 3, sealed, last=False) == b"data"
    for number, last in ((2, False), (4, False), (3, True)):
        with pytest.raises(DecryptionError):
            open_chunk(key, number, sealed, last=last)
    with pytest.raises(DecryptionError):
        open_chunk(bytes(32), 3, sealed, last=False)
