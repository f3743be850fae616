"""Virtual time: what happens next, and the clocks that nodes read."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

START = 1_750_000_000.0
"""Unix time at which every simulation begins."""

_BOOT = 1_000.0


class Timeline:
    """A queue of actions by virtual time. Two at one moment happen in the order of asking."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = count()
        self._actions: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Do something at a moment, or at once where that is over.

        Args:
            moment: seconds since the beginning.
            action: what to do.
        """
        heapq.heappush(self._actions, (max(moment, self.now), next(self._order), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something in so many seconds."""
        self.at(self.now + seconds, action)

    def run(self, until: float, done: Callable[[], bool] | None = None) -> bool:
        """Let time pass.

        Args:
            until: seconds since the beginning at which to stop.
            done: stop as soon as this is true; asked after every action.

        Returns:
            Whether `done` was true before time was up (False without it).
        """
        while self._actions and self._actions[0][0] <= until:
            self.now, _, action = heapq.heappop(self._actions)
            action()
            if done is not None and done():
                return True
        self.now = max(self.now, until)
        return False


class VirtualClock:
    """The clocks of one node.

    Args:
        timeline: gives the time.
        ahead: seconds by which the node's wall clock is wrong.
    """

    def __init__(self, timeline: Timeline, ahead: float = 0.0) -> None:
        self._timeline = timeline
        self._ahead = ahead

    def wall(self) -> float:
        """Unix time in seconds."""
        return START + self._timeline.now + self._ahead

    def boot(self) -> float:
        """Seconds since the machine's boot; it goes on while the node is down."""
        return _BOOT + self._timeline.now
