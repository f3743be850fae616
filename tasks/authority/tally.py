"""Answers too many to write down each: leases, and reads of what is public.

They are counted, by what was answered to whom, and a minute's counts are one entry of the
journal. Until then each stands as a short line in a file beside it, written before the answer
and not waited for: killing the process loses none, a failing power supply at most the minute.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tasks.authority.files import StateError
from tasks.authority.journal import Journal
from tasks.authority.ledger import COUNTED

SECONDS: Final = 60
_FILE: Final = re.compile(r"tally-([0-9]{1,12})\Z")


class Tally:
    """The counts of the running minute.

    Args:
        journal: where they go when it is over.
        now: seconds since 1970.
    """

    def __init__(self, journal: Journal, *, now: Callable[[], float]) -> None:
        self._journal = journal
        self._now = now
        self._lock = threading.Lock()
        self._turning = threading.Lock()
        self._recover()
        self._number = journal.ledger.tally + 1
        self._begun = now()
        self._counts: Counter[str] = Counter()
        self._file = _open(self._path(self._number))

    def note(self, what: str) -> None:
        """Count an answer that is about to be given.

        Raises:
            StateError: it could not be written.
        """
        line = what.encode() + b"\n"
        with self._lock:
            try:
                if os.write(self._file, line) != len(line):
                    raise StateError("the journal cannot be written")
            except OSError as error:
                raise StateError("the journal cannot be written") from error
            self._counts[what] += 1

    def turn(self, *, force: bool = False) -> None:
        """Write the counts into the journal where the minute is over; answers do not wait."""
        if not force and 0 <= self._now() - self._begun < SECONDS:
            return
        with self._turning:
            with self._lock:
                if not self._counts:
                    self._begun = self._now()
                    return
                number, counts, old = self._number, self._counts, self._file
                self._number, self._counts = number + 1, Counter()
                self._file = _open(self._path(self._number))
                self._begun = self._now()
            os.close(old)
            self._write(number, counts)

    def close(self) -> None:
        """Write what there is and let go."""
        self.turn(force=True)
        with self._lock:
            os.close(self._file)
            self._path(self._number).unlink(missing_ok=True)

    def _recover(self) -> None:
        """Write down what a process that was killed had counted."""
        found = {}
        for path in self._journal.folder.iterdir():
            if name := _FILE.match(path.name):
                found[int(name[1])] = path
        for number, path in sorted(found.items()):
            whole, _, _unfinished = path.read_bytes().rpartition(b"\n")
            lines = whole.decode(errors="replace").splitlines()
            # INVARIANT: the entry says which file it counted, so none is counted twice.
            if number > self._journal.ledger.tally and lines:
                self._write(number, Counter(lines))
            path.unlink(missing_ok=True)

    def _write(self, number: int, counts: Counter[str]) -> None:
        self._journal.append(
            {"op": COUNTED, "outcome": "done", "tally": number, "answers": dict(counts)}
        )
        self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self._journal.folder / f"tally-{number}"


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
