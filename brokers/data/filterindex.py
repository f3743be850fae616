"""Filters filed by what they ask for, so that an event looks at few of them.

A filter's normal form is a list of conjunctions. Each is filed once: by hash under an equality, a
prefix or a suffix that few others ask for, or else with all its tests as intervals, of which an
index combines one bitmap an attribute by AND (paper 003, Alg. 5, over values in clear). What is
found may be met and is still to be tried; what is not found is not met.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

from policyengine.attributes import And, Expression, Literal, Schema, Test, Value, normalise
from policyengine.errors import InputError
from policyengine.ope import (
    COMPACT_ROWS,
    EncryptedEvent,
    EncryptedSubscription,
    Range,
    SortedLocator,
)
from policyengine.ope import SubscriptionIndex as BitmapIndex

MOST_CONJUNCTIONS = 64
"""Conjunctions of a filter beyond which it is tried with every event."""
_MOST_MEMBERS = 64
_CROWD = 64

K = TypeVar("K", bound=Hashable)
Place = tuple[str, str, Value]
"""Attribute, `==`, `startsWith` or `endsWith`, and the value or part of it."""


@dataclass(frozen=True)
class _Filed:
    """Where the conjunctions of one filter stand."""

    places: tuple[Place, ...]
    ranges: tuple[str, ...]


@dataclass
class _Parts:
    """How long the prefixes or suffixes are that are asked for of an attribute."""

    lengths: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def count(self, length: int, by: int) -> None:
        """Note one more or one fewer of a length."""
        self.lengths[length] += by
        if not self.lengths[length]:
            del self.lengths[length]


class FilterIndex(Generic[K]):
    """Filters of one event type by key; it changes in place and is for one thread.

    Args:
        schema: types of the event type's attributes.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = dict(schema)
        self._filed: dict[K, _Filed] = {}
        self._hashed: dict[Place, dict[K, None]] = {}
        self._parts: dict[tuple[str, str], _Parts] = defaultdict(_Parts)
        self._bitmaps = BitmapIndex(SortedLocator(), rows=COMPACT_ROWS)
        self._ranged: dict[str, K] = {}
        self._numbers = count()

    def __len__(self) -> int:
        """Return how many filters are filed."""
        return len(self._filed)

    def add(self, filters: Mapping[K, Expression]) -> list[K]:
        """File filters.

        Args:
            filters: by key; a key is filed once.

        Returns:
            The keys of those that cannot be filed, for they ask for nothing that an event must
            have: they are to be tried with every event.
        """
        left: list[K] = []
        ranges: dict[str, EncryptedSubscription] = {}
        for key, expression in filters.items():
            ways = _ways(expression, self._schema)
            if ways is None:
                left.append(key)
                continue
            places: dict[Place, None] = {}
            named: dict[str, EncryptedSubscription] = {}
            for way in ways:
                if way.ranges is not None and self._crowded(way.places):
                    named[f"r{next(self._numbers)}"] = way.ranges
                else:
                    places |= dict.fromkeys(way.places)
            for place in places:
                self._file(place, key)
            ranges |= named
            self._ranged |= dict.fromkeys(named, key)
            self._filed[key] = _Filed(tuple(places), tuple(named))
        self._bitmaps.add(ranges)
        return left

    def _crowded(self, places: tuple[Place, ...]) -> bool:
        """Whether a hash tells too little: bitmaps then tell more, for they combine all tests."""
        return not places or any(len(self._hashed.get(one, ())) >= _CROWD for one in places)

    def _file(self, place: Place, key: K) -> None:
        attribute, how, value = place
        if how != "==" and place not in self._hashed:
            self._parts[attribute, how].count(len(str(value)), 1)
        self._hashed.setdefault(place, {})[key] = None

    def remove(self, key: K) -> None:
        """Take a filter out; one that is not filed is none of ours."""
        filed = self._filed.pop(key, None)
        if filed is None:
            return
        for place in filed.places:
            self._unfile(place, key)
        for name in filed.ranges:
            del self._ranged[name]
            self._bitmaps.remove(name)

    def _unfile(self, place: Place, key: K) -> None:
        attribute, how, value = place
        del self._hashed[place][key]
        if self._hashed[place]:
            return
        del self._hashed[place]
        if how != "==":
            parts = self._parts[attribute, how]
            parts.count(len(str(value)), -1)
            if not parts.lengths:
                del self._parts[attribute, how]

    def candidates(self, values: Mapping[str, Value]) -> set[K]:
        """The keys of filters that an event may meet, of which fewer attributes may be shown.

        Args:
            values: attribute name -> value, all that are known.
        """
        found: set[K] = set()
        for place in self._places(values):
            found.update(self._hashed.get(place, ()))
        if self._ranged:
            found.update(self._in_range(values))
        return found

    def _places(self, values: Mapping[str, Value]) -> Iterable[Place]:
        for name, value in values.items():
            yield name, "==", value
        for (name, how), parts in self._parts.items():
            text = values.get(name)
            if isinstance(text, str):
                for length in parts.lengths:
                    if length <= len(text):
                        part = text[:length] if how == "startsWith" else text[-length:]
                        yield name, how, part

    def _in_range(self, values: Mapping[str, Value]) -> Iterable[K]:
        columns = sorted((name, ordered(value)) for name, value in values.items())
        names = self._bitmaps.match(EncryptedEvent("plain", tuple(columns)))
        return (self._ranged[name] for name in names)


