"""The subscription index: one bitmap a column, combined by AND (paper 003, Alg. 5).

The paper walks to the event's place in each tree and intersects the lists of subscriptions
that it finds there, beginning with all of them. Here the list of a place is a bitmap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from policyengine.errors import InputError
from policyengine.ope.columns import Bits, ColumnIndex, Slots, Span, make_span, slots_of
from policyengine.ope.orders import Locator
from policyengine.ope.wire import EncryptedEvent, EncryptedSubscription, Range

ROWS: Final = 4096
"""Rows of a column: exact up to 2047 different bounds."""
COMPACT_ROWS: Final = 64
"""Rows of a column that needs little memory; every match is then verified."""
_CHUNK: Final = 1024

_End: TypeAlias = tuple[str, bytes]


class SubscriptionIndex:
    """Encrypted subscriptions, laid out for matching.

    Matching is safe for several threads; a change needs the index to itself.

    Args:
        locator: how ciphertexts are compared.
        rows: most bitmaps a column. A bitmap takes a bit a subscription and is made when an
            event first needs it, so `rows` x columns x subscriptions / 8 bytes is the most.

    Raises:
        InputError: `invalid` when there are no rows.
    """

    def __init__(self, locator: Locator, *, rows: int = ROWS) -> None:
        if rows < 1:
            raise InputError("invalid", "an index has at least one row", where="rows")
        self._locator = locator
        self._most = rows
        self.columns: dict[str, ColumnIndex] = {}
        self._capacity = 64
        self._live: Bits = np.zeros(self._capacity // 8, dtype=np.uint8)
        self._ids: list[str] = []
        self._slots: dict[str, int] = {}
        self._never: set[str] = set()
        self._spare: list[int] = []

    def __len__(self) -> int:
        """Return how many subscriptions there are."""
        return len(self._slots) + len(self._never)

    def __contains__(self, name: str) -> bool:
        """Tell whether there is a subscription of this name."""
        return name in self._slots or name in self._never

    @property
    def nbytes(self) -> int:
        """Bytes of bitmaps and edges; names and bounds come on top."""
        return self._live.nbytes + sum(column.nbytes for column in self.columns.values())

    def add(self, subscriptions: Mapping[str, EncryptedSubscription]) -> None:
        """Add subscriptions, all of them or none.

        Args:
            subscriptions: by name.

        Raises:
            InputError: `invalid` for a name that is there already, and for intervals that
                are not ascending.
            DecryptionError: the comparator cannot open a ciphertext.
        """
        for name in subscriptions:
            if name in self:
                raise InputError("invalid", f"there is a subscription `{name}` already", where=name)
        waiting = list(subscriptions.items())
        done: list[str] = []
        size = 1
        try:
            while waiting:
                # chunks double, so that few bounds are new to the order when there are many
                self._add_chunk(waiting[:size], done)
                waiting, size = waiting[size:], min(2 * size, _CHUNK)
        except BaseException:
            for name in done:
                self.remove(name)
            raise

    def remove(self, name: str) -> None:
        """Remove a subscription, and the bounds that no other one has.

        Raises:
            InputError: `unknown` for a name that is not there.
        """
        if name not in self:
            raise InputError("unknown", f"there is no subscription `{name}`", where=name)
        if name in self._never:
            self._never.discard(name)
            return
        spans = self.spans(name)
        slot = self._slots.pop(name)
        self._live[slot >> 3] &= 255 ^ (1 << (slot & 7))
        for key, span in spans.items():
            column = self.columns[key]
            column.put(slot, None)
            column.write(slot)
            column.release(span)
            column.refresh()
        self._prune(spans)
        self._spare.append(slot)

    def update(self, name: str, subscription: EncryptedSubscription) -> None:
        """Replace a subscription; where that fails, the old one stays.

        Raises:
            InputError: `unknown` for a name that is not there, else as `add`.
        """
        if name not in self:
            raise InputError("unknown", f"there is no subscription `{name}`", where=name)
        spare = name
        while spare in self:
            spare += "'"
        self.add({spare: subscription})
        self.remove(name)
        if spare in self._never:
            self._never.discard(spare)
            self._never.add(name)
        else:
            slot = self._slots.pop(spare)
            self._slots[name] = slot
            self._ids[slot] = name

    def match(self, event: EncryptedEvent) -> list[str]:
        """Return the names of the subscriptions that an event matches, sorted.

        Raises:
            DecryptionError: the comparator cannot open a ciphertext.
        """
        found = self.match_slots(self.locate(event))
        return sorted(self._ids[slot] for slot in found.tolist())

    def locate(self, event: EncryptedEvent) -> dict[str, int]:
        """Return the event's location in each column that a subscription looks at."""
        asked = [(name, value) for name, value in event.values if name in self.columns]
        orders = {name: column.order for name, column in self.columns.items()}
        found = self._locator.locate(asked, orders)
        return {name: location for (name, _), location in zip(asked, found, strict=True)}

    def match_slots(self, locations: Mapping[str, int]) -> Slots:
        """Return the slots of the subscriptions that match at these locations.

        Args:
            locations: what `locate` returned.
        """
        bits, unsure = self._candidates(locations)
        slots = slots_of(bits)
        for column, location in unsure:
            slots = column.verify(slots, location)
        return slots

    def match_bits(self, locations: Mapping[str, int]) -> Bits:
        """Return the same as a bitmap, bit i (least significant first) for slot i.

        Args:
            locations: what `locate` returned.
        """
        bits, unsure = self._candidates(locations)
        if not unsure:
            return bits
        slots = self.match_slots(locations)
        found = np.zeros(self._capacity, dtype=np.bool_)
        found[slots] = True
        return np.packbits(found, bitorder="little")

    def _candidates(
        self, locations: Mapping[str, int]
    ) -> tuple[Bits, list[tuple[ColumnIndex, int]]]:
        """Return who may match, and where that must be looked at again."""
        # paper 003, Alg. 5: the list begins with all subscriptions
        bits = self._live.copy()
        unsure: list[tuple[ColumnIndex, int]] = []
        for name, column in self.columns.items():
            location = locations.get(name)
            if location is None:
                bits &= column.free
                continue
            row, exact = column.row(location)
            bits &= row
            if not exact:
                unsure.append((column, location))
        return bits, unsure

    def warm(self) -> None:
        """Make all bitmaps now instead of when an event first needs them."""
        for column in self.columns.values():
            column.warm()

    def names(self) -> list[str]:
        """Return the names of all subscriptions, sorted."""
        return sorted((*self._slots, *self._never))

    def spans(self, name: str) -> dict[str, Span]:
        """Return what a subscription asks of each column, in edges."""
        if name not in self._slots:
            return {}
        slot = self._slots[name]
        return {
            key: column.span(slot)
            for key, column in self.columns.items()
            if not column.free[slot >> 3] >> (slot & 7) & 1
        }

    def _add_chunk(
        self, chunk: Sequence[tuple[str, EncryptedSubscription]], done: list[str]
    ) -> None:
        ends = {
            (column, end)
            for _, subscription in chunk
            for column, ranges in subscription.ranges
            for one in ranges
            for end in (one.low, one.high)
            if end is not None
        }
        for _, subscription in chunk:
            for column, _ in subscription.ranges:
                self._column(column)
        handles: dict[_End, int] = {}
        try:
            self._enter(sorted(ends), handles)
            for name, subscription in chunk:
                self._put(name, subscription, handles)
                done.append(name)
        finally:
            # bounds of what failed are used by nobody
            unused: defaultdict[str, set[int]] = defaultdict(set)
            for (column, _), handle in handles.items():
                unused[column].add(handle)
            for key, column_index in self.columns.items():
                column_index.sweep(unused[key])
                column_index.refresh()
            self._prune(tuple(self.columns))

    def _prune(self, names: Iterable[str]) -> None:
        """Forget columns that no subscription looks at."""
        for name in names:
            if not self.columns[name].users:
                del self.columns[name]

    def _column(self, name: str) -> ColumnIndex:
        if name not in self.columns:
            order = self._locator.new_order()
            self.columns[name] = ColumnIndex(order, self._most, self._capacity)
        return self.columns[name]

    def _enter(self, waiting: list[_End], handles: dict[_End, int]) -> None:
        """Give every end of an interval a handle (paper 003, Alg. 3)."""
        orders = {name: column.order for name, column in self.columns.items()}
        while waiting:
            found = self._locator.locate(waiting, orders)
            gaps: defaultdict[tuple[str, int], list[_End]] = defaultdict(list)
            for end, location in zip(waiting, found, strict=True):
                if location % 2:
                    handles[end] = orders[end[0]].handle(location // 2)
                else:
                    gaps[end[0], location // 2].append(end)
            waiting = []
            # from above, so that the places below stay what they are
            for (name, place), ends in sorted(gaps.items(), reverse=True):
                middle = ends.pop(len(ends) // 2)
                handles[middle] = self.columns[name].enter(middle[1], place)
                waiting += ends

    def _put(
        self, name: str, subscription: EncryptedSubscription, handles: Mapping[_End, int]
    ) -> None:
        if subscription.never:
            self._never.add(name)
            return
        spans = {
            column: make_span([_handles(column, one, handles) for one in ranges])
            for column, ranges in subscription.ranges
        }
        for column, span in spans.items():
            self._check(self.columns[column], span)
        slot = self._new_slot()
        for key, span in spans.items():
            self.columns[key].use(span)
            self.columns[key].put(slot, span)
            self.columns[key].write(slot)
        if slot == len(self._ids):
            self._ids.append(name)
        self._ids[slot] = name
        self._slots[name] = slot
        self._live[slot >> 3] |= 1 << (slot & 7)

    def _check(self, column: ColumnIndex, span: Span) -> None:
        column.refresh()
        pairs = column.locations(span)
        flat = [place for pair in pairs for place in pair]
        if any(first > last for first, last in pairs) or flat != sorted(flat):
            raise InputError("invalid", "a subscription's intervals are not ascending")

    def _new_slot(self) -> int:
        """Return a slot in which every column lets everything through."""
        if self._spare:
            return self._spare.pop()
        slot = len(self._ids)
        if slot == self._capacity:
            more = -(-self._capacity // 128) * 64
            self._capacity += more
            self._live = np.concatenate((self._live, np.zeros(more // 8, dtype=np.uint8)))
            for column in self.columns.values():
                column.grow(self._capacity)
        return slot


def _handles(
    column: str, one: Range, handles: Mapping[_End, int]
) -> tuple[int | None, bool, int | None, bool]:
    low = None if one.low is None else handles[column, one.low]
    high = None if one.high is None else handles[column, one.high]
    return low, one.low_open, high, one.high_open
