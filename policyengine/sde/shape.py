"""The gates of a filter, as far as a broker may see them: a tree without labels.

A shape lists the nodes of a tree from the root down, each term before the next one.
Nothing here recurs: a tree of any depth costs no stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from policyengine.attributes import Gate, Leaf, Node
from policyengine.errors import DecodeError
from policyengine.primitives.rand import RandomSource

_DRAW: Final = 8


class ShapeNode(NamedTuple):
    """One node.

    Args:
        need: how many terms of a gate must hold; 0 for a leaf.
        terms: how many terms the gate has, two or more; for a leaf 1 if it is negated, else 0.
    """

    need: int
    terms: int


Shape: TypeAlias = tuple[ShapeNode, ...]

LEAF: Final = ShapeNode(0, 0)
NEGATED: Final = ShapeNode(0, 1)


def shuffled(tree: Node, random: RandomSource) -> Node:
    """Return the same tree with the terms of every gate in a random order.

    The order would tell a broker which prefix of a range is the lowest.
    """
    visited: list[Node] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        visited.append(node)
        if isinstance(node, Gate):
            draws = [(random.token(_DRAW), at) for at in range(len(node.terms))]
            stack.extend(node.terms[at] for _, at in sorted(draws))
    built: list[Node] = []
    for node in reversed(visited):
        if isinstance(node, Leaf):
            built.append(node)
            continue
        terms = tuple(reversed(built[-len(node.terms) :]))
        del built[-len(node.terms) :]
        built.append(Gate(node.count, terms))
    return built[0]


def shape_of(tree: Node) -> Shape:
    """Return the shape of a tree; its leaves are in the order of `leaves`."""
    shape: list[ShapeNode] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Leaf):
            shape.append(NEGATED if node.negated else LEAF)
        else:
            shape.append(ShapeNode(node.count, len(node.terms)))
            stack.extend(reversed(node.terms))
    return tuple(shape)


def leaf_count(shape: Shape) -> int:
    """Return how many leaves a shape has."""
    return sum(node.need == 0 for node in shape)


def check_shape(shape: Shape) -> None:
    """Check that the nodes make exactly one tree of possible gates.

    Raises:
        DecodeError: they do not.
    """
    open_places = 1
    for need, terms in shape:
        if not open_places:
            raise DecodeError("there are nodes behind the tree's end")
        open_places -= 1
        if need:
            if terms < 2 or need > terms:
                raise DecodeError("a gate cannot be met or has too few terms")
            open_places += terms
    if open_places:
        raise DecodeError("the tree is not complete")


class _Step(NamedTuple):
    need: int
    terms: int
    leaf: int  # number of the leaf, or -1
    size: int  # nodes of this branch, itself included


@dataclass(frozen=True, slots=True)
class Plan:
    """A shape made ready: cheap branches first, and how far to jump when a gate is decided.

    Args:
        steps: the nodes in the order in which they are looked at.
        least: fewest positive leaves that must hold for the tree to hold.
        positive: bit i for a leaf i that is not negated.
    """

    steps: tuple[_Step, ...]
    least: int
    positive: int

    @classmethod
    def of(cls, shape: Shape) -> Plan:
        """Make a plan of a checked shape."""
        at, positive = leaf_count(shape), 0
        branches: list[tuple[list[_Step], int]] = []
        for need, terms in reversed(shape):
            if need == 0:
                at -= 1
                positive |= (1 - terms) << at
                branches.append(([_Step(0, terms, at, 1)], 1 - terms))
                continue
            parts = sorted(branches[-terms:], key=lambda branch: len(branch[0]))
            del branches[-terms:]
            # lists run backwards, so that the longest part is never copied: n log n at most
            steps = parts[-1][0]
            for part, _ in reversed(parts[:-1]):
                steps += part
            steps.append(_Step(need, terms, -1, 1 + len(steps)))
            branches.append((steps, sum(sorted(least for _, least in parts)[:need])))
        steps, least = branches[0]
        return cls(tuple(reversed(steps)), least, positive)

    def holds(self, there: Callable[[int], bool]) -> bool:
        """Tell whether the tree holds (paper 001, section 5.4).

        Args:
            there: whether the element of a leaf is in the event; asked only for leaves that
                can still decide, at most once each.
        """
        gates: list[list[int]] = []  # of each open gate: needed, terms left, place of its end
        at, steps = 0, self.steps
        while True:
            need, terms, leaf, size = steps[at]
            if need:
                gates.append([need, terms, at + size])
                at += 1
                continue
            # a negated leaf is a plain NOT: the presence leaf beside it asks for the rest
            value = there(leaf) != bool(terms)
            at += 1
            while gates:
                gate = gates[-1]
                gate[0] -= value
                gate[1] -= 1
                if 0 < gate[0] <= gate[1]:
                    break
                value, at = gate[0] == 0, gate[2]
                gates.pop()
            else:
                return value
