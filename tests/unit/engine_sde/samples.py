"""A small system with a publisher, a subscriber and a broker."""

from __future__ import annotations

from policyengine.attributes import (
    AttributeType,
    Element,
    Expression,
    Leaf,
    Ranges,
    Schema,
    Value,
    access_tree,
    parse,
)
from policyengine.primitives import SeededRandom
from policyengine.primitives.rand import RandomSource
from policyengine.sde import (
    EncryptedEvent,
    EncryptedFilter,
    GroupName,
    MasterKey,
    Shares,
    encrypt_event,
    encrypt_filter,
    init,
    keygen,
)

GROUPS: tuple[GroupName, ...] = ("curve", "zp1024")
SCHEMA: Schema = {
    "zone": AttributeType("string"),
    "level": AttributeType("int", 0, 15),
    "on": AttributeType("bool"),
}


class World:
    """Keys of one system; the publisher's and the subscriber's differ."""

    def __init__(self, group: GroupName = "curve", seed: bytes = b"world") -> None:
        self.random: RandomSource = SeededRandom(seed)
        self.master: MasterKey = init(group, random=self.random)
        self.group = self.master.system.arithmetic
        self.publisher, self.of_publisher = keygen(self.master, "pat", random=self.random)
        self.subscriber, self.of_subscriber = keygen(self.master, "sam", random=self.random)
        self.broker = Shares()
        self.broker.add(self.of_publisher)
        self.broker.add(self.of_subscriber)

    def event(
        self,
        values: dict[str, Value],
        schema: Schema = SCHEMA,
        *,
        ranges: Ranges = "dyadic",
        padding: int = 1,
    ) -> EncryptedEvent:
        """Encrypt an event, both halves."""
        prepared = encrypt_event(
            self.publisher, values, schema, ranges=ranges, padding=padding, random=self.random
        )
        return self.broker.event(prepared.event)

    def filter(
        self,
        asked: str | Expression,
        schema: Schema = SCHEMA,
        *,
        ranges: Ranges = "dyadic",
    ) -> EncryptedFilter:
        """Encrypt a filter, both halves."""
        expression = parse(asked, schema) if isinstance(asked, str) else asked
        tree = access_tree(expression, schema, ranges=ranges)
        return self.broker.filter(encrypt_filter(self.subscriber, tree, random=self.random).filter)

    def trapdoor(self, element: Element) -> bytes:
        """Compute h^sigma of an element as only the authority can."""
        sigma = self.publisher.sigma(element.token)
        return self.group.encode(self.group.generated(self.master.exponent * sigma))

    def leaf(self, element: Element, *, negated: bool = False) -> EncryptedFilter:
        """Encrypt a filter of one leaf."""
        prepared = encrypt_filter(self.subscriber, Leaf(element, negated), random=self.random)
        return self.broker.filter(prepared.filter)


class Scripted:
    """A random source that gives what it was told, then a seeded stream."""

    def __init__(self, *tokens: bytes) -> None:
        self._tokens = list(tokens)
        self._rest = SeededRandom(b"rest")

    def token(self, size: int) -> bytes:
        """Return the next bytes."""
        return self._tokens.pop(0).rjust(size, b"\0") if self._tokens else self._rest.token(size)
