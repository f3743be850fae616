"""The numpy kernel: elements to filters, auxiliary filters by prefix and suffix OR."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policyengine.anonset.parameters import Parameters

Rows: TypeAlias = NDArray[np.uint8]
"""One filter a row, padded with zero bytes to whole 64-bit words."""
Numbers: TypeAlias = NDArray[np.uint32]

WORD: Final = 4  # bytes of a PRF or random number that becomes one position
_BLOCK: Final = 64


def keyed_numbers(key: bytes, message: bytes, count: int) -> bytes:
    """Return `count` pseudo-random 32-bit numbers, little-endian, as bytes.

    Every position comes from its own bytes of keyed BLAKE2b blocks. Double hashing
    would be faster and makes 8 to 200 times too many false positives.

    Args:
        key: 32 bytes.
        message: what the numbers belong to.
        count: how many numbers.
    """
    blocks = -(-count * WORD // _BLOCK)
    stream = b"".join(
        blake2b(message + block.to_bytes(4, "big"), key=key).digest() for block in range(blocks)
    )
    return stream[: count * WORD]


def numbers(data: bytes, width: int) -> Numbers:
    """Read 32-bit little-endian numbers as rows of `width`."""
    return np.frombuffer(data, dtype="<u4").reshape(-1, width)


def rows_from(positions: Numbers, parameters: Parameters) -> Rows:
    """Make one filter a row of numbers, each number modulo m being a bit position.

    Args:
        positions: (elements, k).
        parameters: the encoding.

    Returns:
        (elements, bytes padded to whole words).
    """
    count = len(positions)
    bits = np.zeros((count, padded_bytes(parameters) * 8), dtype=np.uint8)
    bits[np.arange(count)[:, None], positions % np.uint32(parameters.m)] = 1
    return np.packbits(bits, axis=1, bitorder="little")


def padded_bytes(parameters: Parameters) -> int:
    """Return the bytes of a row."""
    return -(-parameters.m // 64) * 8


def orders(order_key: bytes, salts: Sequence[bytes], n: int) -> NDArray[np.intp]:
    """Return, for each salt, which element stands at which place.

    A keyed shuffle: the places say nothing about which elements are padding, and
    the holder of the key can still turn matched indices into attributes.

    Returns:
        (salts, n) of element numbers.
    """
    drawn = b"".join(keyed_numbers(order_key, salt, n) for salt in salts)
    return np.argsort(numbers(drawn, n), axis=1, kind="stable")


def auxiliary(elements: Rows, randoms: Rows) -> Rows:
    """Make BF_t, BF_1 ... BF_n of conjunctions (PS-ACF Def. 5 and 6).

    Leaving out one element is the OR of all before it and all behind it, so n
    filters cost two passes and not n encodings.

    Args:
        elements: (conjunctions, n, bytes), in their order.
        randoms: (conjunctions, n + 1, bytes), the random string of each filter.

    Returns:
        (conjunctions, n + 1, bytes): BF_t first; BF_i leaves out element n - i
        (counted from 0), as in Table 2 of the paper.
    """
    words = elements.view(np.uint64)
    before = np.bitwise_or.accumulate(words, axis=1)
    behind = np.bitwise_or.accumulate(words[:, ::-1], axis=1)[:, ::-1]
    out = randoms.view(np.uint64).copy()
    out[:, 0] |= before[:, -1]
    # row 1 + j of `reverse` leaves out element n - 1 - j
    reverse = out[:, :0:-1]
    reverse[:, 1:] |= before[:, :-1]
    reverse[:, :-1] |= behind[:, 1:]
    filters: Rows = out.view(np.uint8)
    return filters


def union(rows: Rows) -> Rows:
    """Return the OR of all rows; zero when there are none."""
    joined: Rows = np.bitwise_or.reduce(rows, axis=0)
    return joined
