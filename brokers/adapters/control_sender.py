"""What an audience says to the control plane: questions for leases, and acknowledgements."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from brokers.adapters.logs import log
from brokers.ports import Outgoing, Transport, TransportError
from policyengine.bundles import (
    REQUESTS_QUEUE,
    Acknowledgement,
    LeaseRequest,
    Request,
    sign_ack,
    sign_lease_request,
)
from policyengine.primitives.signatures import SigningKey

_LOGGER = logging.getLogger("portcullis.control")
_REQUEST_LIFE_MS = 60_000
_SEND_TIMEOUT = 5.0
_MOST_WAITING = 1000


@dataclass(frozen=True)
class _Waiting:
    """An acknowledgement that goes out once earlier work is over."""

    settled: Callable[[], bool]
    send: Callable[[], None]


class ControlSender:
    """Signs and sends; acknowledgements wait for the broker, questions do not.

    Args:
        transport: connection to the control broker.
        signing_key: signs everything.
        interval: seconds between two questions.
    """

    def __init__(self, transport: Transport, signing_key: SigningKey, interval: float) -> None:
        self._transport = transport
        self._signing_key = signing_key
        self._interval = interval
        self._outbox: deque[Outgoing] = deque(maxlen=_MOST_WAITING)
        self._waiting: list[_Waiting] = []
        self._ask_at = float("-inf")
        self._was_connected = False

    # questions

    def ask_soon(self) -> None:
        """The next question is due at once."""
        self._ask_at = float("-inf")

    def is_due(self, boot: float) -> bool:
        """Whether it is time for a question; if so, the next one is due an interval later.

        Args:
            boot: boot time in seconds.
        """
        connected = self._transport.connected
        if connected and not self._was_connected:
            self.ask_soon()
        self._was_connected = connected
        if not connected or boot < self._ask_at:
            return False
        self._ask_at = boot + self._interval
        return True

    def ask(self, request: LeaseRequest, wall: float) -> None:
        """Send a question, or lose it: the next one follows soon.

        Args:
            request: the question.
            wall: Unix time in seconds, from which its life at the broker counts.
        """
        body = sign_lease_request(request, self._signing_key).encode()
        expires = int(wall * 1000) + _REQUEST_LIFE_MS
        self._send([Outgoing(REQUESTS_QUEUE, body, persistent=False, expires=expires)])

    # acknowledgements

    def acknowledge(self, ack: Acknowledgement) -> None:
        """Sign an acknowledgement and keep it for the broker."""
        self._outbox.append(Outgoing(REQUESTS_QUEUE, sign_ack(ack, self._signing_key).encode()))

    def say(self, request: Request, wall: float) -> None:
        """Keep a signed request for the broker; unanswered, whoever asks will ask again.

        Args:
            request: the request.
            wall: Unix time in seconds, from which its life at the broker counts.
        """
        expires = int(wall * 1000) + _REQUEST_LIFE_MS
        self._outbox.append(Outgoing(REQUESTS_QUEUE, request.encode(), expires=expires))

    def when(self, settled: Callable[[], bool], send: Callable[[], None]) -> None:
        """Acknowledge later: once earlier work is over."""
        self._waiting.append(_Waiting(settled, send))

    def release(self) -> None:
        """Acknowledge what has settled since."""
        ready = [item for item in self._waiting if item.settled()]
        self._waiting = [item for item in self._waiting if item not in ready]
        for item in ready:
            item.send()

    def flush(self) -> None:
        """Send what waits, as far as the broker takes it."""
        while self._outbox and self._transport.connected:
            batch = list(self._outbox)
            if not self._send(batch):
                return
            for _ in batch:
                self._outbox.popleft()

    def _send(self, batch: list[Outgoing]) -> bool:
        try:
            self._transport.send_many(batch, timeout=_SEND_TIMEOUT)
        except TransportError as error:
            log(_LOGGER, logging.WARNING, "not sent to the control plane", reason=str(error))
            return False
        return True
