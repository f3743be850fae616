"""Who may want an event of one type: found by bits and hashes, not one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from bitarray import bitarray

from brokers.data.filterindex import FilterIndex
from brokers.matching import EpochPolicy
from policyengine.attributes import Expression, Schema, Value


class ClientBits:
    """A set of clients, as a bitmap over each epoch's positions; it follows every change."""

    def __init__(self) -> None:
        self._handles: set[str] = set()
        self._bits: dict[int, tuple[Mapping[str, int], bitarray]] = {}

    def __contains__(self, handle: object) -> bool:
        """Tell whether a client is in it."""
        return handle in self._handles

    def put(self, handle: str, present: bool) -> None:
        """Put a client in, or take it out."""
        (self._handles.add if present else self._handles.discard)(handle)
        for positions, bits in self._bits.values():
            if handle in positions:
                bits[positions[handle]] = present

    def among(self, policy: EpochPolicy, authorised: bitarray) -> Iterator[str]:
        """Those that are authorised, in the order of their positions."""
        for position in (self.over(policy) & authorised).search(bitarray("1")):
            yield policy.handles[position]

    def over(self, policy: EpochPolicy) -> bitarray:
        """The set as a bitmap over an epoch's positions; not to be changed."""
        held = self._bits.get(policy.epoch)
        if held is None or held[0] is not policy.positions:
            bits = bitarray(len(policy.positions))
            bits.setall(0)
            for handle in self._handles & policy.positions.keys():
                bits[policy.positions[handle]] = 1
            held = self._bits[policy.epoch] = (policy.positions, bits)
        return held[1]


class TypeWishes:
    """What clients want of the events of one type; it changes in place and is for one thread.

    Args:
        schema: types of the event type's attributes.
    """

    def __init__(self, schema: Schema) -> None:
        self._filters: dict[str, tuple[Expression | None, ...]] = {}
        self._index = FilterIndex[tuple[str, int]](schema)
        self._tried: dict[str, set[int]] = {}
        self._everyone = ClientBits()
        self._trying = ClientBits()

    def take(self, wanted: Iterable[tuple[str, tuple[Expression | None, ...]]]) -> None:
        """Take what is wanted now in the place of what was; only what is new costs.

        Args:
            wanted: of each client once its filters; None is a filter that everything meets.
        """
        asked = dict(wanted)
        for handle in [one for one in self._filters if one not in asked]:
            self._drop(handle)
        changed = {
            handle: filters
            for handle, filters in asked.items()
            if not _same(self._filters.get(handle), filters)
        }
        for handle in changed:
            self._drop(handle)
        self._add(changed)

    def _drop(self, handle: str) -> None:
        filters = self._filters.pop(handle, None)
        if filters is None:
            return
        for number in range(len(filters)):
            self._index.remove((handle, number))
        self._tried.pop(handle, None)
        self._everyone.put(handle, False)
        self._trying.put(handle, False)

    def _add(self, wanted: Mapping[str, tuple[Expression | None, ...]]) -> None:
        filed: dict[tuple[str, int], Expression] = {}
        tried: list[tuple[str, int]] = []
        for handle, filters in wanted.items():
            self._filters[handle] = filters
            self._everyone.put(handle, True)
            for number, expression in enumerate(filters):
                if expression is None:
                    tried.append((handle, number))
                else:
                    filed[handle, number] = expression
        for handle, number in (*tried, *self._index.add(filed)):
            self._tried.setdefault(handle, set()).add(number)
            self._trying.put(handle, True)

    def everyone(self, policy: EpochPolicy, authorised: bitarray) -> list[str]:
        """All clients that want anything of the type and are authorised.

        Args:
            policy: the epoch that the event names.
            authorised: bit i is set where client i of the epoch is.
        """
        return list(self._everyone.among(policy, authorised))

    def unserved(self, policy: EpochPolicy, authorised: bitarray) -> bitarray:
        """Bit i is set where client i wants something of the type and is not authorised.

        Args:
            policy: the epoch that the event names.
            authorised: bit i is set where client i of the epoch is.
        """
        return self._everyone.over(policy) & ~authorised

    def candidates(
        self, policy: EpochPolicy, authorised: bitarray, values: Mapping[str, Value]
    ) -> list[tuple[str, Sequence[int]]]:
        """The authorised clients that may want an event, each with which of its filters.

        Args:
            policy: the epoch that the event names.
            authorised: bit i is set where client i of the epoch is.
            values: attribute name -> value, all that are known of the event.
        """
        found: dict[str, set[int]] = {}
        for handle, number in self._index.candidates(values):
            position = policy.positions.get(handle)
            if position is not None and authorised[position]:
                found.setdefault(handle, set()).add(number)
        for handle in self._trying.among(policy, authorised):
            found.setdefault(handle, set()).update(self._tried[handle])
        positions = policy.positions
        return [(one, sorted(found[one])) for one in sorted(found, key=positions.__getitem__)]


def _same(one: tuple[Expression | None, ...] | None, other: tuple[Expression | None, ...]) -> bool:
    return one is other or one == other
