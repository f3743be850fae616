"""What the scheme asks of a group, and scalars for it.

Groups are written multiplicatively, as paper 001 does; elements never are the identity.
An element is whatever its own group made it of: nobody else looks inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol, TypeAlias

from policyengine.primitives.rand import RandomSource

GroupName: TypeAlias = Literal["curve", "zp1024"]
GroupElement: TypeAlias = Any

_EXTRA: Final = 16  # bytes drawn beyond a scalar's length, so that no scalar is likelier by 2^-128


class Group(Protocol):
    """A cyclic group of prime order in which the Diffie-Hellman problem is hard.

    Powers reduce their scalar modulo the order. Where the result is the identity (which
    honest parties meet once in 2^160 times) they raise DecryptionError.
    """

    @property
    def order(self) -> int:
        """The group's prime order; scalars are modulo this."""

    @property
    def scalar_bytes(self) -> int:
        """Length of an encoded scalar."""

    @property
    def element_bytes(self) -> int:
        """Length of an encoded element."""

    def generated(self, scalar: int) -> GroupElement:
        """Return g^scalar."""

    def powers_of(self, element: GroupElement) -> Callable[[int], GroupElement]:
        """Return a function that raises this one element to many scalars."""

    def power(self, element: GroupElement, scalar: int) -> GroupElement:
        """Return element^scalar."""

    def product(self, first: GroupElement, second: GroupElement) -> GroupElement:
        """Return first * second."""

    def inverse(self, element: GroupElement) -> GroupElement:
        """Return element^-1."""

    def product_bytes(self, first: GroupElement, second: GroupElement) -> bytes:
        """Return the encoding of first * second; the identity has one too, of zero bytes."""

    def encode(self, element: GroupElement) -> bytes:
        """Return the one encoding of an element, `element_bytes` long."""

    def decode(self, data: bytes) -> GroupElement:
        """Read an element.

        Raises:
            DecodeError: the wrong length, another form, the identity, or not in the group.
        """

    def load(self, data: bytes) -> GroupElement:
        """Read an element that `decode` or `encode` has seen before, without the costly check."""


def draw_scalar(group: Group, random: RandomSource, *forbidden: int) -> int:
    """Draw a scalar from 1 to the order less one.

    Args:
        group: whose order counts.
        random: the source; the system's is safe across forks.
        forbidden: scalars, modulo the order, that must not come out.
    """
    excluded = {scalar % group.order for scalar in forbidden}
    while True:
        scalar = wide_scalar(group, random.token(group.scalar_bytes + _EXTRA))
        if scalar not in excluded:
            return scalar


def wide_scalar(group: Group, data: bytes) -> int:
    """Map bytes, 16 more than a scalar has or better, to a scalar that is not zero."""
    return 1 + int.from_bytes(data, "big") % (group.order - 1)
