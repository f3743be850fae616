"""The authority's own journal: every answer it gave, in files that only grow.

A line is an entry in canonical JSON and names the SHA-256 of the line before it, so that the
last line's digest, the head, stands for all of them; the control plane's audit keeps heads. An
answer is given only when its entry is on disk. What a crash left of an unfinished line was
never answered and is cut off; anything else that does not fit stops the authority.

The journal goes on in a new file when one is full. Each file begins with what the entries
before it add up to (`Ledger`), so that only the newest is read at the start and older ones may
be archived.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from policyengine.errors import DecodeError
from policyengine.primitives import canonical
from tasks.authority.files import StateError, sync_folder
from tasks.authority.ledger import OPENED, Ledger

FOLDER: Final = "journal"
PART_BYTES: Final = 64 * 2**20
START: Final = "0" * 64
"""What the very first line names as the one before."""
_LOCK: Final = "lock"


@dataclass(frozen=True)
class Head:
    """What the journal is now: number of entries, and digest of the last."""

    size: int
    digest: str


class Journal:
    """The journal of one state folder. Several processes may add to it; each sees all.

    Args:
        state: the state folder.
        now: seconds since 1970.
        part_bytes: where to go on in a new file.
    """

    def __init__(
        self, state: Path, *, now: Callable[[], float], part_bytes: int = PART_BYTES
    ) -> None:
        self.folder = state / FOLDER
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._now = now
        self._part_bytes = part_bytes
        self.ledger = Ledger()
        self._head = Head(0, START)
        self._part = 0
        self._size = 0
        self._broken = False
        self._waiting: list[_Ticket] = []
        self._queue = threading.Lock()
        self._writer = threading.Lock()
        with self._writer, self._alone():
            self._begin()

    @property
    def head(self) -> Head:
        """Size and digest of everything that is on disk."""
        with self._writer, self._alone():
            self._catch_up()
            return self._head

    def refresh(self) -> None:
        """Take in what another process added."""
        _ = self.head

    def append(self, facts: Mapping[str, Any]) -> int:
        """Add an entry; returns its number when it is on disk."""
        return self.append_all([facts])

    def append_all(self, entries: Sequence[Mapping[str, Any]]) -> int:
        """Add entries in one write; returns the number of the last when all are on disk.

        Who comes while others are being written shares the next write.

        Raises:
            StateError: it could not be written; nothing more is accepted until a new start.
        """
        tickets = [_Ticket(facts) for facts in entries]
        with self._queue:
            self._waiting += tickets
        with self._writer:
            if not tickets[-1].number:
                self._write_waiting()
        if not tickets[-1].number:
            raise StateError("the journal cannot be written")
        return tickets[-1].number

    def entries(self, after: int, limit: int) -> list[dict[str, Any]]:
        """Entries by number, from the one after `after` on, at most `limit`."""
        found: list[dict[str, Any]] = []
        for line in lines(self.folder, after=after):
            if len(found) == limit:
                break
            found.append(line.entry)
        return found

    def _begin(self) -> None:
        parts = _started(self.folder)
        if not parts:
            self._open_part(1)
            return
        self._part = parts[-1]
        self._read_on(first=True)

    def _write_waiting(self) -> None:
        with self._queue:
            batch, self._waiting = self._waiting, []
        if self._broken or not batch:
            return
        try:
            with self._alone():
                self._catch_up()
                if self._size >= self._part_bytes:
                    self._open_part(self._part + 1)
                self._write(batch)
        except OSError as error:
            # INVARIANT: after a failed write nobody knows what is on disk: nothing is answered
            # any more before the file was read again.
            self._broken = True
            raise StateError("the journal cannot be written") from error

    def _write(self, batch: Sequence[_Ticket]) -> None:
        head, data, entries = self._head, bytearray(), []
        for ticket in batch:
            entry = {
                **ticket.facts,
                "n": head.size + 1,
                "at": _moment(self._now()),
                "before": head.digest,
            }
            line = canonical.dumps(entry)
            head = Head(head.size + 1, hashlib.sha256(line).hexdigest())
            data += line + b"\n"
            entries.append(entry)
        _append(self._path, bytes(data))
        self._head = head
        self._size += len(data)
        for ticket, entry in zip(batch, entries, strict=True):
            self.ledger.apply(entry)
            ticket.number = entry["n"]

    def _open_part(self, number: int) -> None:
        _path(self.folder, number).unlink(missing_ok=True)
        self._part, self._size = number, 0
        self._write([_Ticket({"op": OPENED, **self.ledger.to_json()})])
        sync_folder(self.folder)

    def _catch_up(self) -> None:
        """Read what another process added."""
        while True:
            size = self._path.stat().st_size
            if size < self._size:
                raise StateError(f"{self._path} is shorter than it was")
            if size > self._size:
                self._read_on(first=False)
            if self._part + 1 not in _started(self.folder):
                return
            self._part, self._size = self._part + 1, 0

    def _read_on(self, *, first: bool) -> None:
        _cut_unfinished(self._path)
        data = self._path.read_bytes()[self._size :]
        for raw in data.splitlines():
            line = _line(raw, self._path)
            if first:
                self._head = Head(line.entry["n"] - 1, line.entry["before"])
                first = False
            _check_follows(line, self._head, self._path)
            self._head = Head(line.entry["n"], line.digest)
            self.ledger.apply(line.entry)
        self._size += len(data)

    @property
    def _path(self) -> Path:
        return _path(self.folder, self._part)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


class _Ticket:
    """An entry that waits to be written; its number once it is."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self.number = 0


