"""Events and filters of order-preserving attributes as they travel (paper 003).

A publisher's client encrypts every attribute that its event type protects so, under the
attribute's current key; a subscriber's client does the same with what its filter asks of
them. While keys change, a filter is made under every key in which an event may come, as
alternatives: nothing of two epochs meets, and nothing is missed.

    values = pack(magic, EncryptedEvent, ...)                one a scheme, by scheme
    filter = pack(magic, pack(EncryptedSubscription, ...), ...)   alternatives; inside of one
                                                             one a scheme, all must match
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final, TypeAlias

from policyengine.attributes import And, Expression, Or, Test, Value, names
from policyengine.errors import DecodeError, InputError
from policyengine.events import EventTypes
from policyengine.ope.clients import Client
from policyengine.ope.conjunctions import conjunction
from policyengine.ope.keys import RangeKey
from policyengine.ope.wire import EncryptedEvent, EncryptedSubscription, Range, Scheme
from policyengine.primitives.canonical import pack, unpack_all
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

ORDER: Final = "order-preserving"
MAX_ALTERNATIVES: Final = 64
_VALUES: Final = b"portcullis/ordered-values/v1"
_FILTER: Final = b"portcullis/ordered-filter/v1"
_CLIENTS: Final = 4096

Alternative: TypeAlias = tuple[EncryptedSubscription, ...]


@dataclass(frozen=True)
class RangeValues:
    """The order-preserving attributes of an event's part.

    Args:
        events: one a scheme, schemes ascending.
    """

    events: tuple[EncryptedEvent, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns that have a value."""
        return tuple(name for event in self.events for name, _ in event.values)

    def only(self, columns: Iterable[str]) -> RangeValues:
        """Leave out every column but these."""
        kept = set(columns)
        events = (
            EncryptedEvent(one.scheme, tuple(each for each in one.values if each[0] in kept))
            for one in self.events
        )
        return RangeValues(tuple(one for one in events if one.values))

    def to_bytes(self) -> bytes:
        """Write the values; nothing at all where there are none."""
        if not self.events:
            return b""
        return pack(_VALUES, *(event.to_bytes() for event in self.events))

    @classmethod
    def from_bytes(cls, data: bytes) -> RangeValues:
        """Read what `to_bytes` wrote.

        Raises:
            DecodeError: anything else.
        """
        if not data:
            return cls(())
        magic, *rest = unpack_all(data, limit=3) or (b"",)
        events = tuple(EncryptedEvent.from_bytes(one) for one in rest)
        schemes = [event.scheme for event in events]
        wrong = sorted(set(schemes)) != schemes or "plain" in schemes
        if magic != _VALUES or not events or wrong or not all(one.values for one in events):
            raise DecodeError("not the order-preserving values of an event")
        return cls(events)


@dataclass(frozen=True)
class RangeFilter:
    """What a filter asks of order-preserving attributes.

    Args:
        alternatives: any one is enough; of one, every scheme must match.
    """

    alternatives: tuple[Alternative, ...]

    @property
    def columns(self) -> frozenset[str]:
        """Names of all columns that it looks at."""
        return frozenset(
            column
            for alternative in self.alternatives
            for one in alternative
            for column, _ in one.ranges
        )

    def to_bytes(self) -> bytes:
        """Write the filter."""
        written = (pack(*(one.to_bytes() for one in each)) for each in self.alternatives)
        return pack(_FILTER, *written)

    @classmethod
    def from_bytes(cls, data: bytes) -> RangeFilter:
        """Read what `to_bytes` wrote.

        Raises:
            DecodeError: anything else.
        """
        magic, *rest = unpack_all(data, limit=1 + MAX_ALTERNATIVES) or (b"",)
        if magic != _FILTER:
            raise DecodeError("not an order-preserving filter")
        return cls(tuple(_alternative(one) for one in rest))


def _alternative(data: bytes) -> Alternative:
    found = tuple(EncryptedSubscription.from_bytes(one) for one in unpack_all(data, limit=2))
    schemes = [one.scheme for one in found]
    if not found or sorted(set(schemes)) != schemes or "plain" in schemes:
        raise DecodeError("not an order-preserving filter")
    if any(one.never or not one.ranges for one in found):
        raise DecodeError("an alternative asks something that can be")
    return found


def split_filter(
    expression: Expression, inside: Iterable[str]
) -> tuple[Expression | None, Expression | None]:
    """Part a filter into what it asks of some attributes and what it asks of the others.

    Args:
        expression: the filter.
        inside: names of the attributes.

    Returns:
        Both parts, which must both hold; None for nothing.

    Raises:
        InputError: `unsupported` where `||`, `!` or `atLeast` joins the two, which nobody
            could decide who sees only one of them.
    """
    wanted = frozenset(inside)
    terms = expression.terms if isinstance(expression, And) else (expression,)
    parts: tuple[list[Expression], list[Expression]] = ([], [])
    for term in terms:
        found = frozenset(names(term))
        if found & wanted and not found <= wanted:
            both = ", ".join(f"`{name}`" for name in sorted(found))
            message = (
                f"{both} are matched apart from one another, so that a filter joins them by `&&`"
            )
            raise InputError("unsupported", message, where=sorted(found & wanted)[0])
        parts[0 if found & wanted else 1].append(term)
    return _joined(parts[0]), _joined(parts[1])


def _joined(terms: Sequence[Expression]) -> Expression | None:
    if len(terms) < 2:
        return terms[0] if terms else None
    return And(tuple(terms))


@dataclass(frozen=True)
class _Held:
    """A key, and whether new values are encrypted with it."""

    key: RangeKey
    current: bool


