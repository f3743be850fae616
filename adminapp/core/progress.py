"""A progress bar for commands; silent where nobody watches."""

from __future__ import annotations

import sys
import time
from typing import Self, TextIO

WIDTH = 30
PAUSE = 0.1


class Bar:
    """One line on a terminal that says how far something has come; a context manager.

    Args:
        what: what is counted, in the plural.
        out: where to draw, errors' output unless said; nothing is drawn unless it is a terminal.
    """

    def __init__(self, what: str, out: TextIO | None = None) -> None:
        self._what = what
        self._out = sys.stderr if out is None else out
        self._drawn = 0.0
        self._terminal = self._out.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._write("\r\x1b[K")

    def show(self, done: int, total: int) -> None:
        """Draw, at most ten times a second."""
        now = time.monotonic()
        if not self._terminal or now - self._drawn < PAUSE:
            return
        self._drawn = now
        share = min(1.0, done / total) if total else 1.0
        bar = ("#" * round(share * WIDTH)).ljust(WIDTH, ".")
        self._write(f"\r[{bar}] {share:4.0%} {done:,} of {max(done, total):,} {self._what}")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
