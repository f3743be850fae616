"""Bytes of access trees; `kp_wire` says what they look like."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from policyengine.abe.shares import MAX_DEPTH
from policyengine.attributes.universe import MAX_LEAVES, Element, Gate, Leaf, Node
from policyengine.errors import DecodeError
from policyengine.primitives.reader import ByteReader

_LEAF, _NEGATED, _GATE = 0, 1, 2
_NUMBERS: Final = struct.Struct(">BII")


def encode_tree(tree: Node) -> bytes:
    """Write a tree."""
    return tree_bytes(tree, _leaf_bytes, gate=_GATE)


def read_tree(data: bytes) -> Node:
    """Read a tree.

    Raises:
        DecodeError: not the canonical bytes of one, or over `MAX_LEAVES` leaves or
            `MAX_DEPTH` levels. Whether the gates make sense is for `shares.plan` to say.
    """
    reader = ByteReader(data)
    tree = read_nodes(reader, _read_leaf, gate=_GATE)
    reader.end()
    return tree


def tree_bytes(tree: Node, leaf_bytes: Callable[[Leaf], bytes], *, gate: int) -> bytes:
    """Write a tree whose leaves are written by the caller.

    Args:
        tree: the tree.
        leaf_bytes: writes one leaf, which begins with another byte than a gate.
        gate: the byte that a gate begins with.
    """
    found: list[bytes] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Gate):
            found.append(_NUMBERS.pack(gate, node.count, len(node.terms)))
            stack.extend(reversed(node.terms))
        else:
            found.append(leaf_bytes(node))
    return b"".join(found)


def read_nodes(
    reader: ByteReader, read_leaf: Callable[[int, ByteReader], Leaf | None], *, gate: int
) -> Node:
    """Read a tree whose leaves are read by the caller.

    Args:
        reader: stands at the first node, and behind the last one afterwards.
        read_leaf: reads what follows a leaf's first byte, or returns None where the
            byte is of no known kind.
        gate: the byte that a gate begins with.

    Raises:
        DecodeError: no tree, or over `MAX_LEAVES` leaves or `MAX_DEPTH` levels.
    """
    left = MAX_LEAVES

    def read(depth: int) -> Node:
        nonlocal left
        kind = reader.number(1)
        if kind == gate:
            count, terms = reader.number(4), reader.number(4)
            if depth == 0 or terms > left:
                raise DecodeError("the tree is too large")
            found = []
            for _ in range(terms):
                found.append(read(depth - 1))  # noqa: PERF401 (spares a frame a level)
            return Gate(count, tuple(found))
        left -= 1
        leaf = read_leaf(kind, reader) if left >= 0 else None
        if leaf is None:
            raise DecodeError("the tree has a node of no known kind, or too many")
        return leaf

    return read(MAX_DEPTH)


def _leaf_bytes(leaf: Leaf) -> bytes:
    kind = bytes((_NEGATED if leaf.negated else _LEAF,))
    return kind + _text(leaf.element.label) + _text(leaf.element.value)


def _read_leaf(kind: int, reader: ByteReader) -> Leaf | None:
    if kind not in (_LEAF, _NEGATED):
        return None
    return Leaf(Element(_read_text(reader), _read_text(reader)), negated=kind == _NEGATED)


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(4, "big") + data


def _read_text(reader: ByteReader) -> str:
    try:
        return reader.take(reader.number(4)).decode()
    except UnicodeDecodeError as error:
        raise DecodeError("a label is not UTF-8") from error
