"""Events that wait to be sent: durable, bounded, encrypted at rest.

An event is kept in plain form under the client's own key and sealed for its agents only when
it is sent, so that it is always made in the epoch that is in force then.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokers.client.dispatch import Parcel
from brokers.client.errors import BufferFull, Refused, refusal
from brokers.client.policy import PlannedPart
from brokers.client.vault import Vault, open_database, transaction
from policyengine.attributes import Value

MAX_EVENTS = 10_000
MAX_BYTES = 64 * 1024 * 1024
_KEPT_REFUSALS = 1000
_PLACE = "outbox"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS {} (seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE, body BLOB NOT NULL)"
)


@dataclass(frozen=True)
class Kept:
    """An event that waits.

    Args:
        seq: its place in the order.
        id: identifier of the publication it is or will be.
        domain: where it is published.
        type: its event type.
        values: its attributes.
        plan: (overlay, attribute names) of each part once it was split, else None.
    """

    seq: int
    id: str
    domain: str
    type: str
    values: Mapping[str, Value] = field(repr=False)
    plan: tuple[tuple[str, tuple[str, ...]], ...] | None = None

    def parcel(self) -> Parcel | None:
        """The parcel as it was split before, or None if it never was."""
        if self.plan is None:
            return None
        parts = tuple(
            PlannedPart(
                number, len(self.plan), overlay, {name: self.values[name] for name in names}
            )
            for number, (overlay, names) in enumerate(self.plan)
        )
        return Parcel(self.id, self.domain, self.type, self.values, parts)


@dataclass(frozen=True)
class RefusedEvent:
    """An event that agents refused after the program had gone on.

    Args:
        id: identifier of the publication.
        domain: where it was published.
        type: its event type.
        values: its attributes.
        reason: one word.
        message: the same for a person.
    """

    id: str
    domain: str
    type: str
    values: Mapping[str, Value] = field(repr=False)
    reason: str
    message: str

    @property
    def error(self) -> Refused:
        """The exception that `Publisher.publish` would have raised."""
        return refusal(self.reason, self.message)


class Outbox:
    """The events of one client that wait to be sent. Safe to use from many threads.

    Args:
        path: the SQLite file.
        vault: encrypts what stands in it.
        max_events: most events.
        max_bytes: most bytes of them, encrypted.
    """

    def __init__(
        self,
        path: Path,
        vault: Vault,
        *,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._vault = vault
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._database = open_database(path, synchronous="FULL")
        for table in ("waiting", "refused"):
            self._database.execute(_TABLE.format(table))
        row = self._database.execute("SELECT count(*), total(length(body)) FROM waiting")
        count, size = row.fetchone()
        self._count, self._bytes = int(count), int(size)

    def __len__(self) -> int:
        return self._count

    def put(self, identifier: str, domain: str, event_type: str, values: Mapping[str, Any]) -> None:
        """Keep an event; returns when it survives a crash.

        Raises:
            BufferFull: no room for it.
            OSError: the disk is full or failing.
        """
        document = {"domain": domain, "type": event_type, "values": dict(values), "plan": None}
        body = self._vault.seal(_PLACE, identifier, document)
        with self._lock:
            if self._count >= self._max_events:
                raise BufferFull(f"{self._count} events wait to be sent, and no more may")
            if self._bytes + len(body) > self._max_bytes:
                raise BufferFull(f"events of {self._max_bytes} bytes wait to be sent at most")
            with transaction(self._database):
                self._database.execute(
                    "INSERT INTO waiting (id, body) VALUES (?, ?)", (identifier, body)
                )
            self._count += 1
            self._bytes += len(body)

    def keep_plan(self, kept: Kept, parcel: Parcel) -> None:
        """Note how an event was split, before its first part is sent.

        INVARIANT: all parts of a publication are of one split, also over a restart.
        """
        document = {
            "domain": kept.domain,
            "type": kept.type,
            "values": dict(parcel.values),
            "plan": [[part.overlay, list(part.values)] for part in parcel.parts],
        }
        body = self._vault.seal(_PLACE, kept.id, document)
        with self._lock:
            with transaction(self._database):
                before = self._database.execute(
                    "SELECT length(body) FROM waiting WHERE id = ?", (kept.id,)
                ).fetchone()
                self._database.execute("UPDATE waiting SET body = ? WHERE id = ?", (body, kept.id))
            if before is not None:
                self._bytes += len(body) - int(before[0])

    def after(self, seq: int, limit: int) -> list[Kept]:
        """The next events behind a place in the order."""
        with self._lock:
            rows = self._database.execute(
                "SELECT seq, id, body FROM waiting WHERE seq > ? ORDER BY seq LIMIT ?",
                (seq, limit),
            ).fetchall()
        return [self._kept(int(number), str(name), body) for number, name, body in rows]

    def _kept(self, seq: int, name: str, body: bytes) -> Kept:
        found = self._vault.open(_PLACE, name, body)
        plan = found["plan"]
        return Kept(
            seq,
            name,
            found["domain"],
            found["type"],
            found["values"],
            None if plan is None else tuple((overlay, tuple(names)) for overlay, names in plan),
        )

    def settle(self, accepted: Iterable[str], refused: Iterable[tuple[str, str, str]] = ()) -> None:
        """Let accepted events go, and put refused ones aside; all of them at once.

        Args:
            accepted: identifiers.
            refused: (identifier, reason, message).
        """
        gone: list[int] = []
        with self._lock:
            with transaction(self._database):
                for name, reason, message in refused:
                    self._refuse(name, reason, message)
                    gone += self._delete(name)
                for name in accepted:
                    gone += self._delete(name)
            self._count -= len(gone)
            self._bytes -= sum(gone)

    def _refuse(self, name: str, reason: str, message: str) -> None:
        row = self._database.execute("SELECT body FROM waiting WHERE id = ?", (name,)).fetchone()
        if row is None:
            return
        document = self._vault.open(_PLACE, name, row[0])
        del document["plan"]
        body = self._vault.seal("refused", name, {**document, "reason": reason, "text": message})
        self._database.execute("INSERT INTO refused (id, body) VALUES (?, ?)", (name, body))
        self._database.execute(
            "DELETE FROM refused WHERE seq <= (SELECT max(seq) FROM refused) - ?",
            (_KEPT_REFUSALS,),
        )

    def _delete(self, name: str) -> list[int]:
        place = (name,)
        sizes = self._database.execute("SELECT length(body) FROM waiting WHERE id = ?", place)
        found = [int(size) for (size,) in sizes]
        self._database.execute("DELETE FROM waiting WHERE id = ?", place)
        return found

    def refused(self) -> list[RefusedEvent]:
        """Events that agents refused, oldest first; the last 1,000 are kept."""
        with self._lock:
            rows = self._database.execute("SELECT id, body FROM refused ORDER BY seq").fetchall()
        found = []
        for name, body in rows:
            held = self._vault.open("refused", str(name), body)
            found.append(
                RefusedEvent(
                    str(name), held["domain"], held["type"], held["values"], held["reason"],
                    held["text"],
                )
            )  # fmt: skip
        return found

    def forget_refused(self, identifier: str) -> None:
        """A refused event is dealt with."""
        with self._lock, transaction(self._database):
            self._database.execute("DELETE FROM refused WHERE id = ?", (identifier,))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()
