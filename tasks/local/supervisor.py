"""Starts parts in order, watches them, restarts the ones that die and says so, stops them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tasks.local.errors import LocalError
from tasks.local.processes import Child

_FIRST_DELAY = 1.0
_LONGEST_DELAY = 30.0
_STEADY_SECONDS = 60.0


def _at_once() -> bool:
    return True


def _nothing() -> str:
    return ""


@dataclass
class Part:
    """One process of the product.

    `ready` tells whether it serves; `detail` is what its status line shows while it does;
    `patience` is how many seconds it may take to become ready the first time.
    """

    name: str
    child: Child
    ready: Callable[[], bool] = _at_once
    detail: Callable[[], str] = _nothing
    patience: float = 60.0
    stop_seconds: float = 10.0
    state: str = "waiting"
    since: float = 0.0
    restarts: int = 0
    _delay: float = field(default=_FIRST_DELAY, repr=False)
    _retry_at: float = field(default=0.0, repr=False)


class Supervisor:
    """The parts of one running copy. `say` gets a line for all that a person should know."""

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.parts: list[Part] = []
        self._groups: list[tuple[Part, ...]] = []
        self._say = say
        self._clock = clock
        self._sleep = sleep

    def start(self, *parts: Part) -> None:
        """Start these parts together and wait until each is ready.

        Raises LocalError with the end of the log of the first one that dies or takes too long.
        """
        self._groups.append(parts)
        for part in parts:
            self.parts.append(part)
            self._launch(part)
        for part in parts:
            self._await(part)

    def look(self) -> None:
        """Look at every part once: note the ones that died, restart those whose time has come."""
        now = self._clock()
        for part in self.parts:
            if part.child.running:
                self._looked_running(part, now)
            elif part.state != "down":
                self._died(part, now)
            elif now >= part._retry_at:
                part.restarts += 1
                self._say(f"{part.name}: starting again (restart {part.restarts})")
                self._launch(part)

    def stop(self) -> None:
        """Stop all parts by their process ids: what was started last first, groups together."""
        while self._groups:
            group = self._groups.pop()
            for part in reversed(group):
                part.child.terminate()
            for part in reversed(group):
                part.child.stop(timeout=part.stop_seconds)
                part.state = "stopped"
        self.parts.clear()

    def _launch(self, part: Part) -> None:
        part.child.start()
        part.state, part.since = "starting", self._clock()

    def _await(self, part: Part) -> None:
        end = self._clock() + part.patience
        while not part.ready():
            if not part.child.running:
                raise LocalError(_last_words(part, f"ended with {_status(part)}"))
            if self._clock() > end:
                raise LocalError(_last_words(part, f"was not ready after {part.patience:.0f} s"))
            self._sleep(0.1)
        part.state = "up"

    def _looked_running(self, part: Part, now: float) -> None:
        if part.state == "starting" and part.ready():
            part.state = "up"
        if part.state == "up" and now - part.since > _STEADY_SECONDS:
            part._delay = _FIRST_DELAY

    def _died(self, part: Part, now: float) -> None:
        part.state, part._retry_at = "down", now + part._delay
        self._say(
            f"{part.name}: ended with {_status(part)}; starting it again in {part._delay:.0f} s. "
            f"Its log: {part.child.log}"
        )
        part._delay = min(part._delay * 2, _LONGEST_DELAY)


def line(part: Part, now: float) -> str:
    """The status line of one part."""
    seconds = int(now - part.since)
    again = f", {part.restarts} restart{'s' if part.restarts > 1 else ''}" if part.restarts else ""
    pid = part.child.pid if part.child.running else "-"
    detail = part.detail() if part.state == "up" else ""
    return f"{part.name:<14} {part.state:<9} {f'pid {pid}':<11} {_time(seconds)}{again}  {detail}"


def table(parts: Sequence[Part], now: float) -> list[str]:
    """The status lines of all parts."""
    return [line(part, now).rstrip() for part in parts]


def _time(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _status(part: Part) -> str:
    code = part.child.returncode
    return f"signal {-code}" if code is not None and code < 0 else f"status {code}"


def _last_words(part: Part, what: str) -> str:
    return f"`{part.name}` {what}. Its log ({part.child.log}) ends:\n{part.child.tail()}"