# -- taking filters apart --------------------------------------------------------------------


@dataclass(frozen=True)
class _Way:
    """How a conjunction may be filed: at all of some places, or by intervals, which all hold."""

    places: tuple[Place, ...]
    ranges: EncryptedSubscription | None


def _ways(expression: Expression, schema: Schema) -> list[_Way] | None:
    """How each conjunction of a filter may be filed; None where one cannot be."""
    conjunctions = _conjunctions(expression, schema)
    if conjunctions is None:
        return None
    found = [_Way(_places_of(literals), _intervals(literals)) for literals in conjunctions]
    return found if all(way.places or way.ranges is not None for way in found) else None


def _conjunctions(expression: Expression, schema: Schema) -> list[list[Literal]] | None:
    tests = expression.terms if isinstance(expression, And) else (expression,)
    if all(isinstance(test, Test) for test in tests):
        # Most filters are of this form, and a normal form costs far more.
        return [[Literal(t.attribute, t.op, t.value) for t in tests if isinstance(t, Test)]]
    try:
        ways = normalise(expression, schema, limit=MOST_CONJUNCTIONS)
    except InputError:
        return None
    return [[one for one in way if isinstance(one, Literal)] for way in ways]


def _places_of(literals: Iterable[Literal]) -> tuple[Place, ...]:
    """Where an event that meets a conjunction is found by hash, by the test that tells most."""
    found = [one for one in map(_hashable, literals) if one is not None]
    return min(found, key=lambda one: one[0])[1] if found else ()


def _hashable(literal: Literal) -> tuple[int, tuple[Place, ...]] | None:
    """Where an event that passes a test is found by hash; a lower number tells more."""
    name, op, value = literal.attribute, literal.op, literal.value
    if op == "==" and not isinstance(value, tuple) and value is not None:
        # A truth value tells apart only half of all events.
        return (3 if isinstance(value, bool) else 0), ((name, op, value),)
    if op == "in" and isinstance(value, tuple) and 0 < len(value) <= _MOST_MEMBERS:
        return 1, tuple((name, "==", member) for member in value)
    if op in ("startsWith", "endsWith") and isinstance(value, str) and value:
        return 2, ((name, op, value),)
    return None


_Span = tuple[bytes | None, bytes | None]


def _intervals(literals: Iterable[Literal]) -> EncryptedSubscription | None:
    """What a conjunction asks as intervals, ends included: whatever meets it is inside."""
    bounds: dict[str, _Span] = {}
    for literal in literals:
        span = _span(literal)
        if span is not None:
            low, high = bounds.get(literal.attribute, (None, None))
            lows = [one for one in (low, span[0]) if one is not None]
            highs = [one for one in (high, span[1]) if one is not None]
            bounds[literal.attribute] = (max(lows, default=None), min(highs, default=None))
    if not bounds:
        return None
    if any(low is not None and high is not None and low > high for low, high in bounds.values()):
        return EncryptedSubscription("plain", (), never=True)
    ranges = ((name, (Range(low, high),)) for name, (low, high) in sorted(bounds.items()))
    return EncryptedSubscription("plain", tuple(ranges))


def _span(literal: Literal) -> _Span | None:
    """The interval that a test asks for, ends included; None where it is no interval."""
    op, value = literal.op, literal.value
    if value is None:
        return None
    if isinstance(value, tuple):
        ends = sorted(ordered(member) for member in value) if op == "in" else []
        return (ends[0], ends[-1]) if ends else None
    end = ordered(value)
    if op == "startsWith":
        return end, end + b"\xff"  # no text in UTF-8 has this byte
    spans: dict[str, _Span] = {
        "==": (end, end), "<": (None, end), "<=": (None, end), ">": (end, None), ">=": (end, None),
    }  # fmt: skip
    return spans.get(op)


def ordered(value: Value) -> bytes:
    """A value as bytes that are in the order of values of its kind.

    Numbers that a float cannot tell apart become equal, and never change places.
    """
    if isinstance(value, str):
        return value.encode()
    try:
        packed = struct.pack(">d", float(value) + 0.0)
    except OverflowError:
        packed = struct.pack(">d", float("inf") if value > 0 else float("-inf"))
    bits = int.from_bytes(packed, "big")
    bits = bits ^ (2**64 - 1) if bits >> 63 else bits | 2**63
    return bits.to_bytes(8, "big")
