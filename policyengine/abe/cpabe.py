"""Ciphertext-policy attribute-based encryption of a secret (a KEM): policies on payloads.

The scheme is FAME, by Charm's AC17 (`fame`); what is added here is what a product needs:
policies are access trees, elements are found by secret labels, repeated elements are other
attributes (`charm_policy` says why), the outermost OR is spread over *sheets*, so that a
disjunction may repeat its elements as often as it likes, and a changed ciphertext fails.

What a broker sees of a ciphertext: the shape of the policy, and which of its leaves ask for
the same. Tags are new in every ciphertext, so it can neither link two of them nor test a
guess of an attribute, for which it lacks the naming key; who has that key (a publisher) can.

Source: paper 001, section 5.2, step 1, and section 5.5; Agrawal and Chase (2017), section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hmac import compare_digest
from typing import Any, Final

from policyengine.abe.charm_element import G1 as KIND_G1
from policyengine.abe.charm_element import G2 as KIND_G2
from policyengine.abe.charm_element import ZR as KIND_ZR
from policyengine.abe.charm_element import Element as Charm
from policyengine.abe.charm_policy import (
    check_leaves,
    element_name,
    program_names,
    span_rows,
    uses,
)
from policyengine.abe.cp_model import (
    MAX_USES,
    SALT_BYTES,
    SECRET_BYTES,
    TAG_BYTES,
    CpCiphertext,
    CpMasterKey,
    CpPublicKey,
    CpUserKey,
    KeyPart,
    Sheet,
)
from policyengine.abe.cp_wire import (
    MAX_SHEETS,
    checked_cp_bytes,
    decode_cp_ciphertext,
    encode_cp_ciphertext,
    points_of_head,
    points_of_row,
    tagged_leaf,
)
from policyengine.abe.fame import charm_scheme, encapsulate_points, recover
from policyengine.abe.group import G1, GT, encode_g1, encode_g2, gt_secret, pair, power
from policyengine.abe.hybrid import open_, seal
from policyengine.abe.shares import plan, select
from policyengine.attributes.syntax import Expression
from policyengine.attributes.types import Schema, Value
from policyengine.attributes.universe import (
    MAX_LEAVES,
    Element,
    Gate,
    Leaf,
    Node,
    access_tree,
    elements_of,
    leaves,
)
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.primitives.kdf import derive
from policyengine.primitives.prf import prf
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

DEFAULT_USES: Final = 4
_LABEL: Final = "portcullis/cpabe/label/v1"
_TAG: Final = "portcullis/cpabe/tag/v1"
_CHECK: Final = "portcullis/cpabe/check/v1"
_WRAP: Final = b"portcullis/cpabe/wrap/v1"
_SECRET: Final = b"portcullis/cpabe/secret/v1"
_MISMATCH: Final = "the ciphertext does not open"


def setup(*, uses: int = DEFAULT_USES, random: RandomSource = SYSTEM_RANDOM) -> CpMasterKey:
    """Make an authority's master key (Init, paper 001, section 5.1).

    Args:
        uses: how often one element may stand in a policy; in one that is an OR, in each of
            its terms. Keys grow with it, ciphertexts do not.
        random: source of all secrets.

    Raises:
        InputError: `invalid` for less than one use, `too-large` for over `MAX_USES`.
    """
    if uses < 1:
        raise InputError("invalid", "an element has one use at least")
    if uses > MAX_USES:
        raise InputError("too-large", f"an element has at most {MAX_USES} uses")
    _, made = charm_scheme(random).setup()
    return CpMasterKey(
        made["g"].value,
        made["h"].value,
        tuple(point.value for point in made["g_k"]),
        tuple(scalar.value for scalar in made["A"]),
        tuple(scalar.value for scalar in made["B"]),
        random.token(SECRET_BYTES),
        uses,
    )


def public_key(master: CpMasterKey) -> CpPublicKey:
    """Return what publishers need.

    Args:
        master: the authority's key.
    """
    last = master.g_k[-1]
    return CpPublicKey(
        (*(power(master.h, scalar) for scalar in master.a), master.h),
        tuple(
            pair(power(point, scalar) + last, master.h)
            for point, scalar in zip(master.g_k[:-1], master.a, strict=True)
        ),
        master.naming,
        master.uses,
    )


def keygen(
    master: CpMasterKey,
    values: dict[str, Value],
    schema: Schema,
    random: RandomSource = SYSTEM_RANDOM,
) -> CpUserKey:
    """Make the key of a subject.

    Args:
        master: the authority's key.
        values: the subject's attributes, checked (`check_values`); some may be absent.
        schema: all attributes that a policy may name; absence counts as well.
        random: source of the key.
    """
    return _keygen(master, dict.fromkeys(elements_of(values, schema), master.uses), random)


def keygen_of(
    master: CpMasterKey, elements: Iterable[Element], random: RandomSource = SYSTEM_RANDOM
) -> CpUserKey:
    """Make the key of a subject of which the elements themselves are known.

    Args:
        master: the authority's key.
        elements: what policies may ask for.
        random: source of the key.
    """
    return _keygen(master, dict.fromkeys(elements, master.uses), random)


def payload_policy(expression: Expression, schema: Schema) -> Node:
    """Turn an expression over a subject's attributes into a policy.

    Raises:
        InputError: `unsupported` for a negated test of an open string, and as `access_tree`.
    """
    tree = access_tree(expression, schema)
    check_leaves(tree)
    return tree


def encapsulate(
    public: CpPublicKey, policy: Node, random: RandomSource = SYSTEM_RANDOM
) -> tuple[bytes, CpCiphertext]:
    """Make a secret that only keys of subjects that satisfy the policy recover.

    Args:
        public: the authority's public key.
        policy: from `payload_policy`.
        random: source of the secret.

    Returns:
        The secret (32 bytes, for `hybrid.seal`), and what to send.

    Raises:
        InputError: `unsupported` for a negated leaf, `too-large` when the policy repeats an
            element more often than keys have it, or has too many leaves, `invalid` for a
            tree that is not well formed.
    """
    check_leaves(policy)
    plan(policy)
    if sum(1 for _ in leaves(policy)) > MAX_LEAVES:
        raise InputError("too-large", f"a policy has at most {MAX_LEAVES} leaves")
    salt, seed = random.token(SALT_BYTES), random.token(SECRET_BYTES)
    sheets = [_sheet(public, tree, salt, seed, random) for tree in _trees(policy, public.uses)]
    blank = CpCiphertext(salt, tuple(sheets), b"")
    secret, check = _derived(seed, blank)
    return secret, replace(blank, check=check)


def decapsulate(key: CpUserKey, ciphertext: CpCiphertext) -> bytes:
    """Recover the secret (paper 001, section 5.5, last paragraph).

    Args:
        key: a subject's key.
        ciphertext: from `encapsulate`.

    Returns:
        The 32 bytes that the publisher got.

    Raises:
        DecryptionError: the subject does not satisfy the policy, the ciphertext was changed,
            or it is another authority's; all look alike.
    """
    try:
        seed = _seed(key, ciphertext)
    except DecodeError:
        raise DecryptionError(_MISMATCH) from None
    secret, check = _derived(seed, ciphertext)
    if not compare_digest(check, ciphertext.check):
        raise DecryptionError(_MISMATCH)
    return secret


def cpabe_open(
    policy_expression: Expression,
    subject_values: dict[str, Value],
    schema: Schema,
    payload: bytes,
    random: RandomSource = SYSTEM_RANDOM,
) -> bytes:
    """Send a payload through everything once: authority, publisher, bytes, subscriber.

    All keys are new. The subject gets those of its elements that the policy asks for, as
    often as it does, for a key with more of them opens the same.

    Args:
        policy_expression: the policy on the payload.
        subject_values: the subject's attributes, checked.
        schema: their declarations.
        payload: what is sent.
        random: source of all keys.

    Returns:
        What the subject reads.

    Raises:
        DecryptionError: the subject does not satisfy the policy.
        InputError: as `payload_policy`.
    """
    policy = payload_policy(policy_expression, schema)
    wanted: Counter[Element] = Counter()
    for tree in _terms(policy):
        wanted |= Counter(leaf.element for leaf in leaves(tree))
    master = setup(uses=max(wanted.values()), random=random)
    had = {one: wanted[one] for one in elements_of(subject_values, schema) if one in wanted}
    key = _keygen(master, had, random)
    secret, ciphertext = encapsulate(public_key(master), policy, random)
    header = encode_cp_ciphertext(ciphertext)
    sealed = seal(secret, payload, header, random=random)
    return open_(decapsulate(key, decode_cp_ciphertext(header)), sealed, header)


def _keygen(
    master: CpMasterKey, elements: Mapping[Element, int], random: RandomSource
) -> CpUserKey:
    """Make a key for elements, each for so many uses."""
    scheme = charm_scheme(random)
    labels = sorted((_label(master.naming, element), uses) for element, uses in elements.items())
    names = {
        label: [element_name(_labelled(label), use) for use in range(uses)]
        for label, uses in labels
    }
    made = scheme.keygen(
        None,  # Charm's public key, which its keygen does not look at
        _charm_master(master),
        [name for several in names.values() for name in several],
    )
    parts = [
        KeyPart(label, tuple(_values(made["K"][name]) for name in several))
        for label, several in names.items()
    ]
    return CpUserKey(_values(made["K_0"]), _values(made["Kp"]), tuple(parts))


def _charm_master(master: CpMasterKey) -> dict[str, Any]:
    return {
        "g": Charm(KIND_G1, master.g),
        "h": Charm(KIND_G2, master.h),
        "g_k": [Charm(KIND_G1, point) for point in master.g_k],
        "A": [Charm(KIND_ZR, scalar) for scalar in master.a],
        "B": [Charm(KIND_ZR, scalar) for scalar in master.b],
    }


def _values(elements: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(element.value for element in elements)


def _label(naming: bytes, element: Element) -> bytes:
    """Return an element's secret label: without the naming key nobody can test a guess."""
    return prf(naming, _LABEL, element.token)