@dataclass(frozen=True)
class Line:
    """One line as it stands on disk."""

    entry: dict[str, Any]
    digest: str


def lines(folder: Path, *, after: int = 0) -> Iterator[Line]:
    """The journal's whole lines in order; what is unfinished at the end is left out.

    Raises:
        StateError: a line is damaged, missing, or not the one that followed.
    """
    parts = _started(folder)
    # The last file that begins early enough, and all that follow.
    early = [number for number in parts if _first(_path(folder, number)) <= after + 1]
    head: Head | None = None
    for number in parts:
        if early and number < early[-1]:
            continue
        path = _path(folder, number)
        for raw in path.read_bytes().splitlines(keepends=True):
            if not raw.endswith(b"\n"):
                break
            line = _line(raw[:-1], path)
            if head is not None:
                _check_follows(line, head, path)
            head = Head(line.entry["n"], line.digest)
            if head.size > after:
                yield line


def verify(folder: Path) -> Head:
    """Read everything that is there; returns the head.

    Raises:
        StateError: something was changed, left out or put in.
    """
    head = Head(0, START)
    for line in lines(folder):
        if line.entry["n"] == 1 and line.entry["before"] != START:
            raise StateError("the journal's first entry follows another one")
        head = Head(line.entry["n"], line.digest)
    return head


def parts_of(folder: Path) -> list[int]:
    """The numbers of the journal's files, oldest first."""
    names = folder.glob("[0-9]*.jsonl") if folder.is_dir() else ()
    return sorted(int(path.stem) for path in names if path.stem.isdecimal())


def _started(folder: Path) -> list[int]:
    """Without a last file whose first line was never finished: it is begun again."""
    parts = parts_of(folder)
    while parts and not _first_line(_path(folder, parts[-1])).endswith(b"\n"):
        parts.pop()
    return parts


def _first_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.readline()


def _first(path: Path) -> int:
    return int(_line(_first_line(path)[:-1], path).entry["n"])


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:06}.jsonl"


def _line(raw: bytes, path: Path) -> Line:
    try:
        entry = canonical.loads(raw, max_bytes=PART_BYTES)
    except DecodeError as error:
        raise StateError(f"{path} holds a damaged entry") from error
    if not isinstance(entry, dict) or type(entry.get("n")) is not int or "before" not in entry:
        raise StateError(f"{path} holds what is no entry")
    return Line(entry, hashlib.sha256(raw).hexdigest())


def _check_follows(line: Line, head: Head, path: Path) -> None:
    if line.entry["n"] != head.size + 1 or line.entry["before"] != head.digest:
        raise StateError(f"{path}: entry {line.entry['n']} does not follow the one before it")


def _cut_unfinished(path: Path) -> None:
    """Take away what a crash left of a line that was never answered."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole != len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
            os.fsync(file.fileno())


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        unwritten = memoryview(data)
        while unwritten:
            unwritten = unwritten[os.write(descriptor, unwritten) :]
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
