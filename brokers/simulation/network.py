"""Brokers in memory and the lines to them: delays, lost connections, outages, redelivery.

A broker keeps persistent messages over a crash and gives messages again that were not
acknowledged when their consumer's connection ended, in their old order and without any
mark, as ActiveMQ does for STOMP clients.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from brokers.ports import Message, Outgoing, TransportError
from brokers.simulation.chance import Chance
from brokers.simulation.timeline import START, Timeline
from policyengine.bundles import hop_kind

_DEAD = "pc.dead."


def _kind(outgoing: Outgoing) -> str:
    """The kind of its queue; what agents tell one another beside events is told apart."""
    kind = outgoing.queue.split(".")[1]
    if kind != "hop" or (told := hop_kind(outgoing.body)) in ("event", "carried"):
        return kind
    return told


class Station(Protocol):
    """The node at the near end of a line."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""

    def wake(self) -> None:
        """Something arrived, or a connection came back."""

    def guard(self, where: str) -> None:
        """A point at which the node may crash."""

    def busy(self, seconds: float) -> None:
        """It waits for so long before it goes on."""


@dataclass(frozen=True)
class Weather:
    """How the network behaves.

    Args:
        delay: shortest and longest seconds from a node to a broker, or back.
        loss: probability that a connection breaks while something is sent or acknowledged.
        reconnect: shortest and longest seconds until a node tries to connect again.
    """

    delay: tuple[float, float] = (0.001, 0.005)
    loss: float = 0.0
    reconnect: tuple[float, float] = (0.2, 2.0)


@dataclass(frozen=True, order=True)
class _Stored:
    place: tuple[float, int]
    outgoing: Outgoing = field(compare=False)
    ready: float = field(compare=False)

    def expired(self, now: float) -> bool:
        expires = self.outgoing.expires
        return expires is not None and expires <= (START + now) * 1000


class MemoryBroker:
    """One ActiveMQ.

    Args:
        name: its name.
        timeline: gives the time.
    """

    def __init__(self, name: str, timeline: Timeline) -> None:
        self.name = name
        self.up = True
        self.sent: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self._timeline = timeline
        self._order = count()
        self._queues: dict[str, list[_Stored]] = {}
        self._consumers: dict[str, dict[str, Line]] = {}
        self._discarded: Callable[[str], bool] = lambda queue: False
        self._watchers: list[Callable[[str, str, str], None]] = []

    def discard(self, queue: Callable[[str], bool]) -> None:
        """Count messages to such queues, and throw them away."""
        self._discarded = queue

    def watch(self, watcher: Callable[[str, str, str], None]) -> None:
        """Tell somebody the sender, the kind and the queue of every message."""
        self._watchers.append(watcher)

    def waiting(self, queue: str) -> int:
        """Messages that stand in a queue, not taken yet."""
        return len(self._queues.get(queue, ()))

    @property
    def idle(self) -> bool:
        """Whether nothing waits in any queue, those for what was put aside left out."""
        return not any(
            stored for queue, stored in self._queues.items() if not queue.startswith(_DEAD)
        )

    def bodies(self, queue: str) -> list[bytes]:
        """What stands in a queue."""
        return [stored.outgoing.body for stored in self._queues.get(queue, ())]

    def put(self, sender: str, outgoing: Outgoing, *, arrival: float, ready: float) -> None:
        """Take a message into keeping; consumers get it when it is ready."""
        kind = _kind(outgoing)
        self.sent[kind] += 1
        self.bytes[kind] += len(outgoing.body)
        for watcher in self._watchers:
            watcher(sender, kind, outgoing.queue)
        if self._discarded(outgoing.queue):
            return
        stored = _Stored((arrival, next(self._order)), outgoing, ready)
        bisect.insort(self._queues.setdefault(outgoing.queue, []), stored)
        self._timeline.at(ready, lambda: self._wake(outgoing.queue))

    def take(self, queue: str, limit: int) -> list[_Stored]:
        """What is ready at the head of a queue."""
        now = self._timeline.now
        waiting = self._queues.get(queue, [])
        taken: list[_Stored] = []
        place = 0
        while place < len(waiting) and len(taken) < limit and waiting[place].ready <= now:
            if not waiting[place].expired(now):
                taken.append(waiting[place])
            place += 1
        del waiting[:place]
        return taken

    def give_back(self, queue: str, messages: Iterable[_Stored]) -> None:
        """Put messages that were not acknowledged back in their place."""
        waiting = self._queues.setdefault(queue, [])
        for stored in messages:
            if self.up or stored.outgoing.persistent:
                bisect.insort(waiting, stored)
        self._wake(queue)

    def consume(self, queue: str, line: Line) -> None:
        """A line takes messages of a queue from now on."""
        self._consumers.setdefault(queue, {})[line.station] = line
        self._wake(queue)

    def leave(self, queue: str, line: Line) -> None:
        """A line takes no more messages of a queue."""
        consumers = self._consumers.get(queue, {})
        if consumers.get(line.station) is line:
            del consumers[line.station]

    def _wake(self, queue: str) -> None:
        for line in list(self._consumers.get(queue, {}).values()):
            line.arrived()

    def crash(self, lines: Iterable[Line]) -> None:
        """Fall: every connection ends, what was not persistent is lost."""
        self.up = False
        for line in lines:
            line.drop()
        for waiting in self._queues.values():
            waiting[:] = [stored for stored in waiting if stored.outgoing.persistent]

    def restart(self) -> None:
        """Come back; nodes connect again by themselves."""
        self.up = True


@dataclass
class _Subscription:
    queue: str
    prefetch: int
    cumulative: bool
    unacknowledged: list[_Stored] = field(default_factory=list)


