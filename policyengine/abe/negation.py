"""Negated leaves: proving that an event has *another* value under a label.

A label l has one value, x, in an event. The ciphertext carries `U = (H1(l)^x * H2(l))^s`; a
leaf for "another value than v" with the share q(0) is `P^q(0) * H1(l)^r`,
`(H1(l)^v * H2(l))^r`, `h^r`. Two equations in one unknown:

    e((H1^v * H2)^r, h^s) / e(U, h^r) = e(H1, h)^(r s (v - x))

and the (v - x)-th root of it is what hides the share in `e(P^q(0) * H1^r, h^s)`. Where x = v
the two sides of the quotient are equal and say nothing. A holder of such a leaf learns x, a
pseudonym of the value; nobody else does, because x is masked under the label's secret name.

Only tests of open strings leave negated leaves (`attributes.universe`), so only the labels of
strings get a U; a string shows itself by the code of its length.

Source: paper 001, section 4.1 (non-monotonic filters); Lewko, Sahai and Waters (2010),
two-equation revocation, with random oracles in the place of the scheme's attribute points.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from policyengine.abe.group import (
    G1,
    ORDER,
    SCALAR_BYTES,
    base_1,
    base_2,
    decode_g1,
    decode_scalar,
    encode_g1,
    encode_scalar,
    hash_to_g1,
    invert,
    power,
    scalar_of,
)
from policyengine.abe.kp_labels import tag
from policyengine.abe.kp_model import NegatedLeaf, OtherComponent
from policyengine.attributes.universe import Element
from policyengine.primitives.prf import prf

_LABEL: Final = "portcullis/kpabe/label/v1"
_VALUE: Final = "portcullis/kpabe/value/v1"
_MASK: Final = "portcullis/kpabe/mask/v1"
_FIRST: Final = "portcullis/kpabe/negation/1/v1"
_SECOND: Final = "portcullis/kpabe/negation/2/v1"
_TESTED: Final = re.compile(r"(?P<name>.*)(==|[\^$][1-9][0-9]*)", re.DOTALL)
_LENGTH: Final = re.compile(r"(?P<name>.*)\.[/#][0-9]+", re.DOTALL)


def can_be_negated(elements: Sequence[Element]) -> list[Element]:
    """Return the elements whose labels a negated leaf may name.

    Args:
        elements: all of an event's.
    """
    lengths = (_LENGTH.fullmatch(element.label) for element in elements)
    strings = {found["name"] for found in lengths if found}
    tested = ((element, _TESTED.fullmatch(element.label)) for element in elements)
    return [element for element, found in tested if found and found["name"] in strings]


def secret_name(labelling: bytes, label: str) -> bytes:
    """Return the secret name of a label (32 bytes).

    Args:
        labelling: s1.
        label: the label of an element.
    """
    return prf(labelling, _LABEL, label)


def value_scalar(labelling: bytes, element: Element) -> int:
    """Return an element's value as a scalar, a pseudonym within its label."""
    return scalar_of(prf(labelling, _VALUE, element.label, element.value, size=64))


def hide(labelling: bytes, element: Element, head: bytes, s: int) -> OtherComponent:
    """Return the component of an element's label.

    Args:
        labelling: s1.
        element: what the event has under the label.
        head: bytes of h^s.
        s: the ciphertext's scalar.
    """
    name, x = secret_name(labelling, element.label), value_scalar(labelling, element)
    first, second = _points(name)
    # The same as (H1^x * H2)^s.
    hidden = power(first, x * s) + power(second, s)
    return OtherComponent(tag(name, head), _masked(name, head, x), encode_g1(hidden))


def negated_leaf(labelling: bytes, element: Element, share: int, r: int) -> NegatedLeaf:
    """Return the key for another value than an element's under its label.

    Args:
        labelling: s1.
        element: label and excluded value.
        share: q(0).
        r: a fresh scalar.
    """
    name, v = secret_name(labelling, element.label), value_scalar(labelling, element)
    first, second = _points(name)
    other = power(first, v * r) + power(second, r)
    return NegatedLeaf(name, v, base_1(share) + power(first, r), other, base_2(r))


def difference(leaf: NegatedLeaf, component: OtherComponent, head: bytes) -> int:
    """Return v - x; zero where the event has just the excluded value.

    Args:
        leaf: the key's leaf.
        component: what the leaf's tag found.
        head: bytes of h^s.

    Raises:
        DecodeError: the component's value is no scalar.
    """
    mask = _mask(leaf.label, head)
    x = decode_scalar(bytes(a ^ b for a, b in zip(component.value, mask, strict=True)))
    return (leaf.value - x) % ORDER


def unhide(
    leaf: NegatedLeaf, component: OtherComponent, between: int, weight: int
) -> tuple[G1, G1]:
    """Return what is paired with h^s, and what is paired with h^r, for one chosen leaf.

    Args:
        leaf: the key's leaf.
        component: the ciphertext's.
        between: `difference`, not zero.
        weight: the leaf's Lagrange coefficient.

    Raises:
        DecodeError: U is no point.
    """
    root = weight * invert(between) % ORDER
    with_head = power(leaf.d, weight) + power(leaf.other, -root)
    return with_head, power(decode_g1(component.point), root)


def _masked(name: bytes, head: bytes, x: int) -> bytes:
    return bytes(a ^ b for a, b in zip(encode_scalar(x), _mask(name, head), strict=True))


def _mask(name: bytes, head: bytes) -> bytes:
    return prf(name, _MASK, head, size=SCALAR_BYTES)


@lru_cache(maxsize=2048)
def _points(name: bytes) -> tuple[G1, G1]:
    return hash_to_g1(_FIRST, name), hash_to_g1(_SECOND, name)
