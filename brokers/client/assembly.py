"""From deliveries to whole events: doubles out, parts together, filters asked. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from brokers.client.unknowns import may_be_met
from brokers.data.reasons import MATCH_ONLY
from brokers.data.subscriptions import compile_filter, meets
from policyengine.attributes import Expression, Value
from policyengine.bundles import Delivery
from policyengine.errors import InputError
from policyengine.events import EventTypes
from policyengine.primitives.canonical import pack
from policyengine.privacy import Reassembler

_WINDOW = 10_000


@dataclass(frozen=True)
class Event:
    """An event as this subscriber may see it.

    Args:
        type: its event type.
        publication: its identifier, 32 hexadecimal digits.
        attributes: name -> value.
        withheld: name -> why it is not among them (`brokers.data.reasons`).
        publisher: the publisher's handle.
        domain: where it was published.
    """

    type: str
    publication: str
    attributes: Mapping[str, Value]
    withheld: Mapping[str, str]
    publisher: str
    domain: str = ""


@dataclass(frozen=True)
class Whole:
    """An event that is complete, with what its parts came in.

    Args:
        event: the event.
        key: names it for the window against doubles.
        carriers: whatever was given with each part; doubles that come before the event is
            handled are added.
    """

    event: Event
    key: bytes
    carriers: list[object]


@dataclass(frozen=True)
class Taken:
    """What became of a delivery.

    Args:
        whole: the event, if this part made it complete.
        double: True where the event was handled before: the carrier is done with.
    """

    whole: Whole | None = None
    double: bool = False


def event_key(publisher: str, publication: str, foreign: str = "") -> bytes:
    """Names an event for the window against doubles.

    Args:
        publisher: the publisher's handle.
        publication: 32 hexadecimal digits.
        foreign: the domain, where it is not the subscriber's own.
    """
    named = (publisher, publication, foreign) if foreign else (publisher, publication)
    packed = pack(*(each.encode() for each in named))
    return blake2b(packed, digest_size=16).digest()


class Assembly:
    """Puts deliveries together.

    Args:
        seen: whether an event's key was handled within the window.
        domain: the subscriber's own.
    """

    def __init__(self, seen: Callable[[bytes], bool], domain: str = "") -> None:
        self._seen = seen
        self._domain = domain
        self._reassembler = Reassembler(_WINDOW)
        self._carriers: dict[str, list[object]] = {}
        self._unhandled: dict[bytes, Whole] = {}

    @property
    def incomplete(self) -> int:
        """Events of which a part is awaited."""
        return len(self._reassembler)

    def add(self, delivery: Delivery, carrier: object, *, now: float) -> Taken:
        """Take a delivery.

        Args:
            delivery: verified.
            carrier: given back with the whole event, so that it can be acknowledged.
            now: seconds on the boot-time clock.

        Raises:
            InputError: the parts contradict one another.
        """
        foreign = "" if delivery.domain == self._domain else delivery.domain
        key = event_key(delivery.publisher, delivery.publication, foreign)
        if key in self._unhandled:
            # Not done with: the event is not handled yet, and this may be all that is left
            # of it at the broker.
            self._unhandled[key].carriers.append(carrier)
            return Taken()
        if self._seen(key):
            return Taken(double=True)
        return Taken(whole=self._complete(key, delivery, carrier, now))

    def _complete(
        self, key: bytes, delivery: Delivery, carrier: object, now: float
    ) -> Whole | None:
        name = key.hex()
        complete = self._reassembler.add(
            name, delivery.part, delivery.parts, delivery.attributes, delivery.withheld, now=now
        )
        carriers = self._carriers.setdefault(name, [])
        carriers.append(carrier)
        if complete is None:
            return None
        withheld: dict[str, str] = {}
        for part in complete.meta:
            withheld.update(part)
        event = Event(
            type=delivery.type,
            publication=delivery.publication,
            attributes=complete.values,
            withheld=withheld,
            publisher=delivery.publisher,
            domain=delivery.domain,
        )
        del self._carriers[name]
        self._unhandled[key] = Whole(event, key, carriers)
        return self._unhandled[key]

    def handled(self, whole: Whole) -> None:
        """The event's key stands in the window now."""
        self._unhandled.pop(whole.key, None)

    def give_up(self, now: float, seconds: float) -> list[tuple[object, ...]]:
        """Give up events whose parts have waited for too long.

        Args:
            now: seconds on the clock of `add`.
            seconds: how long a part waits for the others.

        Returns:
            The carriers of each event given up.
        """
        expired = self._reassembler.expire(now, seconds)
        return [tuple(self._carriers.pop(name, ())) for name in expired]


@dataclass(frozen=True)
class Interests:
    """What the subscriber asked for, compiled against the types in force."""

    types: EventTypes
    wanted: tuple[tuple[str, Expression | None], ...]

    @classmethod
    def build(cls, types: EventTypes, subscriptions: Iterable[tuple[str, str]]) -> Interests:
        """Compile (type, filter) pairs; one that fits no type in force is never met."""
        wanted = []
        for event_type, text in subscriptions:
            try:
                expression = compile_filter(text, types.attributes(event_type))
            except InputError:
                continue
            wanted.append((event_type, expression))
        return cls(types, tuple(wanted))

    def meet(self, event: Event) -> bool:
        """Whether one of the subscriptions wants a whole event."""
        try:
            line = {event.type, *self.types.ancestors(event.type)}
        except InputError:
            return False
        # What nobody can read the home agent has matched.
        unknown = [name for name, why in event.withheld.items() if why == MATCH_ONLY]
        return any(name in line and _meets(one, event, unknown) for name, one in self.wanted)


def _meets(expression: Expression | None, event: Event, unknown: Collection[str]) -> bool:
    if expression is None or not unknown:
        return meets(expression, event.attributes)
    return may_be_met(expression, event.attributes, unknown)
