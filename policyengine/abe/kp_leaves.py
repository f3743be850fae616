"""Leaves of keys: made, and added up."""

from __future__ import annotations

from dataclasses import replace

from policyengine.abe.group import base_1, base_2, power
from policyengine.abe.kp_labels import point, sigma
from policyengine.abe.kp_model import KpMode, LeafKey, NegatedLeaf, PlainLeaf, PublicKey
from policyengine.abe.negation import negated_leaf
from policyengine.attributes.universe import Leaf
from policyengine.errors import InputError


def check_supported(mode: KpMode, leaf: Leaf) -> None:
    """Refuse a leaf that a mode cannot serve.

    Args:
        mode: of the keys.
        leaf: of a filter's tree.

    Raises:
        InputError: `unsupported` for a negated leaf in mode `polynomial`.
    """
    if leaf.negated and mode == "polynomial":
        raise InputError(
            "unsupported",
            "a negated test of an open string needs the mode `hash`",
            where=leaf.element.label,
        )


def make_leaf(public: PublicKey, leaf: Leaf, share: int, r: int) -> LeafKey:
    """Make the key of a leaf with a known share (paper 001, section 5.3, step 2).

    Args:
        public: the public key.
        leaf: what it asks for.
        share: q(0).
        r: a fresh scalar.

    Raises:
        InputError: `unsupported` as in `check_supported`.
    """
    check_supported(public.mode, leaf)
    if leaf.negated:
        return negated_leaf(public.labelling, leaf.element, share, r)
    label = sigma(public.labelling, leaf.element)
    hashed = point(public, leaf.element, label)
    return PlainLeaf(label, base_1(share) + power(hashed, r), base_2(r))


def add(leaf: LeafKey, other: LeafKey, factor: int) -> LeafKey:
    """Add a multiple of another key of the same leaf; the shares add up as well.

    Args:
        leaf: the one.
        other: the other.
        factor: what the other is multiplied by.

    Raises:
        InputError: `invalid` when they are not keys of the same leaf by the same authority.
    """
    if leaf.label != other.label:
        raise InputError("invalid", "the key and the public key are of different authorities")
    d, r = leaf.d + power(other.d, factor), leaf.r + power(other.r, factor)
    if isinstance(leaf, NegatedLeaf) and isinstance(other, NegatedLeaf):
        return replace(leaf, d=d, r=r, other=leaf.other + power(other.other, factor))
    return replace(leaf, d=d, r=r)
