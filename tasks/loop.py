"""What the long-running commands share: a clean end on SIGTERM and patience with the database."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, close_old_connections

log = logging.getLogger("portcullis.loop")

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0


class Stop:
    """Set by SIGTERM and SIGINT; the step under way is finished first."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def listen(self) -> None:
        """Take over the two signals; call it from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: Any) -> None:
        self._event.set()

    def set(self) -> None:
        """Ask for the end."""
        self._event.set()

    @property
    def asked(self) -> bool:
        """Whether the end was asked for."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait; True when the end was asked for meanwhile."""
        return self._event.wait(seconds)


def run(step: Callable[[], float], stop: Stop, failures: tuple[type[Exception], ...]) -> None:
    """Call `step` until the end is asked for; it returns the seconds to wait before the next.

    Failures of the database and those named wait longer and longer and are tried again: the
    process outlives what it depends on.
    """
    pause = _FIRST_PAUSE
    while not stop.asked:
        try:
            delay = step()
            pause = _FIRST_PAUSE
        except (DatabaseError, *failures) as error:
            log.warning("trying again in %.1f s: %s", pause, type(error).__name__)
            close_old_connections()
            delay, pause = pause, min(pause * 2, _LONGEST_PAUSE)
        if delay > 0:
            stop.wait(delay)
