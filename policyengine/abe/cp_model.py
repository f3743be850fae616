"""Keys and ciphertexts of ciphertext-policy encryption, as values.

Who holds what: the authority the `CpMasterKey`; publishers the `CpPublicKey`; subscribers one
`CpUserKey` each. A broker holds none of them: the public key contains the naming key, without
which the broker cannot tell what a policy asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from policyengine.abe.group import G1, G2, GT
from policyengine.attributes.universe import Node

SECRET_BYTES: Final = 32
SALT_BYTES: Final = 16
TAG_BYTES: Final = 16
MAX_USES: Final = 4096
"""Most often that a key can have one element."""


@dataclass(frozen=True, slots=True)
class CpPublicKey:
    """What a publisher needs to encrypt; public among publishers, secret from brokers.

    Args:
        head: `h_A` of FAME, three points.
        masks: `e_gh_kA`, two elements of GT, the only ones that are ever sent: they come from
            the authority alone, in a signed message.
        naming: the key under which elements get their labels, 32 bytes.
        uses: how often one element may stand in a policy (or a term of its outermost OR).
    """

    head: tuple[G2, ...]
    masks: tuple[GT, ...]
    naming: bytes = field(repr=False)
    uses: int


@dataclass(frozen=True, slots=True)
class CpMasterKey:
    """What makes keys for subjects; the trusted authority's alone.

    Args:
        g: a point of G1.
        h: a point of G2.
        g_k: three points of G1.
        a: two scalars.
        b: two scalars.
        naming: as in `CpPublicKey`.
        uses: as in `CpPublicKey`.
    """

    g: G1 = field(repr=False)
    h: G2 = field(repr=False)
    g_k: tuple[G1, ...] = field(repr=False)
    a: tuple[int, ...] = field(repr=False)
    b: tuple[int, ...] = field(repr=False)
    naming: bytes = field(repr=False)
    uses: int


@dataclass(frozen=True, slots=True)
class KeyPart:
    """What a key has of one element.

    Args:
        label: the element's secret label, 32 bytes.
        points: for each use three points of G1.
    """

    label: bytes = field(repr=False)
    points: tuple[tuple[G1, ...], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CpUserKey:
    """What opens the ciphertexts whose policy a subject satisfies.

    Args:
        k_0: three points of G2.
        kp: three points of G1.
        parts: one an element of the subject, by ascending label.
    """

    k_0: tuple[G2, ...] = field(repr=False)
    kp: tuple[G1, ...] = field(repr=False)
    parts: tuple[KeyPart, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One encapsulation; a policy whose root is an OR may have several.

    Args:
        tree: the policy or some terms of its outermost OR; the value of a leaf's element is
            its tag in hexadecimal.
        head: bytes of `C_0`, three points of G2.
        rows: bytes of the three points of each leaf, from left to right.
        wrapped: the seed, hidden by the mask.
    """

    tree: Node
    head: bytes
    rows: tuple[bytes, ...]
    wrapped: bytes


@dataclass(frozen=True, slots=True)
class CpCiphertext:
    """An encapsulated secret.

    Args:
        salt: makes tags new in every ciphertext.
        sheets: one or more; any of them opens it.
        check: proves to those who open it that no byte of the rest was changed.
    """

    salt: bytes
    sheets: tuple[Sheet, ...]
    check: bytes