def _labelled(label: bytes) -> Element:
    """Return a label as an element, so that names are made of labels, not of attributes."""
    return Element("label", label.hex())


def _tag(label: bytes, salt: bytes) -> bytes:
    return prf(label, _TAG, salt, size=TAG_BYTES)


def _terms(policy: Node) -> Sequence[Node]:
    return policy.terms if isinstance(policy, Gate) and policy.count == 1 else (policy,)


def _trees(policy: Node, limit: int) -> list[Node]:
    """Spread the terms of the outermost OR, so that no tree repeats an element too often.

    Each tree is encapsulated by itself, with randomness of its own: what opens one opens
    all, which is an OR. (An AND could not be spread so: two subjects would open a half each.)
    """
    sheets: list[tuple[list[Node], Counter[Element]]] = []
    for term in _terms(policy):
        counted = Counter(leaf.element for leaf in leaves(term))
        if max(counted.values()) > limit:
            raise InputError(
                "too-large",
                f"the policy repeats a test {max(counted.values())} times in one term; keys have"
                f" it {limit} times",
            )
        for terms, already in sheets:
            if all(already[element] + count <= limit for element, count in counted.items()):
                terms.append(term)
                already.update(counted)
                break
        else:
            sheets.append(([term], counted))
    if len(sheets) > MAX_SHEETS:
        raise InputError("too-large", f"a policy has at most {MAX_SHEETS} sheets")
    return [terms[0] if len(terms) == 1 else Gate(1, tuple(terms)) for terms, _ in sheets]


