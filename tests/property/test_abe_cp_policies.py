"""Ciphertext-policy encryption and the group under Charm, against their plain meaning."""

from __future__ import annotations

import random as plain_random
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from policyengine.abe import cp_wire, cpabe
from policyengine.abe.charm_element import Element as Charm
from policyengine.abe.charm_group import G1, G2, GT, ZR, charm_group, pair
from policyengine.abe.charm_policy import span_rows
from policyengine.abe.group import ORDER
from policyengine.abe.shares import plan, select
from policyengine.attributes import (
    Element,
    Gate,
    Leaf,
    Node,
    access_tree,
    evaluate,
    leaves,
)
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.primitives import SeededRandom
from tests.support.policy_strategies import SCHEMA, described, expressions, values

GROUP = charm_group()
MASTER = cpabe.setup(uses=64, random=SeededRandom(b"authority"))
PUBLIC = cpabe.public_key(MASTER)
SCALARS = st.integers(-ORDER, ORDER) | st.integers(-3, 3)
BASES = {kind: GROUP.random(kind) for kind in (G1, G2, GT)}


@settings(max_examples=60, deadline=None)
@given(expressions(6), values())
def test_a_payload_opens_exactly_where_the_policy_holds(expression: Any, given_: Any) -> None:
    note(described(expression, given_))
    tree = access_tree(expression, SCHEMA)
    if any(leaf.negated for leaf in leaves(tree)):
        with pytest.raises(InputError):
            cpabe.cpabe_open(expression, given_, SCHEMA, b"payload")
        return
    try:
        opened = cpabe.cpabe_open(expression, given_, SCHEMA, b"payload")
    except DecryptionError:
        assert not evaluate(expression, given_)
    else:
        assert opened == b"payload"
        assert evaluate(expression, given_)


def trees() -> st.SearchStrategy[Node]:
    """Trees of every kind of gate, elements repeated."""
    leaf = st.sampled_from([Leaf(Element(name, "1")) for name in "abcdef"])

    def gates(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        return st.lists(inner, min_size=2, max_size=5).flatmap(
            lambda terms: st.integers(1, len(terms)).map(lambda count: Gate(count, tuple(terms)))
        )

    return st.recursive(leaf, gates, max_leaves=14)


@settings(max_examples=150, deadline=None)
@given(trees(), st.integers(0, 2**14))
def test_chosen_rows_add_up_to_the_first_unit(tree: Node, usable: int) -> None:
    sharing = plan(tree)
    rows, width = span_rows(sharing)
    had = [bool(usable >> number & 1) for number in range(len(rows))]
    chosen = select(sharing, had)
    if chosen is None:
        # nothing else may add up to it either: some vector with first entry 1 meets all rows
        assert _independent([row for row, one in zip(rows, had, strict=True) if one], width)
        return
    total = [0] * width
    for number, weight in chosen:
        assert had[number]
        for column, entry in rows[number].items():
            total[column] = (total[column] + weight * entry) % ORDER
    assert total == [1] + [0] * (width - 1)


def _independent(rows: list[dict[int, int]], width: int) -> bool:
    """Gauss: is (1, 0, ..., 0) outside what the rows span?"""
    pivots: dict[int, list[int]] = {}

    def reduced(vector: list[int]) -> list[int]:
        for column, pivot in sorted(pivots.items(), reverse=True):
            factor = vector[column]
            vector = [(a - factor * b) % ORDER for a, b in zip(vector, pivot, strict=True)]
        return vector

    def lead(vector: list[int]) -> int | None:
        return next((at for at in reversed(range(width)) if vector[at]), None)

    for row in rows:
        vector = [row.get(column, 0) % ORDER for column in range(width)]
        while (column := lead(vector)) is not None and column in pivots:
            factor = vector[column]
            vector = [(a - factor * b) % ORDER for a, b in zip(vector, pivots[column], strict=True)]
        if column is not None:
            inverse = pow(vector[column], -1, ORDER)
            pivots[column] = [entry * inverse % ORDER for entry in vector]
    return any(reduced([1] + [0] * (width - 1)))


@settings(max_examples=40, deadline=None)
@given(trees(), st.sets(st.sampled_from("abcdef")))
def test_every_gate_opens_as_it_says(tree: Node, had: set[str]) -> None:
    elements = [Element(name, "1") for name in had]
    key = cpabe._keygen(MASTER, dict.fromkeys(elements, 14), SeededRandom(b"key"))
    secret, ciphertext = cpabe.encapsulate(PUBLIC, tree)
    again = cp_wire.decode_cp_ciphertext(cp_wire.encode_cp_ciphertext(ciphertext))
    assert again == ciphertext
    if _holds(tree, had):
        assert cpabe.decapsulate(key, again) == secret
    else:
        with pytest.raises(DecryptionError):
            cpabe.decapsulate(key, again)


def _holds(tree: Node, had: set[str]) -> bool:
    if isinstance(tree, Leaf):
        return tree.element.label in had
    return sum(_holds(term, had) for term in tree.terms) >= tree.count


ELEMENTS = {Element(name, "1"): 3 for name in "abc"}
KEY = cpabe._keygen(MASTER, ELEMENTS, SeededRandom(b"key"))
A, B, C, D = (Leaf(Element(name, "1")) for name in "abcd")
CIPHERTEXT = cp_wire.encode_cp_ciphertext(
    cpabe.encapsulate(PUBLIC, Gate(1, (Gate(2, (A, B, D)), C)), SeededRandom(b"c"))[1]
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(CIPHERTEXT) * 8 - 1))
def test_a_flipped_bit_never_opens(bit: int) -> None:
    changed = bytearray(CIPHERTEXT)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises((DecodeError, DecryptionError)):
        cpabe.decapsulate(KEY, cp_wire.decode_cp_ciphertext(bytes(changed)))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_junk_is_never_read(junk: bytes) -> None:
    decoders: list[Any] = [
        cp_wire.decode_cp_master,
        cp_wire.decode_cp_public,
        cp_wire.decode_cp_user,
        cp_wire.decode_cp_ciphertext,
        GROUP.deserialize,
    ]
    for decode in decoders:
        with pytest.raises(DecodeError):
            decode(junk)
        with pytest.raises(DecodeError):
            decode(CIPHERTEXT[:20] + junk)


