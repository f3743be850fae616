"""The witness file: every signed checkpoint once more, outside the database.

Who can write to the database alone can then cut the end of the log, its head and its checkpoints
together, and is still seen. Append it to somewhere else as well, or have it fetched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from django.conf import settings
from django.utils import timezone

MODE = 0o640


def path() -> Path:
    return Path(settings.AUDIT_WITNESS)


def exists() -> bool:
    return path().exists()


def read() -> Iterator[str]:
    """The notes in the order in which they were written; a line cut short is given as it is."""
    try:
        with path().open(encoding="utf-8", errors="replace") as file:
            for line in file:
                yield _note(line)
    except FileNotFoundError:
        return


def last() -> str | None:
    """The newest note."""
    note = None
    for each in read():
        note = each
    return note


def append(note: str) -> None:
    """Add a note; it is on the disk when this returns."""
    file = path()
    file.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"checkpoint": note}) + "\n"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, MODE)
    try:
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def begin_anew(notes: Iterable[str]) -> None:
    """Put these notes in the place of those that are there, which are kept beside them."""
    file = path()
    if file.exists():
        stamp = timezone.now().strftime("%Y%m%dT%H%M%S%f")
        file.rename(file.with_name(f"{file.name}.{stamp}"))
    for note in notes:
        append(note)


def _note(line: str) -> str:
    try:
        note = json.loads(line)["checkpoint"]
    except (ValueError, KeyError, TypeError):
        return line
    return note if isinstance(note, str) else line
