"""Which queues the agent takes messages from at this moment."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from brokers.adapters.logs import log
from brokers.ports import Clock, Transport, TransportError
from policyengine.bundles import hop_queue, publish_queue

_LOGGER = logging.getLogger("portcullis.agent")
_RETRY_SECONDS = 5.0
_PREFETCH_BACKLOG = 100


@dataclass(frozen=True)
class Source:
    """Where a message came from.

    Args:
        domain: the domain.
        kind: what sort of queue it was.
        handle: of a backlog, whose.
    """

    domain: str
    kind: Literal["client", "hop", "backlog"]
    handle: str = ""


class Queues:
    """Subscribes to the queues of domains that are served and gives up the others.

    A domain that has to wait leaves its messages with the broker: nothing of it is
    consumed, so nothing can be lost or delivered.

    Args:
        agent: this agent's name.
        transport: connection to the overlay's broker.
        clock: for the end of a hold.
        prefetch: messages on their way at once, per queue.
    """

    def __init__(self, agent: str, transport: Transport, clock: Clock, *, prefetch: int) -> None:
        self._agent = agent
        self._transport = transport
        self._clock = clock
        self._prefetch = prefetch
        self._open: dict[str, Source] = {}
        self._resting: dict[str, float] = {}

    def source(self, queue: str) -> Source | None:
        """Where messages of a queue come from, or None if it is not open (any more)."""
        return self._open.get(queue)

    def serve(self, domains: Collection[str], backlogs: Mapping[str, Source] | None = None) -> None:
        """Be subscribed to the queues of exactly these domains, resting ones left out.

        Args:
            domains: those that are served.
            backlogs: further queues of theirs.
        """
        now = self._clock.boot()
        self._resting = {queue: end for queue, end in self._resting.items() if end > now}
        wanted = {
            queue: source
            for found in (*map(self._of, domains), backlogs or {})
            for queue, source in found.items()
            if queue not in self._resting
        }
        for queue in [queue for queue in self._open if queue not in wanted]:
            self._give_up(queue)
        for queue, source in wanted.items():
            if queue not in self._open:
                self._take(queue, source)

    def rest(self, queue: str, seconds: float) -> None:
        """Give a queue up for a while; what was not acknowledged comes again afterwards."""
        self._resting[queue] = self._clock.boot() + seconds
        if queue in self._open:
            self._give_up(queue)

    def wake(self) -> None:
        """End all rests, because something changed."""
        self._resting.clear()

    def _of(self, domain: str) -> dict[str, Source]:
        return {
            publish_queue(self._agent, domain): Source(domain, "client"),
            hop_queue(self._agent, domain): Source(domain, "hop"),
        }

    def _take(self, queue: str, source: Source) -> None:
        try:
            # In order and all of a batch at once: one acknowledgement speaks for all.
            few = source.kind == "backlog"
            prefetch = min(_PREFETCH_BACKLOG, self._prefetch) if few else self._prefetch
            self._transport.subscribe(queue, prefetch=prefetch, cumulative=True)
        except TransportError as error:
            log(_LOGGER, logging.ERROR, "subscription refused", queue=queue, reason=str(error))
            self._resting[queue] = self._clock.boot() + _RETRY_SECONDS
            return
        self._open[queue] = source

    def _give_up(self, queue: str) -> None:
        del self._open[queue]
        self._transport.unsubscribe(queue)
