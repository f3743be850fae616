"""Celery's file-system transport without its races.

kombu 5's `filesystem` transport creates a message's file under its final name and writes to it
afterwards: a worker that looks in between takes an empty file, loses the message and, since the
text is no JSON, dies. Its tables of exchanges have the same gap. Here every file appears whole,
by a rename, and a file that holds anything else is set aside instead of ending the worker.
"""

from __future__ import annotations

import fcntl
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from time import time_ns
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps, loads

log = logging.getLogger("portcullis.spool")

_SUFFIX = ".msg"
_PARTIAL = ".partial"
_TAKEN = ".taken"
_DAMAGED = ".damaged"


class Channel(filesystem.Channel):
    """Messages are files; who renames a file first has the message."""

    def _put(self, queue: str, payload: Any, **_: Any) -> None:
        # Names sort by age: as many digits always, of a clock that goes on over a restart.
        name = f"{time_ns():020d}_{uuid.uuid4()}.{queue}{_SUFFIX}"
        _write_whole(Path(self.data_folder_out) / name, dumps(payload))

    def _get(self, queue: str) -> Any:
        folder = Path(self.data_folder_in)
        names = sorted(path.name for path in folder.glob(f"*.{queue}{_SUFFIX}"))
        for name in names:
            taken = folder / f"{name}{_TAKEN}"
            try:
                (folder / name).rename(taken)
            except FileNotFoundError:
                continue  # another worker was first
            payload = _read(taken)
            if payload is not None:
                return payload
        raise Empty

    def get_table(self, exchange: str) -> list[Any]:
        file = self._exchange_file(exchange)
        try:
            rows = loads(file.read_text())
        except FileNotFoundError:
            return []
        return [filesystem.exchange_queue_t(*row) for row in rows]

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        row = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        with self._table(exchange) as rows:
            if row not in rows:
                rows.insert(0, row)

    def _delete(
        self, queue: str, exchange: str, routing_key: str, pattern: str, *_: Any, **__: Any
    ) -> None:
        self._purge(queue)
        row = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        with self._table(exchange) as rows:
            if row in rows:
                rows.remove(row)

    @contextmanager
    def _table(self, exchange: str) -> Iterator[list[Any]]:
        """The rows of an exchange, for a change that nobody else makes at the same time."""
        file = self._exchange_file(exchange)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.with_name(f"{file.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self.get_table(exchange)
            rows = list(before)
            yield rows
            if rows != before or not file.exists():
                _write_whole(file, dumps(rows))


class Transport(filesystem.Transport):
    """The transport behind `filesystem://`."""

    Channel = Channel


def install() -> None:
    """Put this transport in the place of kombu's; before the first connection is made."""
    TRANSPORT_ALIASES["filesystem"] = "tasks.spool:Transport"


def _write_whole(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}{_PARTIAL}")
    partial.write_text(text)
    partial.replace(path)


def _read(taken: Path) -> Any:
    try:
        payload = loads(taken.read_text())
    except ValueError:
        log.warning("a message in the spool was damaged and is set aside")
        taken.replace(taken.with_name(f"{taken.name}{_DAMAGED}"))
        return None
    taken.unlink()
    return payload
