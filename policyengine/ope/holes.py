"""Gaps inside subscriptions that have several intervals on one column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Edges: TypeAlias = tuple[int, int]

_NOBODY: Final = -1
_SPARE: Final = 16  # so many empty places are no reason to move anything


class Holes:
    """A growing table: owner, first edge, last edge. Removed ones have no owner."""

    def __init__(self) -> None:
        self._table: NDArray[np.int64] = np.full((3, _SPARE), _NOBODY, dtype=np.int64)
        self._used = self._empty = 0
        self._of: dict[int, tuple[int, int]] = {}

    def of(self, slot: int) -> list[Edges]:
        """Return the holes of a slot."""
        if slot not in self._of:
            return []
        start, stop = self._of[slot]
        first, last = self._table[1:, start:stop].tolist()
        return list(zip(first, last, strict=True))

    def put(self, slot: int, holes: Sequence[Edges]) -> None:
        """Give a slot without holes some."""
        if not holes:
            return
        start, stop = self._used, self._used + len(holes)
        if stop > self._table.shape[1]:
            room = np.full((3, stop), _NOBODY, dtype=np.int64)
            self._table = np.concatenate((self._table, room), axis=1)
        self._table[0, start:stop] = slot
        self._table[1:, start:stop] = np.array(holes, dtype=np.int64).T
        self._of[slot] = (start, stop)
        self._used = stop

    def drop(self, slot: int) -> None:
        """Take the holes of a slot away; close up when most of the table is empty."""
        if slot not in self._of:
            return
        start, stop = self._of.pop(slot)
        self._table[0, start:stop] = _NOBODY
        self._empty += stop - start
        if 2 * self._empty <= self._used + _SPARE:
            return
        moved = [(owner, self.of(owner)) for owner in self._of]
        self._of, self._used, self._empty = {}, 0, 0
        for owner, holes in moved:
            self.put(owner, holes)

    def owners(self, table: NDArray[np.int32], first: int, last: int) -> NDArray[np.int64]:
        """Return the slots with a hole that holds all of these locations.

        Args:
            table: location of each edge.
            first: first location.
            last: last location.
        """
        owner, start, stop = self._table[:, : self._used]
        hit = (table[start] <= first) & (table[stop] >= last) & (owner != _NOBODY)
        found: NDArray[np.int64] = owner[hit]
        return found
