"""Keys and ciphertexts of key-policy encryption, as values.

Who holds what: the authority the `KpMasterKey`; publishers, and whoever narrows keys, the
`PublicKey`; subscribers one `FilterKey` a filter. A broker holds none of them: the public key
contains s1, the secret of the labelling, without which a broker could test guesses of a
hidden attribute with one pairing (see `kp_labels`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from policyengine.abe.group import G1, G2
from policyengine.abe.kp_polynomial import Polynomial
from policyengine.abe.shares import Sharing

KpMode: TypeAlias = Literal["hash", "polynomial"]

SECRET_BYTES: Final = 32
TAG_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What a publisher needs to encrypt; public among publishers, secret from brokers.

    Args:
        mode: how elements become points of G1: `hash`, a random oracle without bounds, or
            `polynomial`, the paper's T(X) for a bounded number of elements.
        anchor: h^y, of which the secret of a ciphertext is made.
        labelling: s1, the key under which elements get their labels.
        polynomials: none in mode `hash`; one is the paper's T, several share the labels.
    """

    mode: KpMode
    anchor: G2
    labelling: bytes = field(repr=False)
    polynomials: tuple[Polynomial, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class KpMasterKey:
    """What makes keys for filters; the trusted authority's alone.

    Args:
        mode: as in `PublicKey`.
        secret: y.
        labelling: s1.
        seed: of the polynomials' coefficients.
        degree: n of each polynomial, 0 in mode `hash`.
        polynomials: how many polynomials, 0 in mode `hash`.
    """

    mode: KpMode
    secret: int = field(repr=False)
    labelling: bytes = field(repr=False)
    seed: bytes = field(repr=False)
    degree: int = 0
    polynomials: int = 0


@dataclass(frozen=True, slots=True)
class PlainLeaf:
    """The key of a leaf that asks for an element b, with its share q(0).

    Args:
        label: sigma_b, by which the leaf finds its component.
        d: D = P^q(0) * H(b)^r.
        r: R = h^r.
    """

    label: bytes = field(repr=False)
    d: G1 = field(repr=False)
    r: G2 = field(repr=False)


@dataclass(frozen=True, slots=True)
class NegatedLeaf:
    """The key of a leaf that asks for another value than v, with its share q(0).

    Args:
        label: the label's secret name, by which the leaf finds its component.
        value: v as a scalar.
        d: P^q(0) * H1(l)^r.
        other: (H1(l)^v * H2(l))^r.
        r: h^r.
    """

    label: bytes = field(repr=False)
    value: int = field(repr=False)
    d: G1 = field(repr=False)
    other: G1 = field(repr=False)
    r: G2 = field(repr=False)


LeafKey: TypeAlias = PlainLeaf | NegatedLeaf


@dataclass(frozen=True, slots=True)
class FilterKey:
    """What opens the events that a filter holds for.

    Args:
        mode: as in `PublicKey`.
        sharing: the filter's tree, in clear: the key is as secret as the filter.
        leaves: one a leaf of the tree, from left to right.
    """

    mode: KpMode
    sharing: Sharing
    leaves: tuple[LeafKey, ...]


@dataclass(frozen=True, slots=True)
class Component:
    """E_a of one element, found by a tag that only holders of its label can compute.

    Args:
        tag: 16 bytes, different in every ciphertext.
        point: bytes of E_a = H(a)^s.
    """

    tag: bytes
    point: bytes


@dataclass(frozen=True, slots=True)
class OtherComponent:
    """What a negated leaf needs of one label.

    Args:
        tag: as in `Component`.
        value: x, the label's value as a scalar, masked for those who know the label.
        point: bytes of U = (H1(l)^x * H2(l))^s.
    """

    tag: bytes
    value: bytes
    point: bytes


@dataclass(frozen=True, slots=True)
class KpCiphertext:
    """An encapsulated secret.

    Args:
        mode: as in `PublicKey`.
        head: bytes of h^s.
        components: one an element, by ascending tag.
        others: one a label that can be negated, by ascending tag.
        check: proves to those who open it that no byte of the rest was changed.
    """

    mode: KpMode
    head: bytes
    components: tuple[Component, ...]
    others: tuple[OtherComponent, ...]
    check: bytes
