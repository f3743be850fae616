"""From elements to secret labels, and from labels to points of G1.

Correction of paper 001, section 5.2: with `E_a = H(a)^s` of a plain attribute a broker tests
a guess by `e(H(a), h^s) = e(E_a, h)`. So nothing but `sigma_a = PRF_s1(a)` goes into H (and
into T), and s1 never reaches a broker.

A component's tag is a PRF under sigma_a of the ciphertext's head: a subscriber finds the
components of its own leaves by look-up, and the tags of one element in two ciphertexts have
nothing in common for anybody else.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from policyengine.abe.group import G1, hash_to_g1, scalar_of
from policyengine.abe.kp_model import TAG_BYTES, PublicKey
from policyengine.attributes.universe import Element
from policyengine.primitives.prf import prf

_ELEMENT: Final = "portcullis/kpabe/element/v1"
_SCALAR: Final = "portcullis/kpabe/scalar/v1"
_SHARD: Final = "portcullis/kpabe/shard/v1"
_TAG: Final = "portcullis/kpabe/tag/v1"


def sigma(labelling: bytes, element: Element) -> bytes:
    """Return sigma_a, the secret label of an element (32 bytes).

    Args:
        labelling: s1.
        element: what is labelled.
    """
    return prf(labelling, _ELEMENT, element.token)


def tag(label: bytes, head: bytes) -> bytes:
    """Return the tag of a component in the ciphertext with this head.

    Args:
        label: sigma_a, or a label's secret name.
        head: bytes of h^s.
    """
    return prf(label, _TAG, head, size=TAG_BYTES)


@lru_cache(maxsize=8192)
def oracle(label: bytes) -> G1:
    """Return H(a) for a secret label; publishers meet the same elements again and again."""
    return hash_to_g1(_ELEMENT, label)


def abscissa(label: bytes) -> int:
    """Return the scalar x at which T is taken for a secret label."""
    return scalar_of(prf(label, _SCALAR, size=64))


def shard(labelling: bytes, element: Element, polynomials: int) -> int:
    """Return the number of the polynomial that serves an element.

    Args:
        labelling: s1.
        element: only its label counts, so that both sides of a negation agree.
        polynomials: how many there are.
    """
    return int.from_bytes(prf(labelling, _SHARD, element.label), "big") % polynomials


def point(public: PublicKey, element: Element, label: bytes) -> G1:
    """Return the point of an element: H(a), or T(a) in mode `polynomial`.

    Args:
        public: the public key.
        element: the element.
        label: its sigma.
    """
    if public.mode == "hash":
        return oracle(label)
    number = shard(public.labelling, element, len(public.polynomials))
    return public.polynomials[number].at(abscissa(label))
