"""An element of ZR, G1, G2 or GT with the operators of Charm's elements.

Groups are written multiplicatively: `*` joins two elements of a group, `/` joins with the
inverse, `**` is a power; `+` and `-` do the same as `*` and `/` in G1 and G2, and are a
field's in ZR. A number beside a scalar is a scalar. An element times a scalar or a number is
a power, as in Charm; in GT only the number 1 is let through, with which products begin.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from policyengine.abe.group import ORDER, gt_power, invert, power
from policyengine.primitives.canonical import pack

Kind: TypeAlias = Literal[0, 1, 2, 3]
ZR: Final = 0
G1: Final = 1
G2: Final = 2
GT: Final = 3
_NAMES: Final = ("ZR", "G1", "G2", "GT")


class Element:
    """One element; it never changes.

    Args:
        type: ZR, G1, G2 or GT.
        value: a number below ORDER, or pymcl's point or field element.
    """

    __slots__ = ("type", "value")

    def __init__(self, type: Kind, value: Any) -> None:  # noqa: A002  Charm's name
        self.type = type
        self.value = value

    def initPP(self) -> bool:  # noqa: N802  Charm's name
        """Say that nothing was precomputed; Charm's schemes ask for it as a hint."""
        return False

    def canonical(self) -> bytes:
        """Return bytes that different elements do not share, neutral ones included."""
        return pack(bytes([self.type]), self._raw())

    def __mul__(self, other: object) -> Element:
        right = _element(other)
        if right is None:
            return NotImplemented
        if self.type == ZR and right.type != ZR:
            self, right = right, self  # noqa: PLW0642  a scalar times an element
        if right.type == ZR:
            return self._times(right.value)
        self._same(right)
        if self.type == GT:
            return Element(GT, self.value * right.value)
        return Element(self.type, self.value + right.value)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Element:
        right = _element(other)
        if right is None:
            return NotImplemented
        if self.type == GT == right.type:
            return Element(GT, self.value / right.value)
        self._same(right)
        return self * ~right

    def __rtruediv__(self, other: object) -> Element:
        left = _element(other)
        return NotImplemented if left is None else left / self

    def __add__(self, other: object) -> Element:
        right = _element(other)
        if right is None:
            return NotImplemented
        self._same(right)
        if self.type == GT:
            raise TypeError("elements of GT are multiplied")
        if self.type == ZR:
            return Element(ZR, (self.value + right.value) % ORDER)
        return Element(self.type, self.value + right.value)

    __radd__ = __add__

    def __sub__(self, other: object) -> Element:
        right = _element(other)
        return NotImplemented if right is None else self + -right

    def __rsub__(self, other: object) -> Element:
        return -self + other

    def __neg__(self) -> Element:
        if self.type == GT:
            raise TypeError("elements of GT are multiplied")
        if self.type == ZR:
            return Element(ZR, -self.value % ORDER)
        return Element(self.type, -self.value)

    def __invert__(self) -> Element:
        if self.type == ZR:
            if self.value == 0:
                raise ZeroDivisionError("zero has no inverse")
            return Element(ZR, invert(self.value))
        if self.type == GT:
            return Element(GT, ~self.value)
        return -self

    def __pow__(self, other: object) -> Element:
        right = _element(other)
        if right is None:
            return NotImplemented
        if right.type != ZR:
            raise TypeError("an exponent is a scalar")
        if self.type == GT:
            return Element(GT, gt_power(self.value, right.value))
        if self.type != ZR:
            return Element(self.type, power(self.value, right.value))
        # A number keeps its sign: below ORDER a scalar's power has exponents modulo ORDER - 1.
        exponent = other if isinstance(other, int) else right.value
        if exponent < 0:
            return ~(self**-exponent)
        return Element(ZR, pow(self.value, exponent, ORDER))

    def __rpow__(self, other: object) -> Element:
        left = _element(other)
        return NotImplemented if left is None else left**self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Element):
            return NotImplemented
        return self.type == other.type and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash((self.type, self._raw()))

    def __int__(self) -> int:
        if self.type != ZR:
            raise TypeError("only a scalar is a number")
        return int(self.value)

    def __repr__(self) -> str:
        return f"<element of {_NAMES[self.type]}>"  # never its value: it may be a key

    def _times(self, scalar: int) -> Element:
        if self.type == ZR:
            return Element(ZR, self.value * scalar % ORDER)
        if scalar == 1:
            return self
        if self.type == GT:
            raise TypeError("elements of GT are not multiplied by scalars")
        return Element(self.type, power(self.value, scalar))

    def _same(self, other: Element) -> None:
        if self.type != other.type:
            raise TypeError(f"{_NAMES[self.type]} and {_NAMES[other.type]} do not mix")

    def _raw(self) -> bytes:
        if self.type == ZR:
            return int(self.value).to_bytes(32, "big")
        return bytes(self.value.serialize())


def _element(thing: object) -> Element | None:
    if isinstance(thing, Element):
        return thing
    if isinstance(thing, int) and not isinstance(thing, bool):
        return Element(ZR, thing % ORDER)
    return None
