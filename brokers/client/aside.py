"""Events that a program could not handle: counted, and put aside where a person can see them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from brokers.client.assembly import Event, Whole
from brokers.client.errors import BufferFull
from brokers.client.vault import Vault, open_database, transaction

MAX_ASIDE = 10_000
_PLACE = "aside"


@dataclass(frozen=True)
class SetAside:
    """An event that was put aside.

    Args:
        event: the event.
        error: what the handler raised, in one line.
        attempts: how often the handler was given the event.
        at: when it was put aside, Unix time in seconds.
    """

    event: Event
    error: str
    attempts: int
    at: float


class Aside:
    """Counts how often each event was handed out; keeps those that are given up.

    The count outlives a handler that takes the whole process with it. Events stand here
    encrypted under the client's own key.

    Args:
        path: the SQLite file.
        vault: encrypts what stands in it.
    """

    def __init__(self, path: Path, vault: Vault) -> None:
        self._vault = vault
        self._lock = threading.Lock()
        # A count that is lost with the power costs one more attempt and nothing else.
        self._database = open_database(path, synchronous="NORMAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS attempts (key BLOB PRIMARY KEY, count INTEGER NOT NULL)"
        )
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS aside (seq INTEGER PRIMARY KEY AUTOINCREMENT,"
            " id TEXT NOT NULL, body BLOB NOT NULL)"
        )

    def begun(self, whole: Whole) -> int:
        """The event is handed out now; returns how often it was, this time included."""
        with self._lock, transaction(self._database):
            row = self._database.execute(
                "INSERT INTO attempts (key, count) VALUES (?, 1)"
                " ON CONFLICT (key) DO UPDATE SET count = count + 1 RETURNING count",
                (whole.key,),
            ).fetchone()
        return int(row[0])

    def finished(self, whole: Whole) -> None:
        """The event was handled."""
        with self._lock, transaction(self._database):
            self._database.execute("DELETE FROM attempts WHERE key = ?", (whole.key,))

    def put(self, whole: Whole, error: str, attempts: int, now: float) -> None:
        """Put an event aside; returns when it survives a crash.

        Raises:
            BufferFull: so many events stand here that a person must look first.
            OSError: the disk is full or failing.
        """
        event = whole.event
        document = {
            "type": event.type,
            "publication": event.publication,
            "attributes": dict(event.attributes),
            "withheld": dict(event.withheld),
            "publisher": event.publisher,
            "domain": event.domain,
            "error": error,
            "attempts": attempts,
            "at": float(now),
        }
        body = self._vault.seal(_PLACE, event.publication, document)
        with self._lock:
            row = self._database.execute("SELECT count(*) FROM aside").fetchone()
            if int(row[0]) >= MAX_ASIDE:
                raise BufferFull(f"{MAX_ASIDE} events are put aside, and no more may be")
            with transaction(self._database):
                self._database.execute(
                    "INSERT INTO aside (id, body) VALUES (?, ?)", (event.publication, body)
                )
                self._database.execute("DELETE FROM attempts WHERE key = ?", (whole.key,))
            # Durable before it is acknowledged to the broker.
            self._database.execute("PRAGMA wal_checkpoint(FULL)")

    def all(self) -> list[SetAside]:
        """Every event that was put aside, oldest first."""
        with self._lock:
            rows = self._database.execute("SELECT id, body FROM aside ORDER BY seq").fetchall()
        found = []
        for name, body in rows:
            held = self._vault.open(_PLACE, str(name), body)
            error, attempts, at = held.pop("error"), held.pop("attempts"), held.pop("at")
            found.append(SetAside(Event(**held), error, attempts, at))
        return found

    def forget(self, publication: str) -> None:
        """An event that was put aside is dealt with."""
        with self._lock, transaction(self._database):
            self._database.execute("DELETE FROM aside WHERE id = ?", (publication,))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()
