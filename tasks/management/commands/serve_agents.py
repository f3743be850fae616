"""Answers agents and clients: leases, and what they acknowledge. A process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from django.core.management.base import BaseCommand, CommandParser

from adminapp.core.authority import AuthorityUnavailable
from adminapp.distribution.services import answer_requests, recall
from brokers.adapters.stomp import ConfigurationError, Message, StompTransport, TransportError
from brokers.ports import Outgoing
from policyengine.bundles.addresses import REQUESTS_QUEUE
from tasks import loop
from tasks.transport import open_transport

BATCH = 50
# A lease that arrives later than this is of no use: the agent has asked again long since.
LEASE_LIFETIME_MS = 30_000


class Command(BaseCommand):
    """Runs until SIGTERM; several may run at once."""

    help = "Answer lease requests and acknowledgements of agents and clients, until SIGTERM."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--wait", type=float, default=0.5, help="longest wait for a message")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run the loop."""
        stop = loop.Stop()
        stop.listen()
        try:
            transport = open_transport("serve-agents")
        except ConfigurationError as error:
            self.stderr.write(str(error))
            raise SystemExit(2) from error
        server = Server(transport, wait=options["wait"])
        self.stdout.write("answering agents")
        try:
            loop.run(server.step, stop, (TransportError, AuthorityUnavailable, OSError))
        finally:
            transport.close()
        self.stdout.write("stopped")


class Server:
    """Takes requests, answers them, and only then lets go of them.

    A message is acknowledged after its answer is with the broker: a crash in between has it
    answered twice, which a nonce and idempotent rows make harmless. What cannot be answered
    because the database or the authority is away stays with this process and is tried again.

    INVARIANT: before the first answer it has asked the authority for revocations that the
    database has forgotten, where that one was restored from before.
    """

    def __init__(self, transport: StompTransport, *, wait: float) -> None:
        self._transport = transport
        self._wait = wait
        self._pending: list[Message] = []
        self._recalled = False
        transport.subscribe(REQUESTS_QUEUE, prefetch=BATCH)

    def step(self) -> float:
        """Answer what is there, or wait for it; returns the seconds to pause."""
        if not self._recalled:
            recall()
            self._recalled = True
        if not self._pending:
            self._pending = self._transport.receive_many(BATCH, self._wait)
        answer(self._transport, self._pending, wall=time.time)
        return 0.0


class Sending(Protocol):
    """What answers are sent with."""

    def send_many(self, messages: Iterable[Outgoing]) -> None:
        """Send; returns when the broker has them."""


def answer(transport: Sending, pending: list[Message], *, wall: Callable[[], float]) -> None:
    """Answer messages; each leaves the list once what it asks for is with the broker.

    Args:
        transport: to the broker that they came from.
        pending: taken and not acknowledged.
        wall: Unix time in seconds.
    """
    taken = list(pending)
    for group in answer_requests([message.body for message in taken]):
        expires = int(wall() * 1000) + LEASE_LIFETIME_MS
        transport.send_many(
            [
                Outgoing(queue, body, persistent=False, expires=expires)
                for _, answers in group
                for queue, body in answers
            ]
        )
        for place, _ in group:
            taken[place].ack()
            pending.remove(taken[place])
