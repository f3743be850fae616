"""How the agent's loop hands messages to the overlay's broker, and what becomes of refused ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from brokers.adapters.logs import log
from brokers.agent.batch import undeliverable
from brokers.ports import Clock, Outgoing, Transport, TransportError

_LOGGER = logging.getLogger("portcullis.agent")
_SEND_TIMEOUT = 20.0
_ASK_AGAIN = 1.0


class _OverError(Exception):
    """What was decided may not leave any more."""


def _always() -> bool:
    return True


class Sending:
    """Sends for one agent.

    Args:
        agent: its name, for dead letters.
        transport: connection to the overlay's broker.
        clock: both clocks.
    """

    def __init__(self, agent: str, transport: Transport, clock: Clock) -> None:
        self._agent = agent
        self._transport = transport
        self._clock = clock

    def send(self, outgoing: list[Outgoing], permitted: Callable[[], bool] | None = None) -> bool:
        """Send all; what the broker refuses alone is put aside. False where it was not sent.

        Args:
            outgoing: the messages.
            permitted: asked again while they are sent; where it says no, no more of them leave.
        """
        try:
            return self._all(outgoing, permitted or _always)
        except _OverError:
            log(_LOGGER, logging.WARNING, "batch not sent", reason="the lease ended meanwhile")
            return False

    def _all(self, outgoing: list[Outgoing], permitted: Callable[[], bool]) -> bool:
        try:
            # Nothing needs no connection, and is not asked for one by one.
            messages: Iterable[Outgoing] = outgoing
            if outgoing:
                messages = self._as_long_as(outgoing, permitted)
            self._transport.send_many(messages, timeout=_SEND_TIMEOUT)
        except TransportError as error:
            log(_LOGGER, logging.WARNING, "batch not sent", reason=str(error))
            return error.refused and self._one_by_one(outgoing, permitted)
        return True

    def _as_long_as(
        self, outgoing: list[Outgoing], permitted: Callable[[], bool]
    ) -> Iterator[Outgoing]:
        """INVARIANT: a broker that is reached late, or reads slowly, outlasts no lease."""
        asked = float("-inf")
        for message in outgoing:
            boot = self._clock.boot()
            if boot - asked >= _ASK_AGAIN:
                if not permitted():
                    raise _OverError
                asked = boot
            yield message

    def send_doubtful(self, letters: list[Outgoing]) -> bool:
        """Send dead letters of which nothing is believed: refused ones are dropped."""
        try:
            self._transport.send_many(letters, timeout=_SEND_TIMEOUT)
        except TransportError as error:
            if error.refused:
                log(_LOGGER, logging.WARNING, "dead letters dropped", reason=str(error))
            return error.refused
        return True

    def _one_by_one(self, outgoing: list[Outgoing], permitted: Callable[[], bool]) -> bool:
        """After a refusal: find what the broker refuses and put it aside, unless it is all."""
        for message in self._as_long_as(outgoing, permitted):
            try:
                self._transport.send_many([message], timeout=_SEND_TIMEOUT)
            except TransportError as error:
                if not error.refused or not self._put_aside(message):
                    return False
        return True

    def _put_aside(self, message: Outgoing) -> bool:
        aside = undeliverable(self._agent, message, self._clock.wall())
        try:
            self._transport.send_many([aside], timeout=_SEND_TIMEOUT)
        except TransportError:
            return False
        log(_LOGGER, logging.ERROR, "undeliverable", queue=message.queue)
        return True
