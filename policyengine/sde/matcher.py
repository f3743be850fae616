"""Many filters against each event, with memory.

TD(a) is the same in every event that has the element a, so a broker sees anyway which
leaves it satisfies; to remember that tells the broker nothing new. A trapdoor seen before
costs a look-up instead of one group operation for every leaf of every filter.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from policyengine.attributes import unknown
from policyengine.errors import InputError
from policyengine.sde.events import EncryptedEvent
from policyengine.sde.filters import EncryptedFilter
from policyengine.sde.matching import Target, check_same, inverse_of
from policyengine.sde.wire import System

MEMORY: Final = 262_144
"""Default bound: trapdoors remembered and, for each, the filters that it touches."""


@dataclass(slots=True)
class _Known:
    """What is known of a trapdoor.

    Args:
        newest: slot of the newest filter that it was compared with.
        hits: slot -> the filter's leaves that it satisfies, bit i for leaf i.
    """

    newest: int = 0
    hits: dict[int, int] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        return 1 + len(self.hits)


class Matcher:
    """The filters of a broker. Safe to share between threads: calls wait for one another.

    Args:
        system: which set-up all filters and events belong to.
        memory: how much to remember: each trapdoor counts one, and one more for each filter
            that it touches. What was not used for longest goes first. 0 remembers nothing.

    Raises:
        InputError: `invalid` for a negative memory.
    """

    def __init__(self, system: System, *, memory: int = MEMORY) -> None:
        if memory < 0:
            raise InputError("invalid", "the memory is 0 or more", where="memory")
        self._system = system
        self._limit = memory
        self._lock = Lock()
        self._slots: dict[str, int] = {}
        # Slots only grow and are never given twice: dictionaries are in their order
        self._names: dict[int, str] = {}
        self._targets: dict[int, Target] = {}
        self._unasked: set[int] = set()  # filters that hold although no leaf of them does
        self._newest = 0
        self._memory: OrderedDict[bytes, _Known] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        """Return how many filters there are."""
        return len(self._slots)

    @property
    def remembered(self) -> int:
        """How much is remembered now, in the unit of `memory`."""
        return self._weight

    def add(self, name: str, encrypted: EncryptedFilter) -> None:
        """Add a filter, in place of an earlier one of the same name.

        Known trapdoors are compared with it when they come again.

        Args:
            name: the filter's id.
            encrypted: the filter after the broker's part.

        Raises:
            RejectedError: `system` when it belongs to another set-up.
        """
        check_same(encrypted.system, self._system)
        target = Target(encrypted)
        with self._lock:
            if name in self._slots:
                self._forget(name)
            self._newest += 1
            self._slots[name] = self._newest
            self._names[self._newest] = name
            self._targets[self._newest] = target
            if target.plan.holds(lambda _: False):
                self._unasked.add(self._newest)

    def remove(self, name: str) -> None:
        """Remove a filter and everything that is remembered of it.

        Raises:
            InputError: `unknown` when there is none of this name.
        """
        with self._lock:
            if name not in self._slots:
                raise unknown("filter", name, ())
            self._forget(name)

    def match(self, event: EncryptedEvent) -> set[str]:
        """Return the names of the filters that hold for an event.

        Args:
            event: the event after the broker's part.

        Raises:
            RejectedError: `system` when it belongs to another set-up.
        """
        check_same(event.system, self._system)
        with self._lock:
            touched: dict[int, int] = {}
            for known in self._all_known(event):
                for slot, hits in known.hits.items():
                    touched[slot] = touched.get(slot, 0) | hits
            found = {slot for slot in self._unasked if slot not in touched}
            found.update(slot for slot, hits in touched.items() if self._holds(slot, hits))
            return {self._names[slot] for slot in found}

    def places(self, name: str, event: EncryptedEvent) -> dict[int, int]:
        """Return which trapdoor satisfies which leaf: a subscriber needs it to decrypt.

        Args:
            name: the filter's id.
            event: the event after the broker's part.

        Returns:
            Number of the leaf -> place of the trapdoor in the event, satisfied leaves only.

        Raises:
            InputError: `unknown` when there is no filter of this name.
            RejectedError: `system` when the event belongs to another set-up.
        """
        check_same(event.system, self._system)
        with self._lock:
            if name not in self._slots:
                raise unknown("filter", name, ())
            slot, found = self._slots[name], dict[int, int]()
            for place, known in enumerate(self._all_known(event)):
                hits = known.hits.get(slot, 0)
                while hits:
                    found[(hits & -hits).bit_length() - 1] = place
                    hits &= hits - 1
            return found

    def _holds(self, slot: int, hits: int) -> bool:
        plan = self._targets[slot].plan
        if (hits & plan.positive).bit_count() < plan.least:
            return False
        return plan.holds(lambda leaf: bool(hits >> leaf & 1))

    def _all_known(self, event: EncryptedEvent) -> list[_Known]:
        known = [self._known(data) for data in event.trapdoors]
        while self._weight > self._limit:
            _, oldest = self._memory.popitem(last=False)
            self._weight -= oldest.weight
        return known

    def _known(self, data: bytes) -> _Known:
        known = self._memory.get(data)
        if known is None:
            known = self._memory[data] = _Known()
            self._weight += known.weight
        else:
            self._memory.move_to_end(data)
        if known.newest < self._newest:
            self._weight -= known.weight
            self._compare(data, known)
            self._weight += known.weight
        return known

    def _compare(self, data: bytes, known: _Known) -> None:
        """Compare a trapdoor with the filters that it has not met yet."""
        inverse = inverse_of(self._system.arithmetic, data)
        for slot in reversed(self._targets):
            if slot <= known.newest:
                break
            hits = self._targets[slot].leaves_of(inverse)
            if hits:
                known.hits[slot] = hits
        known.newest = self._newest

    def _forget(self, name: str) -> None:
        slot = self._slots.pop(name)
        del self._names[slot], self._targets[slot]
        self._unasked.discard(slot)
        for known in self._memory.values():
            if known.hits.pop(slot, None) is not None:
                self._weight -= 1
