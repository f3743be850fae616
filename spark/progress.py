"""How far a run is, as lines of JSON in a file that others follow."""

from __future__ import annotations

import json
import time
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Literal

Stage = Literal["reading", "encoding", "writing", "verifying", "done"]


class Progress:
    """Appends `{"stage", "done", "total", "at"}` lines, rows counted.

    Within a stage `done` only rises; stages of different agents overlap.

    Args:
        path: the file; it is created.
        total: rows of the whole run.
    """

    def __init__(self, path: Path, total: int) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._lock = Lock()
        self._total = total
        self._done: dict[str, int] = {}

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def reach(self, stage: Stage, done: int) -> None:
        """Say that so many rows have gone through a stage."""
        with self._lock:
            if self._done.get(stage, -1) < done:
                self._done[stage] = done
                self._write(stage, done)

    def add(self, stage: Stage, rows: int) -> None:
        """Say that so many more rows have gone through a stage."""
        with self._lock:
            self._done[stage] = self._done.get(stage, 0) + rows
            self._write(stage, self._done[stage])

    def _write(self, stage: Stage, done: int) -> None:
        line = {"stage": stage, "done": done, "total": self._total, "at": round(time.time(), 3)}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
