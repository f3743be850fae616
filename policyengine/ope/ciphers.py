"""SBM-I's ciphertexts: bytes that compare as their points do (paper 003, SBM-I).

Three forms, by column:

- **table**, up to `MAX_DOMAIN` points: one exact random order-preserving function, 8 bytes.
- **digits**, any other number: its code (`NumberCode`) is cut into bytes, and each byte is
  encrypted by an exact random order-preserving function of its own, keyed by the bytes in
  front of it; 4 bytes a digit, compared from the left. Nothing is rounded, so that no bound
  falls into a bucket that codes cannot decide, and answers stay exact. The price: where a
  single function on the whole domain would show order only, these ciphertexts also show
  after how many bytes two codes part.
- **text**: a chain of keyed tokens, one a letter, 8 bytes each. Prefixes are intervals, and
  nothing asks for the order of letters, so that it is not kept: the broker sees how long a
  text is and how far two texts agree, and no more. Two different letters in one place have
  the same token once in 2**62.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from hashlib import blake2b
from typing import Final, Protocol

import numpy as np

from policyengine.attributes.codes import NumberCode
from policyengine.errors import DecryptionError
from policyengine.ope.functions import OrderTable, random_set
from policyengine.ope.layout import Column, Point, code_bytes
from policyengine.primitives.kdf import derive
from policyengine.primitives.prf import prf

DIGIT_BITS: Final = 32
_DIGIT: Final = DIGIT_BITS // 8
_TABLES: Final = 1024  # digits whose tables are remembered, 1 KB each
_TOKEN: Final = 8
_LOW: Final = (1 << 62) - 1
_MARK: Final = 1 << 62  # tokens begin with 0x40 to 0x7f: above an end of text, below AFTER
_LENGTH_BITS: Final = 9  # of a number without limits (`NumberCode`)


class Cipher(Protocol):
    """Encrypts the points of one column; safe for use by several threads."""

    def encrypt(self, point: Point) -> bytes:
        """Return bytes that compare as the points do."""


class TableCipher:
    """Points of a small domain.

    Args:
        key: 32 bytes, used for nothing else.
        size: number of points.
    """

    def __init__(self, key: bytes, size: int) -> None:
        self.table = OrderTable(key, size)

    def encrypt(self, point: Point) -> bytes:
        """Return the 8 bytes of the ciphertext."""
        assert isinstance(point, int)
        return int(self.table.table[point]).to_bytes(8, "big")

    def decrypt(self, ciphertext: bytes) -> int:
        """Return the point.

        Raises:
            DecryptionError: this is no ciphertext of the key.
        """
        if len(ciphertext) != 8:
            raise DecryptionError("the ciphertext does not open")
        number = np.array([int.from_bytes(ciphertext, "big")], dtype=np.uint64)
        return int(self.table.decrypt(number)[0])


class DigitCipher:
    """Numbers of a large domain, digit by digit.

    Args:
        key: 32 bytes, used for nothing else.
        code: codes of the numbers.
    """

    def __init__(self, key: bytes, code: NumberCode) -> None:
        self._key = key
        self._code = code
        self._table = lru_cache(maxsize=_TABLES)(self._make)

    def encrypt(self, point: Point) -> bytes:
        """Return 4 bytes for each byte of the point's code."""
        assert isinstance(point, int)
        digits = code_bytes(self._code.code(point))
        return b"".join(self._table(digits[:place])[digit] for place, digit in enumerate(digits))

    def decrypt(self, ciphertext: bytes) -> int:
        """Return the point (a rank).

        Raises:
            DecryptionError: this is no ciphertext of the key.
        """
        digits = b""
        for at in range(0, len(ciphertext), _DIGIT):
            table, wanted = self._table(digits), ciphertext[at : at + _DIGIT]
            digit = bisect_left(table, wanted)
            if digit == len(table) or table[digit] != wanted:
                raise DecryptionError("the ciphertext does not open")
            digits += bytes((digit,))
        rank = _rank(digits, self._code.width)
        if rank is None or code_bytes(self._code.code(rank)) != digits:
            raise DecryptionError("the ciphertext does not open")
        return rank

    def _make(self, prefix: bytes) -> tuple[bytes, ...]:
        numbers = random_set(prf(self._key, "digit", prefix), 256, DIGIT_BITS)
        return tuple(number.to_bytes(_DIGIT, "big") for number in numbers.tolist())


class TextCipher:
    """Open strings, letter by letter; one way.

    Args:
        key: 32 bytes, used for nothing else.
    """

    def __init__(self, key: bytes) -> None:
        self._start = prf(key, "text")

    def encrypt(self, point: Point) -> bytes:
        """Return 8 bytes for each letter; those of a prefix are the beginning of a text's."""
        assert isinstance(point, str)
        state, tokens = self._start, []
        for letter in point:
            # the whole state goes on, not the token: a collision of tokens ends with its place
            state = blake2b(letter.encode(), key=state, digest_size=32).digest()
            token = int.from_bytes(state[:_TOKEN], "big") & _LOW | _MARK
            tokens.append(token.to_bytes(_TOKEN, "big"))
        return b"".join(tokens)


def cipher_of(column: Column, key: bytes) -> Cipher:
    """Return the cipher of a column.

    Args:
        column: the column.
        key: at least 16 bytes, shared by publishers and subscribers; every column gets a
            key of its own from it.
    """
    own = derive(key, info=f"portcullis ope 1 sbm1 {column.form} {column.name}".encode())
    if column.size is not None:
        return TableCipher(own, column.size)
    if column.form == "text":
        return TextCipher(own)
    return DigitCipher(own, column.code)


def _rank(digits: bytes, width: int | None) -> int | None:
    """Read a rank back from the bytes of its code, or return None where they are none."""
    bits = "".join(format(digit, "08b") for digit in digits)
    if width is not None:
        return int(bits[:width], 2) if len(bits) >= width else None
    if len(bits) < 1 + _LENGTH_BITS:
        return None
    negative = bits[0] == "0"
    length = int(bits[1 : 1 + _LENGTH_BITS], 2)
    length = length ^ (2**_LENGTH_BITS - 1) if negative else length
    mantissa = bits[1 + _LENGTH_BITS : _LENGTH_BITS + max(1, length)]
    if len(mantissa) < length - 1:
        return None
    magnitude = int("1" + mantissa, 2) if length else 0
    if negative:
        flipped = int("1" + mantissa, 2) ^ (2 ** len(mantissa) - 1) if length else 0
        return -flipped - 1
    return magnitude
