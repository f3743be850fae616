"""Trees without labels: order, walking, jumping, depth."""

from __future__ import annotations

import itertools

import pytest

from policyengine.attributes import Element, Gate, Leaf, leaves
from policyengine.errors import DecodeError
from policyengine.primitives import SeededRandom
from policyengine.sde.shape import LEAF, Plan, ShapeNode, check_shape, shape_of, shuffled


def leaf(name: str, *, negated: bool = False) -> Leaf:
    return Leaf(Element(name, "1"), negated)


TREES = [
    leaf("a"),
    leaf("a", negated=True),
    Gate(2, (leaf("a"), leaf("b"), leaf("c"))),
    Gate(2, (leaf("a"), leaf("b", negated=True))),
    Gate(1, (Gate(2, (leaf("a"), leaf("b"))), leaf("c"), Gate(3, tuple(map(leaf, "def"))))),
    Gate(2, (Gate(1, (leaf("a"), leaf("b", negated=True))), Gate(2, tuple(map(leaf, "cde"))))),
]


def plainly(tree, there: set[int]) -> bool:
    """Evaluate over leaves that are numbered from left to right."""
    numbers = itertools.count()

    def value(node) -> bool:
        if isinstance(node, Leaf):
            return (next(numbers) in there) != node.negated
        return sum([value(term) for term in node.terms]) >= node.count

    return value(tree)


@pytest.mark.parametrize("tree", TREES)
def test_plans_agree_with_plain_evaluation(tree) -> None:
    count = len(list(leaves(tree)))
    plan = Plan.of(shape_of(tree))
    holding = []
    for bits in itertools.product((False, True), repeat=count):
        there = {at for at, bit in enumerate(bits) if bit}
        asked: list[int] = []

        def look(number: int, there=there, asked=asked) -> bool:
            asked.append(number)
            return number in there

        assert plan.holds(look) is plainly(tree, there)
        assert len(asked) == len(set(asked))
        if plainly(tree, there):
            holding.append(sum(1 for at in there if plan.positive >> at & 1))
    assert plan.least == min(holding)


def test_cheap_terms_are_asked_first_and_the_rest_not() -> None:
    wide = Gate(1, tuple(leaf(str(number)) for number in range(9)))
    plan = Plan.of(shape_of(Gate(2, (wide, leaf("x")))))
    asked: list[int] = []
    assert not plan.holds(lambda number: bool(asked.append(number)))
    assert asked == [9]


def test_shuffling_keeps_the_meaning() -> None:
    random = SeededRandom(b"shuffle")
    seen = set()
    for _ in range(30):
        mixed = shuffled(TREES[4], random)
        seen.add(mixed)
        for bits in itertools.product((False, True), repeat=6):
            truth = {name for name, bit in zip("abcdef", bits, strict=True) if bit}
            numbered = {at for at, one in enumerate(leaves(mixed)) if one.element.label in truth}
            original = {at for at, name in enumerate("abcdef") if name in truth}
            assert plainly(mixed, numbered) is plainly(TREES[4], original)
    assert len(seen) > 10


def test_shapes_of_trees_are_trees() -> None:
    for tree in TREES:
        check_shape(shape_of(tree))
    with pytest.raises(DecodeError, match="behind"):
        check_shape((LEAF, LEAF))
    with pytest.raises(DecodeError, match="complete"):
        check_shape((ShapeNode(1, 2), LEAF))


def test_depth_costs_no_stack() -> None:
    shape = (ShapeNode(1, 2), LEAF) * 40_000 + (LEAF,)
    check_shape(shape)
    plan = Plan.of(shape)
    assert plan.least == 1
    assert not plan.holds(lambda _: False)
    assert plan.holds(lambda number: number == 40_000)