class RangeCipher:
    """Encrypts for the event types of one domain; safe for use by several threads.

    Args:
        types: the event types.
        keys: keys under which events may come, and whether each is the current one.
        random: source of nonces.
    """

    def __init__(
        self,
        types: EventTypes,
        keys: Iterable[tuple[RangeKey, bool]],
        *,
        random: RandomSource = SYSTEM_RANDOM,
    ) -> None:
        self._types = types
        self._random = random
        self._keys: defaultdict[tuple[str, str], list[_Held]] = defaultdict(list)
        for key, current in keys:
            self._keys[key.slot.type, key.slot.attribute].append(_Held(key, current))
        self._client = lru_cache(maxsize=_CLIENTS)(self._made)

    def attributes(self, event_type: str) -> tuple[str, ...]:
        """The order-preserving attributes of an event type.

        Raises:
            InputError: `unknown` for the type.
        """
        specs = self._types.attributes(event_type)
        return tuple(spec.name for spec in specs if spec.blind == ORDER)

    def slots(self, event_type: str) -> tuple[str, ...]:
        """Names of the slots of all keys that count for an event type, sorted.

        Raises:
            InputError: `unknown` for the type.
        """
        held = (self._held(event_type, name) for name in self.attributes(event_type))
        return tuple(sorted(one.key.slot.name for keys in held for one in keys))

    def encrypt_values(self, event_type: str, values: Mapping[str, Value]) -> RangeValues:
        """Encrypt what an event has of them, under the current keys.

        Args:
            event_type: its type.
            values: checked values; other attributes are left alone.

        Raises:
            InputError: `unknown` for the type, and where an attribute has no current key:
                the event cannot be published yet.
        """
        found: defaultdict[Scheme, list[tuple[str, bytes]]] = defaultdict(list)
        for name in self.attributes(event_type):
            if name not in values:
                continue
            held = [one for one in self._held(event_type, name) if one.current]
            if not held:
                raise _no_key(name)
            key = held[0].key
            event = self._client(key, event_type).encrypt_event({name: values[name]})
            renamed = self._renamed(key, event_type)
            found[key.scheme] += [(renamed[column], cipher) for column, cipher in event.values]
        return RangeValues(
            tuple(
                EncryptedEvent(scheme, tuple(sorted(columns)))
                for scheme, columns in sorted(found.items())
            )
        )

    def encrypt_filter(self, event_type: str, expression: Expression) -> RangeFilter:
        """Encrypt a filter that asks of order-preserving attributes only.

        Args:
            event_type: the subscription's type.
            expression: tests joined by `&&` and `||`.

        Raises:
            InputError: `unsupported` for `!`, `atLeast` and for more than 64 alternatives;
                `unknown` where an attribute has no key.
        """
        found: list[Alternative] = []
        for tests in _alternatives(expression):
            asked: defaultdict[str, list[Test]] = defaultdict(list)
            for test in tests:
                asked[test.attribute].append(test)
            choices = [self._choices(event_type, name) for name in asked]
            for keys in product(*choices):
                made = self._encrypted(event_type, list(zip(keys, asked.values(), strict=True)))
                found += [] if made is None else [made]
        if len(found) > MAX_ALTERNATIVES:
            raise InputError(
                "unsupported", f"the filter has more than {MAX_ALTERNATIVES} alternatives"
            )
        return RangeFilter(tuple(found))

    def _encrypted(
        self, event_type: str, asked: Sequence[tuple[RangeKey, Sequence[Test]]]
    ) -> Alternative | None:
        ranges: defaultdict[Scheme, list[tuple[str, tuple[Range, ...]]]] = defaultdict(list)
        for key, tests in asked:
            made = self._client(key, event_type).encrypt_subscription(And(tuple(tests)))
            if made.never:
                return None
            renamed = self._renamed(key, event_type)
            ranges[key.scheme] += [(renamed[column], found) for column, found in made.ranges]
        return tuple(
            EncryptedSubscription(scheme, tuple(sorted(found, key=lambda one: one[0])))
            for scheme, found in sorted(ranges.items())
        )

    def _choices(self, event_type: str, name: str) -> list[RangeKey]:
        held = self._held(event_type, name)
        if not held:
            raise _no_key(name)
        return [one.key for one in held]

    def _held(self, event_type: str, name: str) -> list[_Held]:
        line = (*reversed(self._types.ancestors(event_type)), event_type)
        return next((self._keys[one, name] for one in line if (one, name) in self._keys), [])

    def _made(self, key: RangeKey, event_type: str) -> Client:
        declared = self._types.attribute(event_type, key.slot.attribute).type
        return key.client(declared, random=self._random)

    def _renamed(self, key: RangeKey, event_type: str) -> dict[str, str]:
        client, attribute = self._client(key, event_type), key.slot.attribute
        declared = client.layout.schema[attribute]
        return {
            column: key.slot.column(declared, column.removeprefix(attribute))
            for column in client.layout.columns
        }


def _alternatives(expression: Expression) -> list[tuple[Test, ...]]:
    """Multiply a filter out; at most `MAX_ALTERNATIVES` conjunctions."""
    if isinstance(expression, Or):
        found = [one for term in expression.terms for one in _alternatives(term)]
    elif isinstance(expression, And):
        factors = [_alternatives(term) for term in expression.terms]
        size = 1
        for factor in factors:
            size *= len(factor)
        _check_count(size)
        found = [tuple(test for part in one for test in part) for one in product(*factors)]
    else:
        found = [conjunction(expression) or ()]
    _check_count(len(found))
    return found


def _check_count(number: int) -> None:
    if number > MAX_ALTERNATIVES:
        raise InputError("unsupported", f"the filter has more than {MAX_ALTERNATIVES} alternatives")


def _no_key(name: str) -> InputError:
    return InputError("unknown", f"no key of attribute `{name}` is held", where=name)
