"""The paper's Z_p: the subgroup of order q of the residues modulo p (`zp1024`).

The group is RFC 5114, section 2.1: p of 1024 bits and a subgroup whose order q is a prime
of 160 bits. Paper 001 (section 5.1) takes q = (p-1)/2, as RFC 2409's second group has it.
The order of 160 bits is chosen here because it gives scalars of 20 bytes that are modulo
the subgroup's order and still short, a sixth of the work of each power, at the same
strength: 1024 bits of p are worth no more than the 80 bits that q gives. In return each
element that is read must be tested for its order, or an element of small order would
betray a broker's share piece by piece; `decode` does.

80 bits are too few for new systems, and nobody can tell how RFC 5114 found its p. This
group is here to reproduce the papers' figures; `curve` is for use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from policyengine.errors import DecodeError, DecryptionError

P: Final = int(
    "B10B8F96A080E01DDE92DE5EAE5D54EC52C99FBCFB06A3C69A6A9DCA52D23B61"
    "6073E28675A23D189838EF1E2EE652C013ECB4AEA906112324975C3CD49B83BF"
    "ACCBDD7D90C4BD7098488E9C219A73724EFFD6FAE5644738FAA31A4FF55BCCC0"
    "A151AF5F0DC8B4BD45BF37DF365C1A65E68CFDA76D4DA708DF1FB2BC2E4A4371",
    16,
)
Q: Final = 0xF518AA87_81A8DF27_8ABA4E7D_64B7CB9D_49462353
G: Final = int(
    "A4D1CBD5C3FD34126765A442EFB99905F8104DD258AC507FD6406CFF14266D31"
    "266FEA1E5C41564B777E690F5504F213160217B4B01B886A5E91547F9E2749F4"
    "D7FBD7D3B9A92EE1909D0D2263F80A76A6A24C087A091F531DBF0A0169B6A28A"
    "D662A4D18E73AFA32D779D5918D08BC8858F4DCEF97C2A24855E6EEB22B3B2E5",
    16,
)
_ELEMENT: Final = 128
_WINDOW: Final = 6
_MASK: Final = (1 << _WINDOW) - 1


class Residues:
    """The subgroup of order q modulo p; see `Group` for the operations."""

    order: Final = Q
    scalar_bytes: Final = 20
    element_bytes: Final = _ELEMENT

    def generated(self, scalar: int) -> int:
        """Return g^scalar."""
        return _fixed(G).power(scalar)

    def powers_of(self, element: int) -> Callable[[int], int]:
        """Return a function that raises one element to many scalars, from a table."""
        return _fixed(element).power

    def power(self, element: int, scalar: int) -> int:
        """Return element^scalar."""
        return _checked(pow(element, scalar % Q, P))

    def product(self, first: int, second: int) -> int:
        """Return first * second."""
        return _checked(first * second % P)

    def inverse(self, element: int) -> int:
        """Return element^-1."""
        return pow(element, -1, P)

    def product_bytes(self, first: int, second: int) -> bytes:
        """Return the encoding of first * second, or zero bytes for the identity."""
        product = first * second % P
        return (product if product != 1 else 0).to_bytes(_ELEMENT, "big")

    def encode(self, element: int) -> bytes:
        """Return the element as 128 bytes, big-endian."""
        return element.to_bytes(_ELEMENT, "big")

    def decode(self, data: bytes) -> int:
        """Read an element.

        Raises:
            DecodeError: the wrong length, not from 2 to p-1, or not in the subgroup.
        """
        if len(data) != _ELEMENT:
            raise DecodeError("an element has the wrong length")
        element = self.load(data)
        if not 1 < element < P or pow(element, Q, P) != 1:
            raise DecodeError("an element is not in the group")
        return element

    def load(self, data: bytes) -> int:
        """Read an element that was read before."""
        return int.from_bytes(data, "big")


class _FixedBase:
    """Powers of one base by look-up: a product of one entry for each six bits of the scalar.

    Args:
        base: an element of the subgroup.
    """

    def __init__(self, base: int) -> None:
        self._rows: list[list[int]] = []
        for _ in range(-(-Q.bit_length() // _WINDOW)):
            row = [1]
            for _ in range(_MASK):
                row.append(row[-1] * base % P)
            self._rows.append(row)
            base = row[-1] * base % P

    def power(self, scalar: int) -> int:
        """Return base^scalar."""
        left, result = scalar % Q, 1
        for row in self._rows:
            result = result * row[left & _MASK] % P
            left >>= _WINDOW
        return _checked(result)


@lru_cache(maxsize=16)  # bases are public: g, and each system's h
def _fixed(base: int) -> _FixedBase:
    return _FixedBase(base)


def _checked(element: int) -> int:
    if element == 1:
        raise DecryptionError("the ciphertext does not open")
    return element