@settings(max_examples=40, deadline=None)
@given(SCALARS, SCALARS)
def test_pairing_is_bilinear(a: int, b: int) -> None:
    x, y = GROUP.init(ZR, a), GROUP.init(ZR, b)
    p, q = BASES[G1], BASES[G2]
    expected = pair(p, q) ** (x * y)
    assert pair(p**x, q**y) == expected == pair(p**y, q**x) == pair(p, q**x) ** y
    assert pair(p**x * p**y, q) == pair(p, q) ** (x + y)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([G1, G2, GT]), SCALARS, SCALARS)
def test_laws_of_the_groups(kind: int, a: int, b: int) -> None:
    base = BASES[kind]
    x, y, one = base**a, base**b, GROUP.init(kind)
    assert x * y == y * x == base ** (a + b)
    assert x / y == base ** (a - b) == x * ~y
    assert x * one == x
    assert x * ~x == one == 1 / x * x if kind == ZR else x * ~x == one
    assert (x**b) == base ** (a * b)
    assert hash(x * y) == hash(y * x)
    if kind != GT:
        assert x + y == x * y
        assert x - y == x / y
        assert -x == ~x
    if (a - b) % ORDER:
        assert x != y


@settings(max_examples=100, deadline=None)
@given(SCALARS, SCALARS, st.integers(-5, 70))
def test_scalars_are_a_field(a: int, b: int, n: int) -> None:
    x, y = GROUP.init(ZR, a), GROUP.init(ZR, b)
    assert int(x + y) == int(a + y) == int(x + b) == (a + b) % ORDER
    assert int(x - y) == int(a - y) == int(x - b) == (a - b) % ORDER
    assert int(x * y) == int(a * y) == int(x * b) == a * b % ORDER
    assert int(-x) == -a % ORDER
    if b % ORDER:
        assert (x / y) * y == x == (a / y) * b
        assert x / b == x / y
        assert ~y == 1 / y
        assert int(y**n) == pow(b, n, ORDER)
    assert isinstance(x, Charm)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_everything_comes_from_the_source(seed: int) -> None:
    state = plain_random.getstate()
    source = seed.to_bytes(8, "big")
    first, second = (
        cp_wire.encode_cp_master(cpabe.setup(random=SeededRandom(source))) for _ in range(2)
    )
    assert first == second
    assert plain_random.getstate() == state
