"""One column of the subscription index: bitmaps of who is satisfied at which location.

An *edge* is a handle and an offset, `4 * handle + offset`, and names a location that moves
with its bound: offset 0 is the gap below the bound, 1 the bound, 2 the gap above. Two
handles stand for no bound at all. A *row* is the bitmap of all subscriptions that may be
satisfied at the locations of one *bucket*. A bucket of one location makes an exact row;
the others give candidates, which are looked at again one by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policyengine.ope.holes import Edges, Holes
from policyengine.ope.orders import Order

Bits: TypeAlias = NDArray[np.uint8]
Slots: TypeAlias = NDArray[np.int64]

BELOW_ALL: Final = 0
ABOVE_ALL: Final = 4
_FIRST_HANDLE: Final = 2
_SMALL: Final = 65_535  # greatest edge that two bytes hold
_CROWDED: Final = 4  # a bucket with so many times its share of locations is divided anew


@dataclass(frozen=True, slots=True)
class Span:
    """What a subscription asks of one column, in edges.

    Args:
        low: first edge inside.
        high: last edge inside.
        holes: edges of what is left out between, first and last.
    """

    low: int = BELOW_ALL
    high: int = ABOVE_ALL
    holes: tuple[Edges, ...] = ()

    def handles(self) -> list[int]:
        """Return the handles of the bounds, each as often as it is used."""
        edges = (self.low, self.high, *(edge for hole in self.holes for edge in hole))
        return [edge >> 2 for edge in edges if edge >> 2 >= _FIRST_HANDLE]


EVERYTHING: Final = Span()


class ColumnIndex:
    """The bitmaps of one column.

    Args:
        order: the bounds.
        rows: most rows.
        capacity: number of slots, a multiple of 8.
    """

    def __init__(self, order: Order, rows: int, capacity: int) -> None:
        self.order = order
        self._most = rows
        self._starts = [0]
        self._rows: list[Bits | None] = [None]
        self._made = False
        self._locations = 1
        self._low: NDArray[Any] = np.full(capacity, BELOW_ALL, dtype=np.uint16)
        self._high: NDArray[Any] = np.full(capacity, ABOVE_ALL, dtype=np.uint16)
        self.free: Bits = np.full(capacity // 8, 255, dtype=np.uint8)
        self._holes = Holes()
        self.users = 0
        self._uses: list[int] = [1, 1]
        self._spare: list[int] = []
        self._table: NDArray[np.int32] = np.zeros(8, dtype=np.int32)
        self._stale = False

    def grow(self, capacity: int) -> None:
        """Make room for more slots; rows are made again when they are needed."""
        more = capacity - self._low.size
        self._low = np.concatenate((self._low, np.full(more, BELOW_ALL, self._low.dtype)))
        self._high = np.concatenate((self._high, np.full(more, ABOVE_ALL, self._high.dtype)))
        self.free = np.concatenate((self.free, np.full(more // 8, 255, dtype=np.uint8)))
        self._rows = [None] * len(self._rows)
        self._made = False

    def enter(self, cipher: bytes, place: int) -> int:
        """Put a new bound into the gap in front of a place and return its handle."""
        handle = self._spare.pop() if self._spare else len(self._uses)
        if handle == len(self._uses):
            self._uses.append(0)
        self._uses[handle] = 0
        self.order.insert(cipher, place, handle)
        self._stale = True
        gap = 2 * place
        self._locations += 2
        bucket = bisect_right(self._starts, gap) - 1
        alone = self._size(bucket, self._locations - 2) == 1
        self._starts[bucket + 1 :] = [start + 2 for start in self._starts[bucket + 1 :]]
        if alone and len(self._starts) + 2 <= self._most:
            # the three locations differ for nobody yet; their rows are made when needed
            self._starts[bucket + 1 : bucket + 1] = [gap + 1, gap + 2]
            self._rows[bucket + 1 : bucket + 1] = [None, None]
        elif self._size(bucket, self._locations) > _CROWDED * (self._locations // self._most + 1):
            self._divide()
        return handle

    def use(self, span: Span) -> None:
        """Count a subscription and its bounds."""
        self.users += 1
        for handle in span.handles():
            self._uses[handle] += 1

    def release(self, span: Span) -> None:
        """Count a subscription off, and take out the bounds that nobody uses any more."""
        self.users -= 1
        for handle in span.handles():
            self._uses[handle] -= 1
        self.sweep(set(span.handles()))

    def sweep(self, handles: set[int]) -> None:
        """Take out those of the bounds that nobody uses."""
        for handle in handles:
            if self._uses[handle] == 0:
                self.refresh()
                gap = int(self._table[4 * handle])
                self.order.remove(gap // 2)
                self._spare.append(handle)
                self._merge(gap + 2)
                self._merge(gap + 1)
                self._uses[handle] = -1
                self._stale = True

    def refresh(self) -> None:
        """Bring the locations of edges up to date; part of every change."""
        if not self._stale:
            return
        base = np.zeros(len(self._uses), dtype=np.int32)
        base[np.array(self.order.handles(), dtype=np.int64)] = 2 * np.arange(len(self.order))
        base[ABOVE_ALL >> 2] = 2 * len(self.order)
        self._table = np.add.outer(base, np.arange(4, dtype=np.int32)).ravel()
        self._stale = False

    def locations(self, span: Span) -> list[tuple[int, int]]:
        """Return the intervals of a span as first and last locations."""
        starts = [span.low, *(last for _, last in span.holes)]
        stops = [*(first for first, _ in span.holes), span.high]
        return [
            (int(self._table[a]) + (at > 0), int(self._table[b]) - (at < len(span.holes)))
            for at, (a, b) in enumerate(zip(starts, stops, strict=True))
        ]

    def span(self, slot: int) -> Span:
        """Return what a slot asks."""
        return Span(int(self._low[slot]), int(self._high[slot]), tuple(self._holes.of(slot)))

    def put(self, slot: int, span: Span | None) -> None:
        """Write what a slot asks; None is nothing."""
        asked = EVERYTHING if span is None else span
        if max(asked.low, asked.high) > _SMALL and self._low.dtype == np.uint16:
            self._low = self._low.astype(np.uint32)
            self._high = self._high.astype(np.uint32)
        self._low[slot], self._high[slot] = asked.low, asked.high
        self._holes.drop(slot)
        self._holes.put(slot, asked.holes)
        _set_bit(self.free, slot, span is None)

    def write(self, slot: int) -> None:
        """Bring a slot's bit up to date in the rows that there are."""
        if not self._made:
            return
        self.refresh()
        span = self.span(slot)
        low, high = int(self._table[span.low]), int(self._table[span.high])
        holes = [(int(self._table[a]), int(self._table[b])) for a, b in span.holes]
        for bucket, row in enumerate(self._rows):
            if row is not None:
                first = self._starts[bucket]
                last = first + self._size(bucket, self._locations) - 1
                inside = low <= last and high >= first
                hidden = any(a <= first and last <= b for a, b in holes)
                _set_bit(row, slot, inside and not hidden)

    def row(self, location: int) -> tuple[Bits, bool]:
        """Return the bitmap of a location, and whether it is exact.

        Several threads may make the same row at once; they make equal ones.
        """
        bucket = bisect_right(self._starts, location) - 1
        row = self._rows[bucket]
        size = self._size(bucket, self._locations)
        if row is None:
            self._made = True
            row = self._rows[bucket] = self._make(self._starts[bucket], size)
        return row, size == 1

    def verify(self, slots: Slots, location: int) -> Slots:
        """Keep the slots that are satisfied at a location."""
        inside = self._table[self._low[slots]] <= location
        inside &= self._table[self._high[slots]] >= location
        hidden = self._holes.owners(self._table, location, location)
        if hidden.size:
            inside &= ~np.isin(slots, hidden)
        kept: Slots = slots[inside]
        return kept

    @property
    def nbytes(self) -> int:
        """Bytes of bitmaps and edges."""
        rows = sum(row.nbytes for row in self._rows if row is not None)
        return rows + self._low.nbytes + self._high.nbytes + self.free.nbytes

    def warm(self) -> None:
        """Make every row now instead of when an event first needs it."""
        for start in self._starts:
            self.row(start)

    def _make(self, first: int, size: int) -> Bits:
        last = first + size - 1
        inside = self._table[self._low] <= last
        inside &= self._table[self._high] >= first
        inside[self._holes.owners(self._table, first, last)] = False
        return np.packbits(inside, bitorder="little")

    def _size(self, bucket: int, locations: int) -> int:
        ends = self._starts[bucket + 1] if bucket + 1 < len(self._starts) else locations
        return ends - self._starts[bucket]

    def _merge(self, location: int) -> None:
        """Take out a location at which nobody's answer differs from that of its neighbour."""
        bucket = bisect_right(self._starts, location) - 1
        if self._size(bucket, self._locations) == 1:
            del self._starts[bucket], self._rows[bucket]
            bucket -= 1
        else:
            self._rows[bucket] = None  # made for more locations than are left
        self._starts[bucket + 1 :] = [start - 1 for start in self._starts[bucket + 1 :]]
        self._locations -= 1

    def _divide(self) -> None:
        """Give every bucket its share of the locations."""
        count = min(self._most, self._locations)
        self._starts = [self._locations * at // count for at in range(count)]
        self._rows = [None] * count
        self._made = False


def make_span(handles: Sequence[tuple[int | None, bool, int | None, bool]]) -> Span:
    """Make a span from intervals.

    Args:
        handles: lower and upper end of each interval: handle, or None for no end, and
            whether it is open; ascending.
    """
    lows = [BELOW_ALL if low is None else 4 * low + 1 + open_ for low, open_, _, _ in handles]
    highs = [ABOVE_ALL if high is None else 4 * high + 1 - open_ for _, _, high, open_ in handles]
    holes = tuple((high + 1, low - 1) for high, low in zip(highs, lows[1:], strict=False))
    return Span(lows[0], highs[-1], holes)


def slots_of(bits: Bits) -> Slots:
    """Return the places of the set bits, ascending."""
    hit = np.flatnonzero(bits != 0)
    inside = np.flatnonzero(np.unpackbits(bits[hit], bitorder="little").view(np.bool_))
    found: Slots = (hit[inside >> 3] << 3) | (inside & 7)
    return found


def _set_bit(bits: Bits, slot: int, on: bool) -> None:
    mask = 1 << (slot & 7)
    old = int(bits[slot >> 3])
    bits[slot >> 3] = old | mask if on else old & ~mask
