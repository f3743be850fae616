"""The transport port on ActiveMQ over STOMP 1.2.

A thread of its own mends the connection (never a listener) and renews subscriptions.
At-least-once: a send that raises may have arrived, a message that was not acknowledged
comes again, so identifiers and idempotence are the caller's.
"""

from __future__ import annotations

import itertools
import re
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from brokers.adapters.brokers_file import (
    BrokerConfig,
    BrokersFile,
    ConfigurationError,
    TlsConfig,
)
from brokers.adapters.stomp_inbox import DEFAULT_BYTES, Inbox
from brokers.adapters.stomp_session import Session
from brokers.ports import Message, Outgoing, TransportError

__all__ = [
    "BrokerConfig",
    "BrokersFile",
    "ConfigurationError",
    "Message",
    "Outgoing",
    "StompTransport",
    "TlsConfig",
    "TransportError",
]

# Wildcards, composites and options of ActiveMQ destinations must never come from a name.
_QUEUE = re.compile(r"[A-Za-z0-9._-]{1,250}")
_FIRST_DELAY = 0.2
_LONGEST_DELAY = 5.0


@dataclass(frozen=True)
class _Subscription:
    queue: str
    identifier: str
    prefetch: int
    cumulative: bool


@dataclass(frozen=True)
class _Handle:
    session: Session
    subscription: _Subscription
    ack_id: str


@dataclass(frozen=True)
class _Source:
    session: Session
    subscription: _Subscription


