"""The window against doubles: what was handled, kept over a crash.

SQLite with a write-ahead log and full synchronisation: one fsync for a whole batch.
Entries leave the window by age and by number; `oldest` then moves up, and who refuses
everything issued before `oldest` never handles a double.

Beside them stands what handled events count against limits, of the same transaction: an event
is counted exactly when it is known as handled.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from brokers.ports import SeenEntry, Spend

_PRUNE_EVERY = 64


class SeenLog:
    """Keys of what was handled within the window.

    Args:
        path: the SQLite file.
        seconds: how long an entry is kept, counted from when it was issued.
        capacity: most entries kept; the oldest leave first.
    """

    def __init__(self, path: Path, *, seconds: int, capacity: int = 2_000_000) -> None:
        self._seconds = seconds
        self._capacity = capacity
        self._lock = threading.Lock()
        self._batches = 0
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS seen"
            " (key BLOB PRIMARY KEY, issued INTEGER NOT NULL) WITHOUT ROWID"
        )
        self._database.execute("CREATE INDEX IF NOT EXISTS seen_issued ON seen (issued)")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS horizon (id INTEGER PRIMARY KEY, issued INTEGER NOT NULL)"
        )
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS spent"
            " (id INTEGER PRIMARY KEY, key BLOB NOT NULL, at REAL NOT NULL, until REAL NOT NULL)"
        )
        self._database.execute("CREATE INDEX IF NOT EXISTS spent_key ON spent (key, at)")
        self._database.execute("CREATE INDEX IF NOT EXISTS spent_until ON spent (until)")
        row = self._database.execute("SELECT issued FROM horizon WHERE id = 1").fetchone()
        self._horizon = int(row[0]) if row else 0
        self._count = int(self._database.execute("SELECT count(*) FROM seen").fetchone()[0])

    def __contains__(self, key: bytes) -> bool:
        with self._lock, _as_os_error():
            found = self._database.execute("SELECT 1 FROM seen WHERE key = ?", (key,)).fetchone()
        return found is not None

    def __len__(self) -> int:
        return self._count

    def oldest(self, now: float) -> float:
        """Unix time before which doubles can no longer be told."""
        # Entries leave only some time after they stopped counting.
        return max(now - self._seconds + min(300, self._seconds // 10), self._horizon)

    def spent(self, key: bytes, most: int) -> tuple[float, ...]:
        """When the last events that count against a limit were admitted, by time.

        Args:
            key: names the publisher and the limit.
            most: how many of them.

        Raises:
            OSError: the disk is failing.
        """
        with self._lock, _as_os_error():
            found = self._database.execute(
                "SELECT at FROM spent WHERE key = ? ORDER BY at DESC LIMIT ?", (key, most)
            ).fetchall()
        return tuple(float(at) for (at,) in reversed(found))

    def record(
        self, entries: Iterable[SeenEntry], *, now: float, spent: Iterable[Spend] = ()
    ) -> None:
        """Add entries; returns when they survive a crash.

        Args:
            entries: what was handled.
            now: Unix time in seconds.
            spent: what of it counts against limits.

        Raises:
            OSError: the disk is full or failing; nothing was added.
        """
        rows = [(entry.key, entry.issued) for entry in entries]
        if not rows:
            return
        with self._lock, _as_os_error():
            before = self._count, self._horizon
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._count += self._database.executemany(
                    "INSERT OR IGNORE INTO seen (key, issued) VALUES (?, ?)", rows
                ).rowcount
                self._database.executemany(
                    "INSERT INTO spent (key, at, until) VALUES (?, ?, ?)",
                    [(one.key, one.at, one.until) for one in spent],
                )
                self._batches += 1
                if self._batches % _PRUNE_EVERY == 0:
                    self._prune(now)
                self._database.execute("COMMIT")
            except BaseException:
                self._count, self._horizon = before
                # A full disk has SQLite take everything back by itself.
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    def _prune(self, now: float) -> None:
        self._database.execute("DELETE FROM spent WHERE until <= ?", (now,))
        limit = int(now) - self._seconds
        excess = self._count - self._capacity
        if excess > 0:
            row = self._database.execute(
                "SELECT issued FROM seen ORDER BY issued LIMIT 1 OFFSET ?", (excess - 1,)
            ).fetchone()
            # Everything issued in that second goes too, so that the horizon is exact.
            self._horizon = max(self._horizon, int(row[0]) + 1)
            self._database.execute(
                "INSERT INTO horizon (id, issued) VALUES (1, ?)"
                " ON CONFLICT (id) DO UPDATE SET issued = excluded.issued",
                (self._horizon,),
            )
            limit = max(limit, self._horizon)
        self._count -= self._database.execute(
            "DELETE FROM seen WHERE issued < ?", (limit,)
        ).rowcount

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise as_os_error(error, "the window against doubles") from error


def as_os_error(error: sqlite3.Error, what: str) -> OSError:
    """What SQLite could not do, as the operating system would say it.

    Args:
        error: what it said.
        what: the file.
    """
    full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return OSError(errno.ENOSPC if full else errno.EIO, f"{what}: {error}")
