"""The elliptic curve secp256k1 (SEC 2, section 2.4.1): the default group.

Elements are points in compressed form, 33 bytes. The curve has prime order, so that every
point but the identity generates it and "on the curve" is all that there is to check.
Multiplication of a given point is not constant in time (libsecp256k1 promises that for
its generator only).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coincurve import PublicKey

from policyengine.errors import DecodeError, DecryptionError

_ORDER: Final = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
_SCALAR: Final = 32
_POINT: Final = 33
_IDENTITY: Final = bytes(_POINT)


class Curve:
    """secp256k1 through libsecp256k1; see `Group` for the operations."""

    order: Final = _ORDER
    scalar_bytes: Final = _SCALAR
    element_bytes: Final = _POINT

    def generated(self, scalar: int) -> PublicKey:
        """Return g^scalar."""
        return PublicKey.from_valid_secret(_bytes(scalar))

    def powers_of(self, element: PublicKey) -> Callable[[int], PublicKey]:
        """Return a function that raises one point to many scalars."""
        return lambda scalar: self.power(element, scalar)

    def power(self, element: PublicKey, scalar: int) -> PublicKey:
        """Return element^scalar."""
        return element.multiply(_bytes(scalar))

    def product(self, first: PublicKey, second: PublicKey) -> PublicKey:
        """Return first * second."""
        try:
            return PublicKey.combine_keys([first, second])
        except ValueError as error:
            raise DecryptionError("the ciphertext does not open") from error

    def inverse(self, element: PublicKey) -> PublicKey:
        """Return element^-1: the point with the other sign."""
        data = element.format()
        return PublicKey(bytes([data[0] ^ 1]) + data[1:])

    def product_bytes(self, first: PublicKey, second: PublicKey) -> bytes:
        """Return the encoding of first * second, or zero bytes for the identity."""
        try:
            data: bytes = PublicKey.combine_keys([first, second]).format()
        except ValueError:
            return _IDENTITY
        return data

    def encode(self, element: PublicKey) -> bytes:
        """Return the compressed point."""
        data: bytes = element.format()
        return data

    def decode(self, data: bytes) -> PublicKey:
        """Read a compressed point.

        Raises:
            DecodeError: the wrong length, another form, or not on the curve.
        """
        if len(data) != _POINT:
            raise DecodeError("a point has the wrong length")
        try:
            return PublicKey(data)
        except ValueError as error:
            raise DecodeError("a point is not on the curve") from error

    def load(self, data: bytes) -> PublicKey:
        """Read a point that was read before."""
        return PublicKey(data)


def _bytes(scalar: int) -> bytes:
    reduced = scalar % _ORDER
    if not reduced:
        raise DecryptionError("the ciphertext does not open")
    return reduced.to_bytes(_SCALAR, "big")
