"""The backlogs of an agent's clients, in the agent's loop: read, asked for, kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from brokers.agent.queues import Source
from brokers.data.backlog import backlog_item, readable, retiring, served
from brokers.data.bench import Workbench
from brokers.data.confirm import question
from brokers.data.window import Windows
from brokers.ports import Outgoing
from brokers.snapshot import DomainSnapshot
from policyengine.bundles import backlog_queue
from policyengine.primitives.rand import SYSTEM_RANDOM

DEFAULT_WINDOW = 200


class WindowStore(Protocol):
    """Where it is kept which clients confirm, and for whom something waits."""

    def load(self) -> tuple[tuple[str, str, bool], ...]:
        """(domain, handle, whether something waits)."""

    def save(self, changed: Iterable[tuple[str, str, bool | None]]) -> None:
        """Keep changes, None to strike off; returns when they survive a crash."""


class Backlogs:
    """Keeps clients' queues short; used by the data plane's thread alone.

    Args:
        store: keeps what has to survive a crash. How many deliveries are on their way does
            not: after a start every client is asked.
        limit: most deliveries sent ahead to one client of a domain.
    """

    def __init__(self, store: WindowStore, *, limit: int = DEFAULT_WINDOW) -> None:
        self._store = store
        self.windows = Windows(limit, SYSTEM_RANDOM, store.load())

    def sources(self, snapshots: Iterable[DomainSnapshot], now: float) -> dict[str, Source]:
        """The backlog queues to read now.

        Args:
            snapshots: of the domains that are served.
            now: Unix time in seconds.
        """
        return {
            backlog_queue(snapshot.agent, snapshot.domain, handle): Source(
                snapshot.domain, "backlog", handle
            )
            for snapshot in snapshots
            for handle in self.windows.open(
                snapshot.domain, now, urgent=retiring(snapshot), served=_served(snapshot)
            )
            if readable(snapshot, handle)
        }

    def due(self, bench: Workbench) -> list[Outgoing]:
        """Questions to clients and markers in backlogs, to be sent now."""
        snapshot = bench.snapshot
        outgoing: list[Outgoing] = []
        for one in self.windows.due(snapshot.domain, bench.now):
            if one.question:
                outgoing += question(bench, one.handle, one.question)
            if one.marker:
                outgoing.append(backlog_item(snapshot, one.handle, one.marker))
        return outgoing

    def before_sending(self) -> None:
        """INVARIANT: who has a backlog is on disk before anything stands in it."""
        self._save(before=True)

    def carried_out(self) -> None:
        """All that was decided is sent, recorded and acknowledged."""
        self.windows.settle()
        self._save(before=False)

    def failed(self) -> None:
        """It may have been sent or not."""
        self.windows.doubt()

    def _save(self, *, before: bool) -> None:
        changed = self.windows.unsaved(before=before)
        if changed:
            self._store.save(changed)


def _served(snapshot: DomainSnapshot) -> Callable[[str], bool]:
    return lambda handle: served(snapshot, handle)
