"""The pairing group of all attribute-based encryption: BLS12-381 on `pymcl`.

Scalars are Python integers modulo `ORDER` (the paper's p); points are `pymcl` objects, which
are never changed in place, so they may be shared between threads and across forks. They
cannot be pickled: send their bytes. Random scalars come from a `RandomSource` alone, because
pymcl's own generator draws the same numbers in forked children.

What pymcl leaves open is closed here: its decoder accepts the identity and trailing bytes,
the inverse of zero is zero, and it reads any blob as an element of GT. Elements of GT are
therefore never sent, only hashed (`gt_secret`). pymcl does not promise to run in constant
time, so a process that shares a machine with an attacker should not hold keys.

Source: paper 001, section 5.1, on a type-3 pairing (G1 and G2 differ).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Generic, TypeVar

from pymcl import G1, G2, GT, Fr, g1, g2, pairing
from pymcl import r as _order

from policyengine.errors import DecodeError, InputError
from policyengine.primitives.canonical import pack
from policyengine.primitives.kdf import derive
from policyengine.primitives.rand import RandomSource

ORDER: Final[int] = _order
"""Order of G1, G2 and GT, a prime of 255 bits."""
SCALAR_BYTES: Final = 32
G1_BYTES: Final = 48
G2_BYTES: Final = 96
BASE_1: Final[G1] = g1
"""The generator P of G1."""
BASE_2: Final[G2] = g2
"""The generator h of G2."""
__all__ = [
    "BASE_1",
    "BASE_2",
    "G1",
    "G1_BYTES",
    "G2",
    "G2_BYTES",
    "GT",
    "ORDER",
    "SCALAR_BYTES",
    "FixedBase",
    "base_1",
    "base_2",
    "decode_g1",
    "decode_g2",
    "decode_scalar",
    "encode_g1",
    "encode_g2",
    "encode_scalar",
    "gt_power",
    "gt_secret",
    "hash_to_g1",
    "invert",
    "pair",
    "pair_product",
    "power",
    "random_scalar",
    "scalar_of",
]

_WIDE: Final = 48  # 384 bits modulo 255: the bias is below 2**-128
_HALF: Final = ORDER // 2

Point = TypeVar("Point", G1, G2)


class FixedBase(Generic[Point]):
    """A point whose multiples are needed often: 32 additions instead of a multiplication.

    Args:
        point: the point; building the table takes about 8000 additions and 2 to 4 MB.
    """

    def __init__(self, point: Point) -> None:
        rows = []
        zero = point - point
        for _ in range(SCALAR_BYTES):
            row = [zero]
            for _ in range(255):
                row.append(row[-1] + point)
            rows.append(tuple(row))
            point = row[-1] + point
        self._rows: tuple[tuple[Point, ...], ...] = tuple(rows)

    def power(self, scalar: int) -> Point:
        """Return the point times the scalar (any integer)."""
        digits = (scalar % ORDER).to_bytes(SCALAR_BYTES, "little")
        total = self._rows[0][digits[0]]
        for row, digit in zip(self._rows[1:], digits[1:], strict=True):
            if digit:
                total = total + row[digit]
        return total


def power(point: Point, scalar: int) -> Point:
    """Return a point times a scalar (any integer); small ones of either sign are cheap."""
    scalar %= ORDER
    if scalar > _HALF:
        return -(point * _fr(ORDER - scalar))
    return point * _fr(scalar)


def base_1(scalar: int) -> G1:
    """Return P times a scalar (any integer)."""
    return _table_1().power(scalar)


def base_2(scalar: int) -> G2:
    """Return h times a scalar (any integer)."""
    return _table_2().power(scalar)


def random_scalar(random: RandomSource) -> int:
    """Return a uniformly random scalar, 1 to ORDER - 1."""
    return int.from_bytes(random.token(_WIDE), "big") % (ORDER - 1) + 1


def invert(scalar: int) -> int:
    """Return the inverse of a scalar.

    Raises:
        InputError: `invalid` for zero, which has none (pymcl would return zero).
    """
    if scalar % ORDER == 0:
        raise InputError("invalid", "zero has no inverse")
    return pow(scalar, -1, ORDER)


def scalar_of(secret: bytes) -> int:
    """Map a pseudo-random secret of 48 bytes or more evenly to a scalar, 1 to ORDER - 1.

    Raises:
        InputError: `invalid` for a shorter secret, whose scalar would be biased.
    """
    if len(secret) < _WIDE:
        raise InputError("invalid", f"a scalar is made of at least {_WIDE} bytes")
    return int.from_bytes(secret, "big") % (ORDER - 1) + 1


def hash_to_g1(tag: str, *parts: bytes) -> G1:
    """Hash fields to a point of G1 whose logarithm nobody knows (a random oracle).

    Args:
        tag: domain separation; different tags are unrelated oracles.
        parts: fields; each stands behind its length.
    """
    return G1.hash(pack(tag.encode(), *parts))


def pair(first: G1, second: G2) -> GT:
    """Return the pairing e(first, second)."""
    return pairing(first, second)


def pair_product(pairs: Iterable[tuple[G1, G2]]) -> GT:
    """Return the product of pairings; pymcl offers no joint one, so each counts in full."""
    total = GT()
    for first, second in pairs:
        total = total * pairing(first, second)
    return total


def gt_power(element: GT, scalar: int) -> GT:
    """Return an element of GT to the power of a scalar (any integer)."""
    return element ** _fr(scalar % ORDER)


def gt_secret(element: GT, *, info: bytes, size: int = 32) -> bytes:
    """Derive a key from an element of GT; the only way out of GT.

    Args:
        element: what both sides computed.
        info: what the key is for; different purposes give unrelated keys.
        size: length of the key.
    """
    return derive(element.serialize(), info=info, size=size)


def encode_scalar(scalar: int) -> bytes:
    """Write a scalar as 32 bytes, big-endian."""
    return (scalar % ORDER).to_bytes(SCALAR_BYTES, "big")


def decode_scalar(data: bytes) -> int:
    """Read what `encode_scalar` wrote.

    Raises:
        DecodeError: another length, or ORDER and above.
    """
    scalar = int.from_bytes(data, "big")
    if len(data) != SCALAR_BYTES or scalar >= ORDER:
        raise DecodeError("not a scalar")
    return scalar


def encode_g1(point: G1) -> bytes:
    """Write a point of G1 as 48 bytes.

    Raises:
        InputError: `invalid` for the identity, which no key or ciphertext may hold.
    """
    return _encode(point)


def encode_g2(point: G2) -> bytes:
    """Write a point of G2 as 96 bytes.

    Raises:
        InputError: `invalid` for the identity.
    """
    return _encode(point)


def decode_g1(data: bytes) -> G1:
    """Read a point of G1.

    Raises:
        DecodeError: another length, not on the curve, outside the subgroup, the identity, or
            another spelling of a point.
    """
    return _decode(G1, data, G1_BYTES)


def decode_g2(data: bytes) -> G2:
    """Read a point of G2.

    Raises:
        DecodeError: as `decode_g1`.
    """
    return _decode(G2, data, G2_BYTES)


def _encode(point: G1 | G2) -> bytes:
    if point.is_zero():
        raise InputError("invalid", "the identity is not sent")
    return bytes(point.serialize())


def _decode(kind: type[Point], data: bytes, size: int) -> Point:
    if len(data) != size:
        raise DecodeError("a point has the wrong length")
    try:
        # pymcl checks that the point is on the curve and in the subgroup of prime order
        point = kind.deserialize(data)
    except ValueError as error:
        raise DecodeError("not a point of the group") from error
    if point.is_zero() or point.serialize() != data:
        raise DecodeError("not a point of the group")
    return point


def _fr(scalar: int) -> Fr:
    return Fr.deserialize(scalar.to_bytes(SCALAR_BYTES, "little"))


@lru_cache(maxsize=1)
def _table_1() -> FixedBase[G1]:
    return FixedBase(BASE_1)


@lru_cache(maxsize=1)
def _table_2() -> FixedBase[G2]:
    return FixedBase(BASE_2)