class StompTransport:
    """A connection to one ActiveMQ broker that mends itself; safe to use from many threads.

    Args:
        config: the broker.
        name: who we are, for thread names and diagnosis.
        heartbeat_ms: heart-beats both ways, in milliseconds; a frozen broker is noticed
            after about twice that.
        inbox_bytes: most bytes of messages that came and were not taken yet; further ones
            stay with the broker.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        name: str,
        heartbeat_ms: int = 4000,
        inbox_bytes: int = DEFAULT_BYTES,
    ) -> None:
        self.name = name
        self._config = config
        self._heartbeat_ms = heartbeat_ms
        self._state = threading.Condition()
        self._session: Session | None = None
        self._closing = threading.Event()
        self._supervisor: threading.Thread | None = None
        self._subscriptions: dict[str, _Subscription] = {}
        self._identifiers = itertools.count(1)
        self._inbox = Inbox(inbox_bytes)
        self.last_error = ""
        self.connections = 0

    # connecting

    @property
    def connected(self) -> bool:
        """Whether the broker can be reached at this moment."""
        session = self._session
        return session is not None and session.alive

    def start(self) -> None:
        """Begin to connect in the background; returns at once, and may be called again."""
        with self._state:
            if self._supervisor is None and not self._closing.is_set():
                self._supervisor = threading.Thread(
                    target=self._supervise, name=f"stomp-{self.name}", daemon=True
                )
                self._supervisor.start()

    def connect(self, timeout: float = 10.0) -> None:
        """Start, and wait for the first connection.

        Args:
            timeout: seconds to wait.

        Raises:
            TransportError: not connected in time (it goes on trying until `close`).
        """
        self.start()
        self._current(timeout)

    def close(self) -> None:
        """Disconnect and stop the background thread. Not usable afterwards."""
        self._closing.set()
        with self._state:
            session, self._session = self._session, None
            self._state.notify_all()
        if session is not None:
            session.disconnect()
        supervisor = self._supervisor
        if supervisor is not None and supervisor is not threading.current_thread():
            supervisor.join(15)
        self._inbox.close()

    def _supervise(self) -> None:
        delay = _FIRST_DELAY
        while not self._closing.is_set():
            try:
                session = self._open()
            except Exception as error:  # noqa: BLE001 - whatever it is, go on trying
                self.last_error = str(error)
                self._closing.wait(delay * (0.75 + secrets.randbelow(500) / 1000))
                delay = min(delay * 2, _LONGEST_DELAY)
                continue
            self.last_error = ""
            delay = _FIRST_DELAY
            if self._closing.is_set():
                session.disconnect()
            session.lost.wait()
            self.last_error = session.last_error or "connection lost"
            self._drop(session)
            self._closing.wait(_FIRST_DELAY)

    def _open(self) -> Session:
        session = Session(self._config, heartbeat_ms=self._heartbeat_ms, on_frame=self._on_frame)
        try:
            # Under the lock, so that a queue subscribed meanwhile is not forgotten.
            with self._state:
                for subscription in self._subscriptions.values():
                    _subscribe(session, subscription)
                self._session = session
                self.connections += 1
                self._state.notify_all()
        except TransportError:
            session.abandon()
            raise
        return session

    def _drop(self, session: Session) -> None:
        with self._state:
            if self._session is session:
                self._session = None
        session.abandon()
        self._inbox.forget(
            lambda message: _handle_of(message).session is session,
            lambda source: isinstance(source, _Source) and source.session is session,
        )

    def _current(self, timeout: float) -> Session:
        self.start()
        with self._state:
            self._state.wait_for(lambda: self.connected or self._closing.is_set(), timeout)
            session = self._session
        if session is None or not session.alive:
            reason = f": {self.last_error}" if self.last_error else ""
            raise TransportError(f"not connected to the broker{reason}")
        return session

    # receiving

    def subscribe(self, queue: str, *, prefetch: int = 100, cumulative: bool = False) -> None:
        """Take messages of a queue, now and after every reconnect.

        Args:
            queue: name without `/queue/`.
            prefetch: how many messages may be on their way unacknowledged.
            cumulative: acknowledging a message acknowledges all before it too (fewer
                frames; right only for who deals with messages in order).

        Raises:
            TransportError: the broker refuses it.
            ValueError: a name that no queue of ours has.
        """
        with self._state:
            if queue in self._subscriptions:
                return
            identifier = f"s{next(self._identifiers)}"
            subscription = _Subscription(_checked(queue), identifier, prefetch, cumulative)
            self._subscriptions[queue] = subscription
            session = self._session
            if session is None or not session.alive:
                return  # the supervisor subscribes as soon as there is a connection
            try:
                _subscribe(session, subscription)
            except TransportError as error:
                if error.refused:
                    del self._subscriptions[queue]
                    raise
                session.abandon()

    def unsubscribe(self, queue: str) -> None:
        """Give a queue up; messages not acknowledged go back to the broker."""
        with self._state:
            subscription = self._subscriptions.pop(queue, None)
            session = self._session
        if subscription is None:
            return
        if session is not None and session.alive:
            try:
                session.unsubscribe(subscription.identifier)
            except TransportError:
                session.abandon()
        self._inbox.forget(
            lambda message: _handle_of(message).subscription is subscription,
            lambda source: isinstance(source, _Source) and source.subscription is subscription,
        )

    def receive(self, timeout: float) -> Message | None:
        """The next message, or None after `timeout` seconds without one."""
        messages = self.receive_many(1, timeout)
        return messages[0] if messages else None

    def receive_many(self, limit: int, timeout: float) -> list[Message]:
        """Wait up to `timeout` seconds for a first message; return at most `limit`."""
        for source in self._inbox.drained():
            if isinstance(source, _Source):
                self._ask_again(source)
        return self._inbox.take(limit, timeout)

    def _ask_again(self, source: _Source) -> None:
        """Subscribe afresh after an overflow: the broker gives again what was dropped."""
        old = source.subscription
        if self._subscriptions.get(old.queue) is not old:
            return
        self.unsubscribe(old.queue)
        try:
            self.subscribe(old.queue, prefetch=old.prefetch, cumulative=old.cumulative)
        except TransportError:
            # Refused now and not before: the supervisor asks until it is allowed again.
            with self._state:
                self._subscriptions.setdefault(old.queue, old)
            source.session.abandon()

    def _on_frame(self, session: Session, headers: Mapping[str, str], body: bytes) -> None:
        subscription = self._by_identifier(headers.get("subscription", ""))
        if subscription is None:
            return
        handle = _Handle(session, subscription, headers.get("ack", ""))
        message = Message(
            subscription.queue, body, dict(headers), lambda: self._ack(handle), handle
        )
        self._inbox.put(_Source(session, subscription), message)

    def _by_identifier(self, identifier: str) -> _Subscription | None:
        # A copy: this runs on the reading thread while others subscribe.
        for subscription in tuple(self._subscriptions.values()):
            if subscription.identifier == identifier:
                return subscription
        return None

    # acknowledging

    def ack(self, message: Message) -> None:
        """Acknowledge one message. Without effect on one of a lost connection: it comes again."""
        self._ack(_handle_of(message))

    def ack_many(self, messages: Sequence[Message]) -> None:
        """Acknowledge messages; on cumulative subscriptions the last one speaks for all."""
        last: dict[str, _Handle] = {}
        for message in messages:
            handle = _handle_of(message)
            if handle.subscription.cumulative:
                last[handle.subscription.identifier] = handle
            else:
                self._ack(handle)
        for handle in last.values():
            self._ack(handle)

    def _ack(self, handle: _Handle) -> None:
        subscription = self._subscriptions.get(handle.subscription.queue)
        if subscription is not handle.subscription or not handle.session.alive:
            return
        try:
            handle.session.ack(handle.ack_id)
        except TransportError as error:
            self.last_error = str(error)

    # sending

    def send(
        self,
        queue: str,
        body: bytes,
        *,
        persistent: bool = True,
        expires: int | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Send one message and wait for the broker's receipt.

        Args:
            queue: name without `/queue/`.
            body: at most a few megabytes.
            persistent: keep it over a restart of the broker.
            expires: Unix time in milliseconds after which the broker may drop it, or None.
            headers: further STOMP headers.
            timeout: seconds to wait for a connection and again for the receipt.

        Raises:
            TransportError: not sent, or not known to be sent.
            ValueError: a name that no queue of ours has.
        """
        message = Outgoing(queue, body, persistent, expires, dict(headers or {}))
        self.send_many([message], timeout=timeout)

    def send_many(self, messages: Iterable[Outgoing], *, timeout: float = 30.0) -> None:
        """Send many messages, then wait for all receipts.

        Args:
            messages: a list, or what gives one after the other once they can be written.
            timeout: seconds to wait for a connection and again for the receipts.

        Raises:
            TransportError: one or more not sent, or not known to be sent.
            ValueError: a name that no queue of ours has.
        """
        if isinstance(messages, Sequence):
            for message in messages:
                _checked(message.queue)
            if not messages:
                return
        self._current(timeout).send(_named(messages), timeout=timeout)


def _named(messages: Iterable[Outgoing]) -> Iterator[Outgoing]:
    for message in messages:
        _checked(message.queue)
        yield message


def _subscribe(session: Session, subscription: _Subscription) -> None:
    session.subscribe(
        subscription.queue,
        identifier=subscription.identifier,
        prefetch=subscription.prefetch,
        cumulative=subscription.cumulative,
    )


def _handle_of(message: Message) -> _Handle:
    if not isinstance(message.handle, _Handle):
        raise TypeError("not a message of this transport")
    return message.handle


def _checked(queue: str) -> str:
    if not _QUEUE.fullmatch(queue):
        raise ValueError(f"`{queue}` is not a queue name")
    return queue
