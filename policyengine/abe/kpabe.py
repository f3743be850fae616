"""Key-policy attribute-based encryption of a secret (a KEM), large universe.

An event's elements and a scalar s give `h^s`, `E_a = H(a)^s` in G1 and the secret
`K = e(P,h)^(y s)`; a filter's key is y shared over its tree, `D = P^q(0) * H(b)^r` and
`R = h^r` a leaf. Opening moves the Lagrange coefficients into G1, so that n chosen leaves
cost n + 1 pairings: `K = e(prod D^c, h^s) * prod e(E_b^-c, R)`.

What a broker sees of a ciphertext: the mode, how many elements the event has, how many of
them stand under labels of strings (those get a second component, see `negation`), and random
bytes. Labels are secret (`kp_labels`), components stand in the order of their tags, and tags
and points are new in every ciphertext, so two ciphertexts of one event cannot be linked by
them. The trapdoors of the searchable scheme beside it do link equal elements and give their
number; only that some of them belong to strings they do not say.

Security is selective, against chosen plaintexts, under the bilinear Diffie-Hellman assumption
for type-3 pairings (mode `hash`: with random oracles). `check` makes a changed ciphertext fail
for those who can open the true one.

Source: paper 001, sections 5.1 to 5.3 and 5.5; Goyal, Pandey, Sahai and Waters (2006),
section 5, on a type-3 pairing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from hmac import compare_digest

from policyengine.abe import kp_polynomial
from policyengine.abe.group import (
    BASE_1,
    G1,
    G2,
    GT,
    base_1,
    base_2,
    decode_g1,
    decode_g2,
    encode_g1,
    encode_g2,
    gt_power,
    gt_secret,
    pair,
    pair_product,
    power,
    random_scalar,
)
from policyengine.abe.kp_labels import abscissa, point, shard, sigma, tag
from policyengine.abe.kp_leaves import check_supported, make_leaf
from policyengine.abe.kp_model import (
    SECRET_BYTES,
    Component,
    FilterKey,
    KpCiphertext,
    KpMasterKey,
    KpMode,
    LeafKey,
    NegatedLeaf,
    OtherComponent,
    PlainLeaf,
    PublicKey,
)
from policyengine.abe.kp_wire import MAX_COMPONENTS, checked_bytes
from policyengine.abe.negation import can_be_negated, difference, hide, unhide
from policyengine.abe.shares import plan, select, share
from policyengine.attributes.universe import NEVER, Element, Leaf, Node, leaves
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.primitives.prf import prf
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

_SECRET = b"portcullis/kpabe/secret/v1"
_CHECK = "portcullis/kpabe/check/v1"
_MISMATCH = "the ciphertext does not open"


def setup(
    mode: KpMode = "hash", *, elements: int = 64, random: RandomSource = SYSTEM_RANDOM
) -> KpMasterKey:
    """Make an authority's master key (Init, paper 001, section 5.1).

    Args:
        mode: `hash` (no bounds) or `polynomial` (the paper's T).
        elements: most elements of an event; counts in mode `polynomial` only, where it
            decides the size of the public key.
        random: source of all secrets.

    Raises:
        InputError: `invalid` for another mode or no elements, `too-large` for more elements
            than a ciphertext holds.
    """
    if mode not in ("hash", "polynomial"):
        raise InputError("invalid", "the mode is `hash` or `polynomial`")
    if elements < 1:
        raise InputError("invalid", "an event has at least one element")
    if elements > MAX_COMPONENTS:
        raise InputError("too-large", f"an event has at most {MAX_COMPONENTS} elements")
    degree, count = (0, 0) if mode == "hash" else kp_polynomial.sizes(elements)
    return KpMasterKey(
        mode,
        random_scalar(random),
        random.token(SECRET_BYTES),
        random.token(SECRET_BYTES),
        degree,
        count,
    )


def public_key(master: KpMasterKey) -> PublicKey:
    """Return what publishers need.

    Args:
        master: the authority's key.
    """
    polynomials = tuple(
        kp_polynomial.make(_logarithms(master.seed, number, master.degree))
        for number in range(master.polynomials)
    )
    return PublicKey(master.mode, base_2(master.secret), master.labelling, polynomials)


def keygen(master: KpMasterKey, tree: Node, random: RandomSource = SYSTEM_RANDOM) -> FilterKey:
    """Make the key of a filter (paper 001, section 5.3, step 2).

    Args:
        master: the authority's key.
        tree: the filter as an access tree; constants only at its root.
        random: source of the sharing.

    Raises:
        InputError: `unsupported` for a negated leaf in mode `polynomial`, `invalid` for a
            tree that is not well formed.
    """
    sharing = plan(tree)
    shares = share(sharing, master.secret, random)
    public = public_key(master) if master.mode == "hash" else None
    made = [
        _leaf_key(master, public, leaf, part, random_scalar(random))
        for leaf, part in zip(leaves(tree), shares, strict=True)
    ]
    return FilterKey(master.mode, sharing, tuple(made))


def encapsulate(
    public: PublicKey, elements: Iterable[Element], random: RandomSource = SYSTEM_RANDOM
) -> tuple[bytes, KpCiphertext]:
    """Make a secret that only keys of filters that hold for the elements recover.

    Args:
        public: the authority's public key.
        elements: everything true of the event (`elements_of`), one value a label.
        random: source of the secret.

    Returns:
        The secret (32 bytes, for `primitives.aead`), and what to send.

    Raises:
        InputError: `invalid` for no elements, a label with two values or the element that no
            event has, `too-large` for more elements than fit.
    """
    listed = sorted(set(elements))
    _check_elements(public, listed)
    return _encapsulate_with(public, listed, random_scalar(random))


def _encapsulate_with(
    public: PublicKey, elements: Sequence[Element], s: int
) -> tuple[bytes, KpCiphertext]:
    head = encode_g2(base_2(s))
    components = []
    for element in elements:
        label = sigma(public.labelling, element)
        hidden = power(point(public, element, label), s)
        components.append(Component(tag(label, head), encode_g1(hidden)))
    negatable = can_be_negated(elements) if public.mode == "hash" else []
    others = [hide(public.labelling, element, head, s) for element in negatable]
    blank = KpCiphertext(
        public.mode,
        head,
        tuple(sorted(components, key=lambda component: component.tag)),
        tuple(sorted(others, key=lambda component: component.tag)),
        b"",
    )
    secret, check = _derived(gt_power(_anchor(public.anchor), s), blank)
    return secret, replace(blank, check=check)


def decapsulate(key: FilterKey, ciphertext: KpCiphertext) -> bytes:
    """Recover the secret (paper 001, section 5.5).

    Args:
        key: a filter's key.
        ciphertext: from `encapsulate`.

    Returns:
        The 32 bytes that the publisher got.

    Raises:
        DecryptionError: the filter does not hold for the event, the ciphertext was changed,
            or it is another authority's; all look alike.
    """
    try:
        pairs = _pairs(key, ciphertext)
    except DecodeError:
        raise DecryptionError(_MISMATCH) from None
    secret, check = _derived(pair_product(pairs), ciphertext)
    if not compare_digest(check, ciphertext.check):
        raise DecryptionError(_MISMATCH)
    return secret


def pairings(key: FilterKey, ciphertext: KpCiphertext) -> int:
    """Return how many pairings an opening takes: the fewest leaves that suffice, and one.

    Args:
        key: a filter's key.
        ciphertext: from `encapsulate`.

    Raises:
        DecryptionError: as `decapsulate`, as far as it can be told without pairings.
    """
    try:
        return len(_pairs(key, ciphertext))
    except DecodeError:
        raise DecryptionError(_MISMATCH) from None


def _check_elements(public: PublicKey, elements: Sequence[Element]) -> None:
    if not elements:
        raise InputError("invalid", "an event has at least one element")
    if NEVER in elements:
        raise InputError("invalid", "an event cannot have the element that stands for never")
    labels = [element.label for element in elements]
    if len(set(labels)) != len(labels):
        raise InputError("invalid", "an event has one value a label")
    if len(elements) > MAX_COMPONENTS:
        raise InputError("too-large", f"an event has at most {MAX_COMPONENTS} elements")
    if public.mode == "polynomial":
        count = len(public.polynomials)
        used = Counter(shard(public.labelling, element, count) for element in elements)
        # INVARIANT: no polynomial serves more elements of an event than its degree.
        if max(used.values()) > public.polynomials[0].degree:
            raise InputError("too-large", "the event has more elements than the key was made for")


def _leaf_key(
    master: KpMasterKey, public: PublicKey | None, leaf: Leaf, part: int, r: int
) -> LeafKey:
    if public is not None:
        return make_leaf(public, leaf, part, r)
    check_supported(master.mode, leaf)
    label = sigma(master.labelling, leaf.element)
    number = shard(master.labelling, leaf.element, master.polynomials)
    logs = _logarithms(master.seed, number, master.degree)
    # The same as P^q(0) * T(b)^r, for the one who knows the logarithm of T(b).
    log = kp_polynomial.exponent(logs, abscissa(label))
    return PlainLeaf(label, base_1(part + r * log), base_2(r))


def _pairs(key: FilterKey, ciphertext: KpCiphertext) -> list[tuple[G1, G2]]:
    """Choose leaves, and return the pairs whose pairings multiply to K."""
    if key.mode != ciphertext.mode:
        raise DecryptionError(_MISMATCH)
    found, others = _found(key, ciphertext)
    usable = [place in found or place in others for place in range(len(key.leaves))]
    chosen = select(key.sharing, usable)
    if chosen is None:
        raise DecryptionError(_MISMATCH)
    with_head, pairs = G1(), []
    for number, weight in chosen:
        leaf = key.leaves[number]
        if isinstance(leaf, PlainLeaf):
            with_head = with_head + power(leaf.d, weight)
            pairs.append((power(decode_g1(found[number].point), -weight), leaf.r))
        else:
            component, between = others[number]
            first, second = unhide(leaf, component, between, weight)
            with_head = with_head + first
            pairs.append((second, leaf.r))
    return [(with_head, decode_g2(ciphertext.head)), *pairs]


def _found(
    key: FilterKey, ciphertext: KpCiphertext
) -> tuple[dict[int, Component], dict[int, tuple[OtherComponent, int]]]:
    """Find the components of the key's leaves; of negated ones those with another value."""
    by_tag = {component.tag: component for component in ciphertext.components}
    others_by_tag = {component.tag: component for component in ciphertext.others}
    found: dict[int, Component] = {}
    others: dict[int, tuple[OtherComponent, int]] = {}
    for place, leaf in enumerate(key.leaves):
        wanted = tag(leaf.label, ciphertext.head)
        if isinstance(leaf, NegatedLeaf):
            if other := others_by_tag.get(wanted):
                between = difference(leaf, other, ciphertext.head)
                if between:
                    others[place] = other, between
        elif component := by_tag.get(wanted):
            found[place] = component
    return found, others


def _derived(element: GT, ciphertext: KpCiphertext) -> tuple[bytes, bytes]:
    """Return the secret, and the proof that the rest of the ciphertext is unchanged."""
    both = gt_secret(element, info=_SECRET, size=2 * SECRET_BYTES)
    check = prf(both[SECRET_BYTES:], _CHECK, checked_bytes(ciphertext))
    return both[:SECRET_BYTES], check


@lru_cache(maxsize=64)
def _anchor(anchor: G2) -> GT:
    """Return e(P, h)^y; a publisher needs it for every event."""
    return pair(BASE_1, anchor)


@lru_cache(maxsize=1024)
def _logarithms(seed: bytes, number: int, degree: int) -> list[int]:
    return kp_polynomial.logarithms(seed, number, degree)
