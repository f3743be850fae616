"""Bytes of access trees; `kp_wire` says what they look like."""

from __future__ import annotations

import struct
from typing import Final

from policyengine.abe.shares import MAX_DEPTH
from policyengine.attributes.universe import MAX_LEAVES, Element, Gate, Leaf, Node
from policyengine.errors import DecodeError

_LEAF, _NEGATED, _GATE = 0, 1, 2
_NUMBERS: Final = struct.Struct(">BII")


class Reader:
    """Takes bytes from the front, never more than there are.

    Args:
        data: what is read.
        at: where to begin.
    """

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def take(self, size: int) -> bytes:
        """Return the next bytes.

        Raises:
            DecodeError: there are not so many.
        """
        end = self._at + size
        if end > len(self._data):
            raise DecodeError("the data end too early")
        found = self._data[self._at : end]
        self._at = end
        return found

    def number(self, size: int) -> int:
        """Return the next bytes as a number."""
        return int.from_bytes(self.take(size), "big")

    def end(self) -> None:
        """Make sure that nothing is left.

        Raises:
            DecodeError: something is.
        """
        if self._at != len(self._data):
            raise DecodeError("there are bytes left over")


def encode_tree(tree: Node) -> bytes:
    """Write a tree."""
    found: list[bytes] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Gate):
            found.append(_NUMBERS.pack(_GATE, node.count, len(node.terms)))
            stack.extend(reversed(node.terms))
        else:
            found.append(bytes((_NEGATED if node.negated else _LEAF,)))
            found += [_text(node.element.label), _text(node.element.value)]
    return b"".join(found)


def read_tree(data: bytes) -> Node:
    """Read a tree.

    Raises:
        DecodeError: not the canonical bytes of one, or over `MAX_LEAVES` leaves or
            `MAX_DEPTH` levels. Whether the gates make sense is for `shares.plan` to say.
    """
    reader = Reader(data)
    tree = _read(reader, MAX_DEPTH, [MAX_LEAVES])
    reader.end()
    return tree


def _read(reader: Reader, depth: int, left: list[int]) -> Node:
    kind = reader.number(1)
    if kind == _GATE:
        count, terms = reader.number(4), reader.number(4)
        if depth == 0 or terms > left[0]:
            raise DecodeError("the tree is too large")
        found = []
        for _ in range(terms):
            found.append(_read(reader, depth - 1, left))  # noqa: PERF401 (spares a frame a level)
        return Gate(count, tuple(found))
    left[0] -= 1
    if kind > _NEGATED or left[0] < 0:
        raise DecodeError("the tree has a node of no known kind, or too many")
    return Leaf(Element(_read_text(reader), _read_text(reader)), negated=kind == _NEGATED)


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(4, "big") + data


def _read_text(reader: Reader) -> str:
    try:
        return reader.take(reader.number(4)).decode()
    except UnicodeDecodeError as error:
        raise DecodeError("a label is not UTF-8") from error
