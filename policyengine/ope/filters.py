"""The agent's side: which order-preserving filters an event meets (paper 003, Alg. 3 and 5).

Filters are entered into the index when an event first could meet them, so that a comparator
that is away, or has not got a new key yet, holds up the events that need it and nothing else.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from policyengine.errors import DecryptionError, InputError
from policyengine.ope.broker import Broker, sbm1_broker, sbm2_broker
from policyengine.ope.comparator import Comparator, Question
from policyengine.ope.ranges import RangeFilter, RangeValues
from policyengine.ope.wire import EncryptedSubscription, Scheme

_DAMAGED: Final = (DecryptionError, InputError)
_Group: TypeAlias = tuple[Scheme, frozenset[str]]


@dataclass(frozen=True)
class _Entry:
    """What one alternative of a filter asks in one scheme."""

    name: str
    scheme: Scheme
    alternative: tuple[Hashable, int]
    asked: EncryptedSubscription

    @property
    def group(self) -> _Group:
        return self.scheme, frozenset(column for column, _ in self.asked.ranges)


class RangeIndex:
    """Order-preserving filters by key; safe for use by several threads.

    Args:
        comparator: compares ciphertexts of SBM-II; None where there is none, and no filter of
            that scheme is ever met.
    """

    def __init__(self, comparator: Comparator | None = None) -> None:
        self._lock = threading.Lock()
        self._brokers: dict[Scheme, Broker] = {"sbm1": sbm1_broker()}
        self._comparator = comparator
        if comparator is not None:
            self._brokers["sbm2"] = sbm2_broker(comparator)
        self._filters: dict[Hashable, RangeFilter] = {}
        self._entries: dict[str, _Entry] = {}
        self._by_key: defaultdict[Hashable, list[str]] = defaultdict(list)
        self._waiting: dict[_Group, dict[str, _Entry]] = {}
        self._needed: dict[tuple[Hashable, int], int] = {}
        self._broken: set[str] = set()
        self._count = 0

    def __len__(self) -> int:
        """Return how many filters there are."""
        return len(self._filters)

    @property
    def broken(self) -> frozenset[Hashable]:
        """Filters with a ciphertext that does not open; nothing meets that part of them."""
        with self._lock:
            return frozenset(self._entries[name].alternative[0] for name in self._broken)

    def replace(self, filters: Mapping[Hashable, RangeFilter]) -> None:
        """Make these the filters; what stays the same is not touched.

        Args:
            filters: by key.
        """
        with self._lock:
            for key in [key for key, held in self._filters.items() if filters.get(key) != held]:
                self._remove(key)
            for key, wanted in filters.items():
                if key not in self._filters:
                    self._add(key, wanted)

    def match(self, values: RangeValues) -> frozenset[Hashable]:
        """Return the keys of the filters that an event meets.

        Args:
            values: the event's order-preserving values.

        Raises:
            DecryptionError: a ciphertext of the event does not open.
            Exception: whatever the comparator raises where it cannot be asked; nothing is
                lost, and the event can be matched again.
        """
        with self._lock:
            self._enter(frozenset(values.columns))
            hits: defaultdict[tuple[Hashable, int], int] = defaultdict(int)
            for event in values.events:
                broker = self._brokers.get(event.scheme)
                for name in broker.match(event) if broker else ():
                    hits[self._entries[name].alternative] += 1
            # of an alternative, every scheme must match
            return frozenset(one[0] for one, found in hits.items() if found == self._needed[one])

    def _add(self, key: Hashable, wanted: RangeFilter) -> None:
        self._filters[key] = wanted
        for number, alternative in enumerate(wanted.alternatives):
            self._needed[key, number] = len(alternative)
            for asked in alternative:
                self._count += 1
                entry = _Entry(f"f{self._count}", asked.scheme, (key, number), asked)
                self._entries[entry.name] = entry
                self._by_key[key].append(entry.name)
                self._waiting.setdefault(entry.group, {})[entry.name] = entry

    def _remove(self, key: Hashable) -> None:
        wanted = self._filters.pop(key)
        for name in self._by_key.pop(key, ()):
            entry = self._entries.pop(name)
            waiting = self._waiting.get(entry.group, {})
            if waiting.pop(name, None) is None and name not in self._broken:
                self._brokers[entry.scheme].remove(name)
            if not waiting:
                self._waiting.pop(entry.group, None)
            self._broken.discard(name)
        for number in range(len(wanted.alternatives)):
            del self._needed[key, number]

    def _enter(self, columns: frozenset[str]) -> None:
        """Enter the filters that an event with these columns could meet."""
        for group in [group for group in self._waiting if group[1] <= columns]:
            broker = self._brokers.get(group[0])
            if broker is not None:
                self._enter_all(broker, self._waiting[group])
                del self._waiting[group]

    def _enter_all(self, broker: Broker, waiting: dict[str, _Entry]) -> None:
        try:
            self._check(waiting.values())
            broker.add_many({name: entry.asked for name, entry in waiting.items()})
        except _DAMAGED:
            # one of them is damaged: the others still count
            for name, entry in list(waiting.items()):
                self._enter_one(broker, name, entry)
                del waiting[name]

    def _check(self, entries: Iterable[_Entry]) -> None:
        """Have every bound opened, for one that does not open would spoil the whole order."""
        questions = [
            Question(column, end, ())
            for entry in entries
            if entry.scheme == "sbm2"
            for column, ranges in entry.asked.ranges
            for one in ranges
            for end in (one.low, one.high)
            if end is not None
        ]
        if questions and self._comparator is not None:
            self._comparator.compare(questions)

    def _enter_one(self, broker: Broker, name: str, entry: _Entry) -> None:
        try:
            self._check((entry,))
            broker.add(name, entry.asked)
        except DecryptionError:
            self._broken.add(name)
        except InputError as error:
            if error.kind != "invalid":
                raise  # the comparator has no such key yet
            self._broken.add(name)
