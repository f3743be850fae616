"""Exact random order-preserving functions on small domains (paper 003, SBM-I).

An order-preserving function from M values to N is the same thing as a set of M of the N
values: sort it, and the i-th is the image of i. So a *random* one is a random set, drawn
with a keyed stream. There is no sampling from the hypergeometric distribution and so no
error of such a sampler: every function is equally likely, as far as AES is one.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policyengine.errors import DecryptionError, InputError
from policyengine.primitives.stream import KeyStream

Numbers: TypeAlias = NDArray[np.uint64]

MAX_DOMAIN: Final = 2**20
"""Most values of a domain that has a table of its own."""
MAX_BITS: Final = 64


def random_set(key: bytes, size: int, bits: int) -> Numbers:
    """Draw a random set of numbers, each set of that size being equally likely.

    Numbers are drawn until there are enough different ones. Nothing here tells one number
    from another but their equality, so by symmetry no set is preferred.

    Args:
        key: 32 bytes, used for nothing else.
        size: how many, at most half of all there are.
        bits: they are below 2**bits; at most 64.

    Returns:
        The numbers in ascending order.
    """
    stream = KeyStream(key)
    shift = np.uint64(MAX_BITS - bits)
    found = np.empty(0, dtype=np.uint64)
    while found.size < size:
        drawn = np.frombuffer(stream.read(8 * (size - found.size)), dtype=">u8") >> shift
        found = np.sort(np.concatenate((found, drawn.astype(np.uint64))))
        found = found[np.concatenate(([True], found[1:] != found[:-1]))]
    return found


class OrderTable:
    """A random order-preserving function and its inverse.

    Safe for use by several threads.

    Args:
        key: 32 bytes, used for nothing else.
        size: number of plaintexts, 0 to size - 1; at most `MAX_DOMAIN`.
        bits: ciphertexts are below 2**bits, and there are at least twice as many of them.

    Raises:
        InputError: `invalid` for a size that does not fit.
    """

    def __init__(self, key: bytes, size: int, *, bits: int = MAX_BITS) -> None:
        if not 1 <= size <= MAX_DOMAIN or bits > MAX_BITS or 2 * size > 2**bits:
            raise InputError("invalid", f"a table has 1 to {MAX_DOMAIN} values and twice the room")
        self._key = key
        self.size = size
        self.bits = bits

    @cached_property
    def table(self) -> Numbers:
        """The ciphertexts in order of their plaintexts; made when it is first needed."""
        return random_set(self._key, self.size, self.bits)

    def encrypt(self, plaintexts: NDArray[np.integer]) -> Numbers:
        """Encrypt many plaintexts, 0 to size - 1.

        Raises:
            InputError: `invalid` when one lies outside the domain.
        """
        if plaintexts.size and not 0 <= int(plaintexts.min()) <= int(plaintexts.max()) < self.size:
            raise InputError("invalid", "a value lies outside the domain of the encryption")
        found: Numbers = self.table[plaintexts]
        return found

    def decrypt(self, ciphertexts: Numbers) -> NDArray[np.int64]:
        """Decrypt many ciphertexts.

        Raises:
            DecryptionError: one of them is no ciphertext of this key.
        """
        places = np.searchsorted(self.table, ciphertexts)
        found = self.table[np.minimum(places, self.size - 1)]
        if not np.array_equal(found, ciphertexts):
            raise DecryptionError("the ciphertext does not open")
        return places.astype(np.int64)
