"""Sharing over trees."""

from __future__ import annotations

import itertools

import pytest

from policyengine.abe.group import ORDER, random_scalar
from policyengine.abe.shares import MAX_DEPTH, Sharing, lagrange, plan, select, share
from policyengine.attributes import Gate, Leaf, Node, leaves, satisfied
from policyengine.errors import InputError
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.unit.engine_abe_kp.samples import A, B, C, D, E, both, either, leaf

TREES: list[Node] = [
    leaf(A),
    both(leaf(A), leaf(B)),
    either(leaf(A), leaf(B), leaf(C)),
    Gate(2, (leaf(A), leaf(B), leaf(C))),
    Gate(3, (leaf(A), both(leaf(B), leaf(C)), leaf(D), Gate(2, (leaf(A), leaf(D), leaf(E))))),
    either(both(leaf(A), leaf(B), leaf(C)), both(leaf(D), Gate(2, (leaf(A), leaf(B), leaf(E))))),
]


@pytest.mark.parametrize("tree", TREES)
def test_satisfied_sets_give_the_secret_and_the_fewest_leaves(tree: Node) -> None:
    secret = random_scalar(SYSTEM_RANDOM)
    sharing = plan(tree)
    parts = share(sharing, secret, SYSTEM_RANDOM)
    asked = [one.element for one in leaves(tree)]
    for size in range(6):
        for present in itertools.combinations((A, B, C, D, E), size):
            chosen = select(sharing, [element in present for element in asked])
            assert (chosen is not None) == satisfied(tree, present)
            if chosen is not None:
                assert sum(parts[number] * weight for number, weight in chosen) % ORDER == secret
                used = [asked[number] for number, _ in chosen]
                assert satisfied(tree, used)
                assert len(chosen) == _fewest(tree, set(present))


def _fewest(tree: Node, present: set[object]) -> int:
    if isinstance(tree, Leaf):
        return 1 if tree.element in present else 10**6
    return sum(sorted(_fewest(term, present) for term in tree.terms)[: tree.count])


def test_shares_are_fresh() -> None:
    sharing = plan(TREES[4])
    first, second = (share(sharing, 5, SYSTEM_RANDOM) for _ in range(2))
    assert not set(first) & set(second)


def test_lagrange_interpolates() -> None:
    indices = [1, 4, 9]
    polynomial = [7 * x * x + 5 * x + 3 for x in indices]
    weights = lagrange(indices)
    assert sum(w * y for w, y in zip(weights, polynomial, strict=True)) % ORDER == 3


@pytest.mark.parametrize(
    "tree",
    [
        Gate(0, (leaf(A), leaf(B))),
        Gate(3, (leaf(A), leaf(B))),
        Gate(1, (leaf(A),)),
        both(leaf(A), Gate(1, ())),
    ],
)
def test_malformed_gates_are_refused(tree: Node) -> None:
    with pytest.raises(InputError, match="a gate asks for"):
        plan(tree)


def test_very_deep_trees_are_refused() -> None:
    tree: Node = leaf(A)
    for _ in range(MAX_DEPTH):
        tree = Gate(2, (leaf(B), tree))
    sharing = plan(tree)
    parts = share(sharing, 9, SYSTEM_RANDOM)
    chosen = select(sharing, [True] * len(parts))
    assert chosen is not None
    assert sum(parts[number] * weight for number, weight in chosen) % ORDER == 9
    with pytest.raises(InputError) as caught:
        plan(Gate(2, (leaf(B), tree)))
    assert caught.value.kind == "too-large"


@pytest.mark.parametrize(
    "indices", [(), ((1, 2),), ((1, 2, 2),), ((0, 1, 2),), ((1, 2, ORDER),), ((1, 2, 3),) * 2]
)
def test_indices_fit_the_tree(indices: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(InputError, match="indices"):
        Sharing(TREES[3], indices)
