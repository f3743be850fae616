"""A publisher or subscriber as a process that may be killed.

`python -m tests.support.crash_client publish FOLDER SEED PAUSE` or `subscribe FOLDER SHORT`
writes a journal, a line with one write each, which is what it knows when it dies.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from brokers.client import BufferFull, Publisher, Refused, Subscriber
from tests.support.crash_site import SUBSCRIPTIONS, event

_STOP = threading.Event()
_FLUSH_SECONDS = 150.0
_ASK_EVERY = 10


class Journal:
    """Lines of JSON that outlive the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, **entry: Any) -> None:
        """Add a line."""
        os.write(self._file, (json.dumps(entry) + "\n").encode())


def read(path: Path) -> list[dict[str, Any]]:
    """All lines of a journal; one that is not finished yet is left out."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def publish(folder: Path, seed: str, pause: float) -> None:
    """Publish numbered events, most by way of the outbox, until told to stop; then flush."""
    path = folder / "journal"
    begun = [line["begun"] for line in read(path) if "begun" in line]
    number, journal = max(begun, default=-1), Journal(path)
    with Publisher(folder) as publisher:
        while not _STOP.wait(pause):
            number += 1
            journal.write(begun=number)
            try:
                _publish(publisher, journal, seed, number)
            except (Refused, BufferFull) as error:
                journal.write(unknown=number, reason=str(error))
        flushed = publisher.flush(_FLUSH_SECONDS)
        journal.write(flushed=flushed, refused=[one.reason for one in publisher.refused()])


def _publish(publisher: Publisher, journal: Journal, seed: str, number: int) -> None:
    one = event(seed, number)
    if number % _ASK_EVERY:
        identifier = publisher.enqueue(one.type, one.values)
    else:
        identifier = publisher.publish(one.type, one.values, timeout=5).id
    journal.write(kept=number, id=identifier)


def subscribe(folder: Path, short: str) -> None:
    """Note every event, until told to stop."""
    journal = Journal(folder / "journal")
    with Subscriber(folder) as subscriber:
        journal.write(started=short)
        if not subscriber.subscriptions:
            for kind, text in SUBSCRIPTIONS[short]:
                subscriber.subscribe(kind, text, timeout=100)
            journal.write(subscribed=short)
        while not _STOP.is_set():
            for one in subscriber.events(timeout=0.5):
                journal.write(got=one.publication, type=one.type, values=dict(one.attributes))
                if _STOP.is_set():
                    break


def main(arguments: list[str]) -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, lambda *_: _STOP.set())
    verb, folder, *rest = arguments
    if verb == "publish":
        publish(Path(folder), rest[0], float(rest[1]))
    else:
        subscribe(Path(folder), rest[0])


if __name__ == "__main__":
    main(sys.argv[1:])
