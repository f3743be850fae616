"""An in-memory broker behind the transport port: queues, redelivery, outages on command."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from brokers.ports import Message, Outgoing, TransportError


@dataclass
class _Stored:
    number: int
    body: bytes
    headers: dict[str, str]


@dataclass
class MemoryBroker:
    """Queues that several transports share. `up` is the switch for outages."""

    queues: dict[str, deque[_Stored]] = field(default_factory=dict)
    condition: threading.Condition = field(default_factory=threading.Condition)
    up: bool = True
    refused: set[str] = field(default_factory=set)
    sent: int = 0

    def put(self, queue: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Store a message."""
        with self.condition:
            self.sent += 1
            self.queues.setdefault(queue, deque()).append(
                _Stored(self.sent, body, dict(headers or {}))
            )
            self.condition.notify_all()

    def bodies(self, queue: str) -> list[bytes]:
        """What stands in a queue, not taken yet."""
        with self.condition:
            return [stored.body for stored in self.queues.get(queue, ())]

    def give_back(self, queue: str, messages: Iterable[_Stored]) -> None:
        """Put unacknowledged messages back in their place."""
        with self.condition:
            waiting = self.queues.setdefault(queue, deque())
            merged = sorted([*waiting, *messages], key=lambda stored: stored.number)
            self.queues[queue] = deque(merged)
            self.condition.notify_all()


@dataclass
class _Subscription:
    queue: str
    prefetch: int
    cumulative: bool
    unacknowledged: list[_Stored] = field(default_factory=list)


@dataclass(frozen=True)
class _Handle:
    subscription: _Subscription
    stored: _Stored


class MemoryTransport:
    """The transport port on a `MemoryBroker`."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._subscriptions: dict[str, _Subscription] = {}
        self._started = False
        self._closed = False

    @property
    def connected(self) -> bool:
        """Whether the broker is up."""
        return self._started and self._broker.up and not self._closed

    def start(self) -> None:
        """Connect."""
        self._started = True

    def connect(self, timeout: float = 10.0) -> None:
        """Connect, and wait for the broker."""
        self.start()
        deadline = time.monotonic() + timeout
        while not self.connected:
            if time.monotonic() > deadline:
                raise TransportError("not connected to the broker")
            time.sleep(0.01)

    def subscribe(self, queue: str, *, prefetch: int = 100, cumulative: bool = False) -> None:
        """Take messages of a queue."""
        if queue in self._broker.refused:
            raise TransportError("the broker refused", refused=True)
        self._subscriptions.setdefault(queue, _Subscription(queue, prefetch, cumulative))

    def unsubscribe(self, queue: str) -> None:
        """Give a queue up."""
        subscription = self._subscriptions.pop(queue, None)
        if subscription is not None:
            self._broker.give_back(queue, subscription.unacknowledged)

    def receive_many(self, limit: int, timeout: float) -> list[Message]:
        """At most `limit` messages."""
        deadline = time.monotonic() + timeout
        with self._broker.condition:
            while True:
                found = self._take(limit) if self.connected else []
                left = deadline - time.monotonic()
                if found or left <= 0:
                    return found
                self._broker.condition.wait(left)

    def _take(self, limit: int) -> list[Message]:
        found: list[Message] = []
        for subscription in self._subscriptions.values():
            waiting = self._broker.queues.get(subscription.queue, deque())
            while (
                waiting
                and len(found) < limit
                and len(subscription.unacknowledged) < subscription.prefetch
            ):
                stored = waiting.popleft()
                subscription.unacknowledged.append(stored)
                found.append(self._message(_Handle(subscription, stored)))
        return found

    def _message(self, handle: _Handle) -> Message:
        def ack() -> None:
            self._ack(handle)

        stored = handle.stored
        return Message(handle.subscription.queue, stored.body, stored.headers, ack, handle)

    def ack(self, message: Message) -> None:
        """Acknowledge one message."""
        message.ack()

    def ack_many(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages."""
        for message in messages:
            message.ack()

    def _ack(self, handle: _Handle) -> None:
        subscription = handle.subscription
        with self._broker.condition:
            if handle.stored not in subscription.unacknowledged:
                return
            place = subscription.unacknowledged.index(handle.stored)
            first = 0 if subscription.cumulative else place
            del subscription.unacknowledged[first : place + 1]

    def send(self, queue: str, body: bytes, *, timeout: float = 30.0) -> None:
        """Send one message."""
        self.send_many([Outgoing(queue, body)], timeout=timeout)

    def send_many(self, messages: Iterable[Outgoing], *, timeout: float = 30.0) -> None:
        """Send all of them."""
        for message in messages:
            if not self.connected:
                raise TransportError("not connected to the broker")
            if message.queue in self._broker.refused:
                raise TransportError("the broker refused", refused=True)
            self._broker.put(message.queue, message.body, dict(message.headers))

    def close(self) -> None:
        """Disconnect; what was not acknowledged goes back."""
        self._closed = True
        for queue in list(self._subscriptions):
            self.unsubscribe(queue)
