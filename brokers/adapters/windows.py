"""Which clients confirm their deliveries, and for whom events wait: kept over a crash."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path

from brokers.adapters.seen import as_os_error


class WindowFile:
    """SQLite with a write-ahead log and full synchronisation.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS windows (domain TEXT NOT NULL, handle TEXT NOT NULL,"
            " behind INTEGER NOT NULL, PRIMARY KEY (domain, handle)) WITHOUT ROWID"
        )

    def load(self) -> tuple[tuple[str, str, bool], ...]:
        """(domain, handle, whether something waits)."""
        rows = self._database.execute("SELECT domain, handle, behind FROM windows").fetchall()
        return tuple((str(domain), str(handle), bool(behind)) for domain, handle, behind in rows)

    def save(self, changed: Iterable[tuple[str, str, bool | None]]) -> None:
        """Keep changes, None to strike off; returns when they survive a crash.

        Raises:
            OSError: the disk is full or failing; nothing was changed.
        """
        rows = list(changed)
        gone = [(domain, handle) for domain, handle, behind in rows if behind is None]
        kept = [(domain, handle, int(b)) for domain, handle, b in rows if b is not None]
        try:
            with self._lock, self._database:
                self._database.execute("BEGIN IMMEDIATE")
                self._database.executemany(
                    "DELETE FROM windows WHERE domain = ? AND handle = ?", gone
                )
                self._database.executemany("INSERT OR REPLACE INTO windows VALUES (?, ?, ?)", kept)
        except sqlite3.Error as error:
            raise as_os_error(error, "the file of windows") from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()
