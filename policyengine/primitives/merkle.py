"""Merkle trees of RFC 6962 (section 2.1): roots, and short proofs about what they cover.

A tree of `size` leaves splits at the largest power of two below `size`. Leaves and inner
nodes are hashed with different prefixes, so that neither can stand for the other. Whoever
keeps the roots of the complete sub-trees on the right edge (`Frontier`) adds a leaf in
O(log n) without reading any other; proofs ask for roots of complete sub-trees by place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

from policyengine.errors import InputError, SignatureError

HASH_SIZE: Final = 32
EMPTY_ROOT: Final = sha256(b"").digest()


class Node(NamedTuple):
    """The root of a complete sub-tree.

    Args:
        height: it covers 2**height leaves.
        place: how many sub-trees of its height stand left of it.
        hash: its 32 bytes.
    """

    height: int
    place: int
    hash: bytes


# The root of the complete sub-tree at (height, place).
NodeReader = Callable[[int, int], bytes]


def leaf_hash(data: bytes) -> bytes:
    """Hash what a leaf holds."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash two sub-trees into the one above them."""
    return sha256(b"\x01" + left + right).digest()


def root(leaves: Iterable[bytes]) -> bytes:
    """Compute the root over leaf hashes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier.root()


@dataclass
class Frontier:
    """The right edge of a tree: all that is needed to add leaves and to tell the root.

    Args:
        size: number of leaves.
        peaks: roots of the complete sub-trees that make up the tree, the largest first.

    Raises:
        InputError: `invalid` when there are not as many peaks as the size has binary ones.
    """

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if self.size < 0 or len(self.peaks) != self.size.bit_count():
            raise InputError("invalid", "a tree of this size has another number of peaks")
        if any(len(peak) != HASH_SIZE for peak in self.peaks):
            raise InputError("invalid", "a hash has 32 bytes")

    def append(self, leaf: bytes) -> list[Node]:
        """Add a leaf hash; returns the sub-trees that it completed, the leaf first."""
        index = self.size
        made = [Node(0, index, leaf)]
        peaks = list(self.peaks)
        height = 0
        while index & 1:
            leaf = node_hash(peaks.pop(), leaf)
            index >>= 1
            height += 1
            made.append(Node(height, index, leaf))
        self.peaks = (*peaks, leaf)
        self.size += 1
        return made

    def root(self) -> bytes:
        """Compute the root of the whole tree."""
        return _fold(self.peaks) if self.peaks else EMPTY_ROOT


def tree_root(size: int, node: NodeReader) -> bytes:
    """Compute the root over the first `size` leaves from complete sub-trees."""
    return _range_root(0, size, node) if size else EMPTY_ROOT


def inclusion_proof(index: int, size: int, node: NodeReader) -> list[bytes]:
    """Build the audit path of leaf `index` (from 0) in the tree of `size` leaves.

    Raises:
        InputError: `invalid` when there is no such leaf.
    """
    if not 0 <= index < size:
        raise InputError("invalid", "the tree holds no such leaf")
    path: list[bytes] = []
    start, stop = 0, size
    while stop - start > 1:
        middle = start + _split(stop - start)
        if index < middle:
            path.append(_range_root(middle, stop, node))
            stop = middle
        else:
            path.append(_range_root(start, middle, node))
            start = middle
    path.reverse()
    return path


def consistency_proof(old: int, new: int, node: NodeReader) -> list[bytes]:
    """Build the proof that the tree of `new` leaves begins with the tree of `old` leaves.

    Raises:
        InputError: `invalid` when the sizes are not in order.
    """
    if not 0 <= old <= new:
        raise InputError("invalid", "the older tree is not the smaller one")
    if old in {0, new}:
        return []
    path: list[bytes] = []
    start, stop, known = 0, new, True
    # `known`: the part from `start` on is a sub-tree of both trees, whose root the old one gives
    while old != stop:
        middle = start + _split(stop - start)
        if old <= middle:
            path.append(_range_root(middle, stop, node))
            stop = middle
        else:
            path.append(_range_root(start, middle, node))
            start, known = middle, False
    if not known:
        path.append(_range_root(start, stop, node))
    path.reverse()
    return path


def verify_inclusion(
    *, index: int, size: int, leaf: bytes, proof: Sequence[bytes], root: bytes
) -> None:
    """Check that a leaf hash stands at `index` (from 0) of the tree with this root.

    Raises:
        SignatureError: it does not follow from the proof.
    """
    if not 0 <= index < size:
        raise SignatureError("the proof does not fit")
    place, last, computed = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise SignatureError("the proof does not fit")
        if place & 1 or place == last:
            computed = node_hash(sibling, computed)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            computed = node_hash(computed, sibling)
        place, last = place >> 1, last >> 1
    if last or computed != root:
        raise SignatureError("the proof does not fit")


def verify_consistency(
    *, old: int, new: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes
) -> None:
    """Check that the tree with `new_root` only adds to the tree with `old_root`.

    Raises:
        SignatureError: it does not follow from the proof.
    """
    if not 0 <= old <= new:
        raise SignatureError("the proof does not fit")
    if old in {0, new}:
        _verify_trivial(old, new, proof, old_root, new_root)
        return
    path = list(proof)
    if not old & (old - 1):
        path.insert(0, old_root)
    if not path:
        raise SignatureError("the proof does not fit")
    place, last = old - 1, new - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    first = second = path[0]
    for sibling in path[1:]:
        if last == 0:
            raise SignatureError("the proof does not fit")
        if place & 1 or place == last:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            second = node_hash(second, sibling)
        place, last = place >> 1, last >> 1
    if last or first != old_root or second != new_root:
        raise SignatureError("the proof does not fit")


def _verify_trivial(
    old: int, new: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes
) -> None:
    same = old_root == (new_root if old == new else EMPTY_ROOT)
    if proof or not same or (new == 0 and new_root != EMPTY_ROOT):
        raise SignatureError("the proof does not fit")


def _split(size: int) -> int:
    """Give the largest power of two below `size`, which is at least 2."""
    return 1 << ((size - 1).bit_length() - 1)


def _range_root(start: int, stop: int, node: NodeReader) -> bytes:
    """Compute the root of a sub-tree of the definition; it begins at a multiple of its size."""
    parts: list[bytes] = []
    while start < stop:
        height = (stop - start).bit_length() - 1
        parts.append(node(height, start >> height))
        start += 1 << height
    return _fold(parts)


def _fold(parts: Sequence[bytes]) -> bytes:
    computed = parts[-1]
    for part in reversed(parts[:-1]):
        computed = node_hash(part, computed)
    return computed
