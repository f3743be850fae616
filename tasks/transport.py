"""One STOMP connection a process to the broker of the control queues."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Protocol

from django.conf import settings

from brokers.adapters.stomp import BrokersFile, Outgoing, StompTransport

SEND_SECONDS = 15.0
# ActiveMQ orders by it where the queue's policy asks for that: denials overtake bundles.
URGENT_HEADERS = {"priority": "9"}


class Sender(Protocol):
    """The part of a transport that hands messages over."""

    def send(
        self,
        queue: str,
        body: bytes,
        *,
        headers: dict[str, str] | None = None,
        timeout: float = SEND_SECONDS,
    ) -> None:
        """Return once the broker has the message in its keeping; raise TransportError if not."""

    def send_many(self, messages: Iterable[Outgoing], *, timeout: float = SEND_SECONDS) -> None:
        """The same for many; the broker's receipts are waited for together."""


class _Shared:
    """The process's connection; a forked child opens its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._transport: StompTransport | None = None

    def get(self) -> StompTransport:
        with self._lock:
            if self._transport is None or self._owner != os.getpid():
                self._owner = os.getpid()
                self._transport = open_transport(f"worker-{self._owner}")
            return self._transport

    def close(self) -> None:
        with self._lock:
            if self._transport is not None and self._owner == os.getpid():
                self._transport.close()
            self._transport = None


_shared = _Shared()
close_shared = _shared.close


def open_transport(name: str) -> StompTransport:
    """A new connection to the control broker, connecting in the background."""
    brokers = BrokersFile.load(settings.BROKERS_FILE)
    transport = StompTransport(brokers.control_broker(), name=name)
    transport.start()
    return transport


def shared_sender() -> Sender:
    """The process's own connection."""
    return _shared.get()
