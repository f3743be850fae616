"""Sharing a secret over an access tree, and putting it together again.

A secret falls from the root to the leaves: an OR hands it to every term, an AND splits it
into summands, and a gate that asks for `count` of its terms (1 < count < all) gives each of
them the value of a random polynomial of degree `count` - 1 at the term's *index*, a number
from 1. Summands instead of a polynomial in an AND change nothing for the security, and spare
the reader the multiplications by Lagrange coefficients, which are all 1.

Source: paper 001, section 5.3, step 2, and section 5.5; Shamir's scheme per gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from policyengine.abe.group import ORDER, invert, random_scalar
from policyengine.attributes.universe import Gate, Leaf, Node
from policyengine.errors import InputError
from policyengine.primitives.rand import RandomSource

MAX_DEPTH: Final = 480
"""Most levels of gates; a bag of bits of the widest number has about 400."""

Weighted: TypeAlias = tuple[int, int]
"""A leaf's number, from left to right and from 0, and the coefficient of its share."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """A tree with the indices of its threshold gates.

    Args:
        tree: the access tree.
        indices: for every gate with 1 < count < number of terms, in the order of a walk from
            the root and the left, the indices of its terms, all different, from 1. They are
            kept apart because a term may be struck out later (`delegation`) without giving
            the others new ones.

    Raises:
        InputError: `invalid` when the indices do not fit the tree.
    """

    tree: Node
    indices: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        gates = [gate for gate in _gates(self.tree) if is_threshold(gate)]
        if [len(gate.terms) for gate in gates] != [len(given) for given in self.indices]:
            raise InputError("invalid", "the indices do not fit the tree")
        for given in self.indices:
            if len(set(given)) != len(given) or not all(0 < index < ORDER for index in given):
                raise InputError("invalid", "the indices of a gate are different numbers from 1")


def is_threshold(gate: Gate) -> bool:
    """Tell whether a gate is neither an OR nor an AND."""
    return 1 < gate.count < len(gate.terms)


def plan(tree: Node) -> Sharing:
    """Number the terms of every threshold gate from 1.

    Args:
        tree: the access tree.

    Raises:
        InputError: `invalid` for a gate of less than two terms, or that asks for none of its
            terms or for more than it has; `too-large` for over `MAX_DEPTH` levels of gates.
    """
    _check_depth(tree)
    for gate in _gates(tree):
        if not (1 <= gate.count <= len(gate.terms) and len(gate.terms) >= 2):
            raise InputError("invalid", "a gate asks for 1 to all of its two or more terms")
    return Sharing(
        tree,
        tuple(tuple(range(1, len(gate.terms) + 1)) for gate in _gates(tree) if is_threshold(gate)),
    )


def share(sharing: Sharing, secret: int, random: RandomSource) -> list[int]:
    """Split a secret over the leaves.

    Args:
        sharing: tree and indices.
        secret: a scalar.
        random: source of polynomials and summands.

    Returns:
        One share a leaf, from left to right.
    """
    found: list[int] = []
    indices = iter(sharing.indices)

    def visit(node: Node, value: int) -> None:
        if isinstance(node, Leaf):
            found.append(value)
            return
        for term, part in zip(node.terms, _parts(node, value, indices, random), strict=True):
            visit(term, part)

    visit(sharing.tree, secret)
    return found


def select(sharing: Sharing, usable: Sequence[bool]) -> list[Weighted] | None:
    """Choose the fewest leaves that give the secret.

    Args:
        sharing: tree and indices.
        usable: for each leaf, from left to right, whether its share can be had.

    Returns:
        Leaves and coefficients: the secret is the sum of coefficient times share. None when
        the usable leaves do not satisfy the tree.
    """
    numbers = iter(range(len(usable)))
    indices = iter(sharing.indices)

    def visit(node: Node) -> list[Weighted] | None:
        if isinstance(node, Leaf):
            number = next(numbers)
            return [(number, 1)] if usable[number] else None
        given = next(indices) if is_threshold(node) else ()
        met: list[tuple[int, list[Weighted]]] = []
        for place, term in enumerate(node.terms):
            chosen = visit(term)
            if chosen is not None:
                met.append((place, chosen))
        if len(met) < node.count:
            return None
        met = sorted(met, key=lambda entry: len(entry[1]))[: node.count]
        if not given:
            return [weighted for _, chosen in met for weighted in chosen]
        weights = lagrange([given[place] for place, _ in met])
        return [
            (number, coefficient * weight % ORDER)
            for (_, chosen), weight in zip(met, weights, strict=True)
            for number, coefficient in chosen
        ]

    return visit(sharing.tree)


def lagrange(indices: Sequence[int], at: int = 0) -> list[int]:
    """Return the Lagrange coefficients of different indices at a point (paper 001, 5.1)."""
    found = []
    for one in indices:
        above = below = 1
        for other in indices:
            if other != one:
                above = above * (at - other) % ORDER
                below = below * (one - other) % ORDER
        found.append(above * invert(below) % ORDER)
    return found


def _parts(
    gate: Gate, value: int, indices: Iterator[tuple[int, ...]], random: RandomSource
) -> list[int]:
    if gate.count == 1:
        return [value] * len(gate.terms)
    drawn = [random_scalar(random) for _ in range(gate.count - 1)]
    if not is_threshold(gate):
        edges = [0, *drawn, value]  # the summands are the steps between random marks
        return [(after - before) % ORDER for before, after in pairwise(edges)]
    return [_value(drawn, value, index) for index in next(indices)]


def _value(upper: Sequence[int], constant: int, index: int) -> int:
    total = 0
    for coefficient in upper:
        total = (total + coefficient) * index % ORDER
    return (total + constant) % ORDER


def _check_depth(tree: Node) -> None:
    stack = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, Gate):
            if depth == MAX_DEPTH:
                raise InputError("too-large", f"a key's tree has at most {MAX_DEPTH} levels")
            stack.extend((term, depth + 1) for term in node.terms)


def _gates(tree: Node) -> Iterator[Gate]:
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Gate):
            yield node
            stack.extend(reversed(node.terms))
