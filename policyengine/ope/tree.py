"""The balanced tree whose paths are SBM-II's codes (paper 003, Alg. 1, 3 and 4).

The codes are mutable: a rotation or a new level changes those of values that stay where they
are. So the tree stores no code that could be out of date: it works them out from paths.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Node:
    """A value in the tree.

    Args:
        cipher: its ciphertext, as it first came.
        handle: its number in the index.
        height: levels from here on downwards.
        size: nodes from here on downwards.
    """

    cipher: bytes
    handle: int
    height: int = 1
    size: int = 1
    parent: Node | None = None
    left: Node | None = None
    right: Node | None = None


class CodeTree:
    """An AVL tree; the order of its nodes is decided outside, by a comparator."""

    def __init__(self) -> None:
        self.root: Node | None = None

    @property
    def depth(self) -> int:
        """Number of levels."""
        return _height(self.root)

    def insert(self, node: Node, before: Node | None, after: Node | None) -> None:
        """Put a node between its neighbours in order.

        Args:
            node: a new node.
            before: the next smaller one, or None.
            after: the next greater one, or None.
        """
        # of two neighbours, one has a free place on the side of the other one
        if before is not None and before.right is None:
            before.right, node.parent = node, before
        elif after is not None:
            after.left, node.parent = node, after
        else:
            self.root = node
        self._balance(node.parent)

    def remove(self, node: Node) -> None:
        """Take a node out."""
        if node.left is not None and node.right is not None:
            heir = node.right
            while heir.left is not None:
                heir = heir.left
            start = heir.parent if heir.parent is not node else heir
            self._replace(heir, heir.right)
            heir.left, heir.right = node.left, node.right
            for child in (heir.left, heir.right):
                if child is not None:
                    child.parent = heir
            self._replace(node, heir)
        else:
            start = node.parent
            self._replace(node, node.left if node.right is None else node.right)
        self._balance(start)

    def codes(self) -> dict[int, int]:
        """Return the code of every node, by handle (paper 003, Alg. 4).

        With d levels the root is `2^0 + ... + 2^h`, `h = d - 2`; a child is 2^h below or
        above its parent, and h falls by one a level.
        """
        h = self.depth - 2
        found: dict[int, int] = {}
        stack = [] if self.root is None else [(self.root, (1 << (h + 1)) - 1, h)]
        while stack:
            node, code, h = stack.pop()
            found[node.handle] = code
            # at the lowest level there are no children, and h is -1
            if node.left is not None:
                stack.append((node.left, code - (1 << h), h - 1))
            if node.right is not None:
                stack.append((node.right, code + (1 << h), h - 1))
        return found

    def _replace(self, node: Node, other: Node | None) -> None:
        """Put a node, or nothing, into the place of another one below its parent."""
        parent = node.parent
        if parent is None:
            self.root = other
        elif parent.left is node:
            parent.left = other
        else:
            parent.right = other
        if other is not None:
            other.parent = parent

    def _balance(self, node: Node | None) -> None:
        while node is not None:
            lean = _height(node.left) - _height(node.right)
            if lean > 1:
                assert node.left is not None
                if _height(node.left.left) < _height(node.left.right):
                    self._rotate(node.left, right=False)
                node = self._rotate(node, right=True)
            elif lean < -1:
                assert node.right is not None
                if _height(node.right.right) < _height(node.right.left):
                    self._rotate(node.right, right=True)
                node = self._rotate(node, right=False)
            _measure(node)
            node = node.parent

    def _rotate(self, node: Node, *, right: bool) -> Node:
        """Lift a child above its parent and return it."""
        child = node.left if right else node.right
        assert child is not None
        inner = child.right if right else child.left
        self._replace(node, child)
        if right:
            child.right, node.left = node, inner
        else:
            child.left, node.right = node, inner
        node.parent = child
        if inner is not None:
            inner.parent = node
        _measure(node)
        _measure(child)
        return child


def _height(node: Node | None) -> int:
    return 0 if node is None else node.height


def size_of(node: Node | None) -> int:
    """Return how many nodes there are from a node on downwards."""
    return 0 if node is None else node.size


def _measure(node: Node) -> None:
    node.height = 1 + max(_height(node.left), _height(node.right))
    node.size = 1 + size_of(node.left) + size_of(node.right)
