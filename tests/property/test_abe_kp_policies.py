"""A key opens an event exactly when the policy holds for its values."""

from __future__ import annotations

from functools import lru_cache

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from policyengine.abe import (
    KpMasterKey,
    KpMode,
    decapsulate,
    decode_ciphertext,
    decode_filter_key,
    delegate,
    encapsulate,
    encode_ciphertext,
    encode_filter_key,
    keygen,
    public_key,
    setup,
)
from policyengine.abe.negation import can_be_negated
from policyengine.attributes import (
    Element,
    Expression,
    Gate,
    Leaf,
    Node,
    Value,
    access_tree,
    elements_of,
    evaluate,
    leaves,
    satisfied,
)
from policyengine.errors import DecryptionError, InputError
from tests.support.policy_strategies import SCHEMA, described, expressions, values

SMALL = ("small", "unit", "on")
"""Attributes whose events fit the small polynomial: 16 elements at most."""
LETTERS = [Element(letter, "1") for letter in "abcd"]


@lru_cache
def authority(mode: KpMode) -> KpMasterKey:
    return setup(mode, elements=16)


def _opens(master: KpMasterKey, tree: Node, elements: tuple[Element, ...]) -> bool:
    key = decode_filter_key(encode_filter_key(keygen(master, tree)))
    secret, sent = encapsulate(public_key(master), elements)
    ciphertext = decode_ciphertext(encode_ciphertext(sent))
    if not satisfied(tree, elements):
        with pytest.raises(DecryptionError):
            decapsulate(key, ciphertext)
        return False
    assert decapsulate(key, ciphertext) == secret
    return True


@settings(max_examples=25, deadline=None)
@given(expressions(5), values())
def test_opens_exactly_when_the_policy_holds(
    expression: Expression, event: dict[str, Value]
) -> None:
    note(described(expression, event))
    tree = access_tree(expression, SCHEMA)
    elements = elements_of(event, SCHEMA)
    assert _opens(authority("hash"), tree, elements) == evaluate(expression, event)


@settings(max_examples=15, deadline=None)
@given(expressions(5), values())
def test_the_same_with_the_papers_polynomial(
    expression: Expression, event: dict[str, Value]
) -> None:
    given_values = {name: value for name, value in event.items() if name in SMALL}
    note(described(expression, given_values))
    tree = access_tree(expression, SCHEMA)
    if any(leaf.negated for leaf in leaves(tree)):
        with pytest.raises(InputError, match="needs the mode"):
            keygen(authority("polynomial"), tree)
        return
    elements = elements_of(given_values, SCHEMA)
    opened = _opens(authority("polynomial"), tree, elements)
    assert opened == evaluate(expression, given_values)


@settings(max_examples=150, deadline=None)
@given(expressions(), values())
def test_every_negated_leaf_can_be_met(expression: Expression, event: dict[str, Value]) -> None:
    elements = elements_of(event, SCHEMA)
    ready = {element.label for element in can_be_negated(elements)}
    present = {element.label for element in elements}
    for leaf in leaves(access_tree(expression, SCHEMA)):
        if leaf.negated and leaf.element.label in present:
            assert leaf.element.label in ready


def _trees() -> st.SearchStrategy[Node]:
    leaf: st.SearchStrategy[Node] = st.sampled_from([Leaf(element) for element in LETTERS])

    def gate(terms: list[Node]) -> st.SearchStrategy[Node]:
        return st.integers(1, len(terms)).map(lambda count: Gate(count, tuple(terms)))

    return st.recursive(
        leaf, lambda inner: st.lists(inner, min_size=2, max_size=4).flatmap(gate), max_leaves=6
    )


@settings(max_examples=60, deadline=None)
@given(_trees(), _trees(), st.sets(st.sampled_from(LETTERS), min_size=1))
def test_a_derived_key_opens_what_its_tree_allows_and_no_more(
    old: Node, new: Node, present: set[Element]
) -> None:
    master = authority("hash")
    wide, public = keygen(master, old), public_key(master)
    try:
        narrow = delegate(public, wide, new)
    except InputError as error:
        assert error.kind == "invalid"  # noqa: PT017
        assert old != new
        return
    secret, sent = encapsulate(public, present)
    if satisfied(new, present):
        assert satisfied(old, present)
        assert decapsulate(narrow, sent) == secret
    else:
        with pytest.raises(DecryptionError):
            decapsulate(narrow, sent)
