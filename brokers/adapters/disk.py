"""Whether an agent's folder takes what has to be kept, asked before anything is taken."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
from pathlib import Path
from typing import Literal

from brokers.adapters.logs import log
from brokers.ports import Clock

_LOGGER = logging.getLogger("portcullis.agent")
LEAST_BYTES = 16 * 2**20
_TRIAL_BYTES = 256 * 1024
_TRIAL = "trial"
_EVERY = 1.0
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Problem = Literal["", "disk-full", "disk-failing"]


class DiskWatch:
    """Tells whether what a batch causes could be recorded.

    A batch that cannot be recorded comes again and is sent again, each time: so nothing is taken
    while there is little room, or after a write that failed, until a trial write comes through.
    The trial also sees what the file system does not tell: quotas, and a disk that fails.

    Args:
        folder: the agent's own.
        clock: for the time between two looks.
        least: bytes that have to be free.
    """

    def __init__(self, folder: Path, clock: Clock, *, least: int = LEAST_BYTES) -> None:
        self._folder = folder
        self._clock = clock
        self.least = least
        self._looked = float("-inf")
        self._suspect = False
        self._lock = threading.Lock()
        self.problem: Problem = ""

    def failed(self, error: OSError) -> None:
        """Something could not be written or read; nothing is taken before a trial."""
        with self._lock:
            self._suspect = True
            self._looked = float("-inf")
            self._found("disk-full" if error.errno in _NO_ROOM else self.problem or "disk-failing")

    def ready(self) -> bool:
        """Whether the folder takes what has to be kept; looks once a second where it did not."""
        # INVARIANT: a failure that another thread tells of during a look is not forgotten by it.
        with self._lock:
            return self._look()

    def _look(self) -> bool:
        boot = self._clock.boot()
        if self.problem and boot - self._looked < _EVERY:
            return False
        self._looked = boot
        try:
            status = os.statvfs(self._folder)
            if status.f_bavail * status.f_frsize < self.least:
                self._found("disk-full")
                return False
            if self._suspect:
                self._try()
        except OSError as error:
            self._found("disk-full" if error.errno in _NO_ROOM else "disk-failing")
            return False
        self._suspect = False
        self._found("")
        return True

    def _try(self) -> None:
        path = self._folder / _TRIAL
        try:
            with path.open("wb") as handle:
                handle.write(bytes(_TRIAL_BYTES))
                handle.flush()
                os.fsync(handle.fileno())
        finally:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _found(self, problem: Problem) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        if problem:
            log(_LOGGER, logging.ERROR, "nothing is taken", reason=problem)
        else:
            log(_LOGGER, logging.WARNING, "there is room again")