def _sheet(
    public: CpPublicKey, tree: Node, salt: bytes, seed: bytes, random: RandomSource
) -> Sheet:
    labels = {leaf.element: _label(public.naming, leaf.element) for leaf in leaves(tree)}
    named = _mapped(tree, {one: Leaf(_labelled(label)) for one, label in labels.items()})
    mask, head, points = encapsulate_points(
        public.head, public.masks, program_names(named), span_rows(plan(named))[0], random
    )
    return Sheet(
        _mapped(tree, {one: tagged_leaf(_tag(label, salt)) for one, label in labels.items()}),
        b"".join(encode_g2(point) for point in head),
        tuple(b"".join(encode_g1(point) for point in row) for row in points),
        _wrapped(mask, seed),
    )


def _mapped(tree: Node, leaf_of: Mapping[Element, Leaf]) -> Node:
    if isinstance(tree, Leaf):
        return leaf_of[tree.element]
    mapped = []
    for term in tree.terms:
        mapped.append(_mapped(term, leaf_of))  # noqa: PERF401 (spares a frame a level)
    return Gate(tree.count, tuple(mapped))


def _wrapped(mask: GT, seed: bytes) -> bytes:
    """Hide a seed, or uncover it: exclusive or with what the mask gives."""
    stream = gt_secret(mask, info=_WRAP, size=SECRET_BYTES)
    return bytes(one ^ other for one, other in zip(seed, stream, strict=True))


def _derived(seed: bytes, ciphertext: CpCiphertext) -> tuple[bytes, bytes]:
    """Return the secret, and the proof that the rest of the ciphertext is unchanged."""
    both = derive(seed, info=_SECRET, size=2 * SECRET_BYTES)
    check = prf(both[SECRET_BYTES:], _CHECK, checked_cp_bytes(ciphertext))
    return both[:SECRET_BYTES], check


def _seed(key: CpUserKey, ciphertext: CpCiphertext) -> bytes:
    by_tag = {_tag(part.label, ciphertext.salt).hex(): part for part in key.parts}
    for sheet in ciphertext.sheets:
        chosen = _chosen(by_tag, sheet)
        if chosen is not None:
            mask = recover(key.k_0, key.kp, points_of_head(sheet.head), chosen)
            return _wrapped(mask, sheet.wrapped)
    raise DecryptionError(_MISMATCH)


def _chosen(
    by_tag: Mapping[str, KeyPart], sheet: Sheet
) -> list[tuple[int, tuple[G1, ...], tuple[G1, ...]]] | None:
    """Choose the rows that the key opens: coefficient, points of the key, of the row."""
    had: list[tuple[G1, ...] | None] = []
    for leaf, use in zip(leaves(sheet.tree), uses(sheet.tree), strict=True):
        part = by_tag.get(leaf.element.value)
        had.append(part.points[use] if part is not None and use < len(part.points) else None)
    weighted = select(plan(sheet.tree), [points is not None for points in had])
    if weighted is None:
        return None
    found = []
    for number, weight in weighted:
        points = had[number]
        assert points is not None  # only such were chosen
        found.append((weight, points, points_of_row(sheet.rows[number])))
    return found
