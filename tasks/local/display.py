"""Status lines: redrawn in place on a terminal, printed now and then elsewhere."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from tasks.local.supervisor import Part, table

_TERMINAL_SECONDS = 2.0
_PLAIN_SECONDS = 60.0


class Display:
    """Writes messages above and one status line per part below, to `out`."""

    def __init__(self, out: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._terminal = out.isatty()
        self._drawn = 0
        self._next = 0.0

    def say(self, text: str) -> None:
        """A message that stays."""
        self._erase()
        self._out.write(f"{text}\n")
        self._out.flush()
        self._next = 0.0 if self._terminal else self._next

    def show(self, parts: Sequence[Part]) -> None:
        """The status lines, when it is time for them again."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + (_TERMINAL_SECONDS if self._terminal else _PLAIN_SECONDS)
        lines = table(parts, now)
        self._erase()
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            lines = [line[:width] for line in lines]
            self._drawn = len(lines)
        self._out.write("\n".join(lines) + "\n")
        self._out.flush()

    def _erase(self) -> None:
        if self._drawn:
            self._out.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0
