"""The audit's Merkle tree, as the database keeps it: leaves, every 256th-power node, the edge.

A proof reads at most two ranges of 256 hashes a level: a million entries have three levels, and
the inner nodes cost one row for 256 entries.
"""

from __future__ import annotations

from collections.abc import Iterable

from adminapp.audit.models import Entry, TreeHead, TreeNode
from policyengine.primitives import merkle

# Heights of the nodes that are kept: 8, 16, 24, ...
BITS = 8
WIDTH = 1 << BITS


def frontier(head: TreeHead) -> merkle.Frontier:
    """The right edge of the tree; raises InputError when the row makes no sense."""
    raw = bytes.fromhex(head.peaks)
    peaks = tuple(raw[at : at + merkle.HASH_SIZE] for at in range(0, len(raw), merkle.HASH_SIZE))
    return merkle.Frontier(head.size, peaks)


def stored(nodes: Iterable[merkle.Node]) -> list[TreeNode]:
    """Rows for those of the completed nodes that are kept."""
    return [
        TreeNode(level=node.height // BITS, place=node.place, hash=node.hash.hex())
        for node in nodes
        if node.height and node.height % BITS == 0
    ]


class Nodes:
    """Roots of complete sub-trees from the database, for proofs; remembers what it has read."""

    def __init__(self) -> None:
        self._read: dict[tuple[int, int], list[bytes]] = {}

    def __call__(self, height: int, place: int) -> bytes:
        level, within = divmod(height, BITS)
        start = place << within
        hashes = self._range(level, start >> BITS)
        first = start % WIDTH
        return merkle.root(hashes[first : first + (1 << within)])

    def _range(self, level: int, number: int) -> list[bytes]:
        """The hashes of one level from 256 * number on, at most 256 of them."""
        if (level, number) not in self._read:
            start, stop = number * WIDTH, (number + 1) * WIDTH
            self._read[level, number] = [
                bytes.fromhex(text) for text in _hashes(level, start, stop)
            ]
        return self._read[level, number]


def _hashes(level: int, start: int, stop: int) -> Iterable[str]:
    if level == 0:
        entries = Entry.objects.filter(sequence__gt=start, sequence__lte=stop)
        return entries.order_by("sequence").values_list("leaf", flat=True)
    nodes = TreeNode.objects.filter(level=level, place__gte=start, place__lt=stop)
    return nodes.order_by("place").values_list("hash", flat=True)