class Line:
    """The transport port between one node and one broker.

    Args:
        station: the node.
        broker: the broker.
        timeline: gives the time.
        weather: how the network behaves.
        chance: a stream of this line alone.
    """

    def __init__(
        self,
        station: Station,
        broker: MemoryBroker,
        timeline: Timeline,
        weather: Weather,
        chance: Chance,
    ) -> None:
        self._node = station
        self._broker = broker
        self._timeline = timeline
        self._weather = weather
        self._chance = chance
        self._subscriptions: dict[str, _Subscription] = {}
        self._last_arrival = 0.0
        self._up = False
        self._closed = False
        self._trying = False
        self.cut = False
        self.taken = 0

    @property
    def station(self) -> str:
        """Name of the node."""
        return self._node.name

    @property
    def broker(self) -> MemoryBroker:
        """The broker at the far end."""
        return self._broker

    @property
    def connected(self) -> bool:
        """Whether the connection stands."""
        return self._up

    # connecting

    def start(self) -> None:
        """Connect; a later start changes nothing."""
        if not (self._up or self._trying or self._closed):
            self._trying = True
            self._timeline.after(self._chance.between(*self._weather.delay), self._try)

    def _try(self) -> None:
        self._trying = False
        if self._closed or not self._node.alive:
            return
        if self.cut or not self._broker.up:
            self._trying = True
            self._timeline.after(self._chance.between(*self._weather.reconnect), self._try)
            return
        self._up = True
        for queue in self._subscriptions:
            self._broker.consume(queue, self)
        self._node.wake()

    def drop(self) -> None:
        """The connection breaks; the node connects again by itself."""
        if not self._up:
            return
        self._up = False
        self._return_all()
        if not self._closed:
            self._trying = True
            self._timeline.after(self._chance.between(*self._weather.reconnect), self._try)

    def _return_all(self) -> None:
        for subscription in self._subscriptions.values():
            self._broker.leave(subscription.queue, self)
            unacknowledged, subscription.unacknowledged = subscription.unacknowledged, []
            self._broker.give_back(subscription.queue, unacknowledged)

    def close(self) -> None:
        """End the connection for good."""
        self._closed = True
        if self._up:
            self._up = False
            self._return_all()

    # receiving

    def subscribe(self, queue: str, *, prefetch: int = 100, cumulative: bool = False) -> None:
        """Take messages of a queue; holds over reconnects."""
        if queue not in self._subscriptions:
            self._subscriptions[queue] = _Subscription(queue, prefetch, cumulative)
            if self._up:
                self._broker.consume(queue, self)

    def unsubscribe(self, queue: str) -> None:
        """Give a queue up; what was not acknowledged goes back to the broker."""
        subscription = self._subscriptions.pop(queue, None)
        if subscription is not None and self._up:
            self._broker.leave(queue, self)
            self._broker.give_back(queue, subscription.unacknowledged)

    def arrived(self) -> None:
        """The broker has something for this line."""
        if self._up:
            self._node.wake()

    def receive_many(self, limit: int, timeout: float) -> list[Message]:
        """What is there now, at most `limit` messages; nobody waits in virtual time."""
        found: list[Message] = []
        if not self._up:
            return found
        for subscription in self._subscriptions.values():
            room = subscription.prefetch - len(subscription.unacknowledged)
            taken = self._broker.take(subscription.queue, min(limit - len(found), room))
            subscription.unacknowledged.extend(taken)
            found.extend(self._message(subscription, stored) for stored in taken)
        self.taken += len(found)
        return found

    def _message(self, subscription: _Subscription, stored: _Stored) -> Message:
        def ack() -> None:
            self._acknowledge([(subscription, stored)])

        outgoing = stored.outgoing
        handle = (subscription, stored)
        return Message(outgoing.queue, outgoing.body, dict(outgoing.headers), ack, handle)

    def ack_many(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages; the last may be lost on the way."""
        pairs = [message.handle for message in messages]
        self._acknowledge([pair for pair in pairs if isinstance(pair, tuple)])

    def _acknowledge(self, pairs: Sequence[tuple[_Subscription, _Stored]]) -> None:
        self._node.guard("ack")
        if not self._up:
            return
        if self._chance.happens(self._weather.loss):
            self.drop()
            return
        for subscription, stored in pairs:
            held = subscription.unacknowledged
            if stored in held:
                place = held.index(stored)
                del held[0 if subscription.cumulative else place : place + 1]
        self._node.guard("acked")
        if any(self._broker.waiting(subscription.queue) for subscription, _ in pairs):
            self._node.wake()

    # sending

    def send_many(self, messages: Iterable[Outgoing], *, timeout: float = 30.0) -> None:
        """Send all of them; returns when the broker has every one in its keeping.

        Raises:
            TransportError: the connection is, or was, broken: nobody knows what was kept.
        """
        self._node.guard("send")
        if not self._up:
            raise TransportError("not connected to the broker")
        batch = list(messages)
        broken = self._chance.happens(self._weather.loss)
        kept = self._chance.below(len(batch) + 1) if broken else len(batch)
        delay = self._chance.between(*self._weather.delay)
        arrival = max(self._last_arrival, self._timeline.now + delay)
        self._last_arrival = arrival
        for outgoing in batch[:kept]:
            self._node.guard("sending")
            ready = arrival + self._chance.between(*self._weather.delay)
            self._broker.put(self._node.name, outgoing, arrival=arrival, ready=ready)
        self._node.busy(2 * delay)
        if broken:
            self.drop()
            raise TransportError("the connection broke while sending")
        self._node.guard("sent")
