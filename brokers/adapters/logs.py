"""Structured logs: a JSON object a line, or for people; no secrets, no plaintext."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

_FIELDS = "portcullis_fields"


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON: time, level, logger, event and its fields."""
        entry: dict[str, object] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        entry.update(getattr(record, _FIELDS, {}))
        if record.exc_info and record.exc_info[0] is not None:
            # The type and place say enough; a message of an exception may hold a value.
            entry["exception"] = record.exc_info[0].__name__
            entry["place"] = _place(record)
        return json.dumps(entry, default=str, ensure_ascii=False)


class PlainLines(logging.Formatter):
    """Writes a record for whoever sits at a shell: `program: rejected (what lease, reason time)`.

    Args:
        program: what the line begins with.
    """

    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program

    def format(self, record: logging.LogRecord) -> str:
        """The event and its fields; of an exception only its type."""
        fields = dict(getattr(record, _FIELDS, {}))
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = record.exc_info[0].__name__
        told = ", ".join(f"{name} {value}" for name, value in fields.items())
        return f"{self._program}: {record.getMessage()}{f' ({told})' if told else ''}"


def _place(record: logging.LogRecord) -> str:
    traceback = record.exc_info[2] if record.exc_info else None
    place = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        place = f"{code.co_qualname}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def log(logger: logging.Logger, level: int, event: str, **fields: object) -> None:
    """Log an event with fields.

    Args:
        logger: where to.
        level: as in `logging`.
        event: what happened, in a few words.
        fields: names and numbers; never values of attributes, keys or expressions.
    """
    logger.log(level, event, extra={_FIELDS: fields})


def log_failure(logger: logging.Logger, event: str, **fields: object) -> None:
    """Log the exception being handled: its type and place, not its text."""
    logger.error(event, exc_info=True, extra={_FIELDS: fields})


def configure(level: str = "INFO") -> None:
    """Send everything below `portcullis` to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger("portcullis")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level)


@contextmanager
def told_to_people(program: str, stream: IO[str]) -> Iterator[None]:
    """Send warnings and worse of everything below `portcullis` to a stream, in words."""
    handler = logging.StreamHandler(stream)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(PlainLines(program))
    root = logging.getLogger("portcullis")
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
