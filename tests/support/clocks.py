"""Time that does not pass by itself."""

from __future__ import annotations


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.time = 1000.0

    def wall(self) -> float:
        return self.time

    def boot(self) -> float:
        return self.time
