"""The decision log on an agent's disk: numbered segments of lines, one folder a domain.

    <folder>/<domain>/stream.json     the stream's name, the last number used, its end
    <folder>/<domain>/current.log     the segment that is being written
    <folder>/<domain>/000000000007.segment

A segment is a header line, rows (`policyengine.bundles.DecisionRow.to_line`) and, once it is
finished, a trailer. Rows are with the kernel when `record` returns, so `kill -9` of the agent
loses none of them; `sync` puts them on the disk, so the end of the machine loses what came
after the last one. After either the segment ends with its last whole row, and what lies between
that and the next one's beginning is a span that nobody vouches for.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from brokers.adapters.files import private_folder, sync_folder, write_atomically
from brokers.adapters.logs import log, log_failure
from brokers.ports import Decision
from policyengine.bundles.decisions import MAX_ROWS, MAX_SEGMENT
from policyengine.primitives.canonical import dumps

_LOGGER = logging.getLogger("portcullis.decisions")
_SEGMENT = re.compile(r"([0-9]{12})\.segment")
_DOMAIN = re.compile(r"[a-z0-9-]{1,64}")
_CURRENT = "current.log"
_STREAM = "stream.json"
_LINE_ROOM = 64 * 1024
_MEBIBYTE = 2**20
_PAUSE_AFTER_FAILURE_MS = 5000


@dataclass(frozen=True)
class Segment:
    """A finished segment on the disk."""

    domain: str
    sequence: int
    path: Path


@dataclass(frozen=True)
class Content:
    """What a segment holds; see `policyengine.bundles.DecisionReport`."""

    stream: str
    begin: int
    end: int
    lost: int
    lines: list[bytes]


class DecisionFolder:
    """Keeps decisions of all domains; `record` and `tend` for one thread, the rest for another.

    Args:
        folder: where; made if missing.
        most_bytes: most bytes of finished segments of a domain; the oldest leave first.
        full_after: seconds after which a segment with rows is finished.
        empty_after: the same of one without any.
    """

    def __init__(
        self,
        folder: Path,
        *,
        most_bytes: int = 64 * _MEBIBYTE,
        full_after: float = 60.0,
        empty_after: float = 300.0,
    ) -> None:
        self._folder = private_folder(folder)
        self._most_bytes = most_bytes
        self._full_after = full_after
        self._empty_after = empty_after
        self._lock = threading.Lock()
        self._open: dict[str, _Writer] = {}
        self._lost: dict[str, int] = {}
        self._again: dict[str, int] = {}

    # the data path

    def tend(self, now: float, days: Mapping[str, int]) -> None:
        """See `DecisionLog`."""
        moment = int(now * 1000)
        for domain in [name for name in self._open if name not in days]:
            # What is delivered from now on is logged nowhere: the next span does not join on.
            self._finish(domain, moment, orderly=False)
        for domain, kept in days.items():
            writer = self._open.get(domain)
            if writer is not None and not self._due(writer, moment):
                continue
            if writer is not None:
                self._finish(domain, moment)
                self._expire(domain, moment - kept * 86_400_000)
            if moment >= self._again.get(domain, 0):
                self._begin(domain, moment)

    def record(
        self, domain: str, decisions: Iterable[Decision], *, now: float, revision: int
    ) -> None:
        """See `DecisionLog`."""
        at = int(now * 1000)
        lines = [_line(one, at, revision) for one in decisions]
        if not lines:
            return
        writer = self._open.get(domain)
        with self._lock:
            written = writer.write(lines, at) if writer is not None else 0
        lost = len(lines) - written
        if lost:
            self._lost[domain] = self._lost.get(domain, 0) + lost

    def close(self, now: float) -> None:
        """End all segments in good order: nothing is delivered from now on."""
        for domain in list(self._open):
            self._finish(domain, int(now * 1000))

    def _due(self, writer: _Writer, now: int) -> bool:
        age = (now - writer.begin) / 1000
        full = writer.size + _LINE_ROOM > MAX_SEGMENT or writer.rows >= MAX_ROWS // 2
        return full or age >= (self._full_after if writer.rows else self._empty_after)

    def _begin(self, domain: str, now: int) -> None:
        if _DOMAIN.fullmatch(domain) is None:
            return
        try:
            folder = private_folder(self._folder / domain)
            with self._lock:
                self._open[domain] = _Writer.take_up(folder, now)
        except OSError:
            self._again[domain] = now + _PAUSE_AFTER_FAILURE_MS
            log_failure(_LOGGER, "segment not begun", domain=domain)

    def _finish(self, domain: str, now: int, *, orderly: bool = True) -> None:
        writer = self._open.pop(domain)
        lost = self._lost.pop(domain, 0)
        try:
            with self._lock:
                writer.finish(now, lost, orderly=orderly)
        except OSError:
            self._lost[domain] = lost
            log_failure(_LOGGER, "segment not finished", domain=domain)

    def _expire(self, domain: str, oldest: int) -> None:
        """Let go of what is too old, and of the oldest where there is too much."""
        held = [(one, one.path.stat()) for one in self.finished(domain)]
        size = sum(status.st_size for _, status in held)
        for one, status in held:
            if size <= self._most_bytes and status.st_mtime_ns // 1_000_000 >= oldest:
                break
            size -= status.st_size
            self.forget(one)
            log(_LOGGER, logging.WARNING, "segment dropped", domain=domain, number=one.sequence)

    # the control side

    def sync(self) -> None:
        """Put everything written on the disk."""
        with self._lock:
            held = [os.dup(writer.descriptor) for writer in self._open.values() if writer.dirty()]
        for descriptor in held:
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)

    def finished(self, domain: str) -> list[Segment]:
        """The finished segments of a domain, oldest first."""
        folder = self._folder / domain
        if not folder.is_dir():
            return []
        found = ((_SEGMENT.fullmatch(path.name), path) for path in folder.iterdir())
        return sorted(
            (Segment(domain, int(match[1]), path) for match, path in found if match),
            key=lambda one: one.sequence,
        )

    def read(self, segment: Segment) -> Content:
        """What a segment holds.

        Raises:
            ValueError: the file is damaged.
        """
        head, *lines, tail = segment.path.read_bytes().splitlines()
        header, trailer = json.loads(head), json.loads(tail)
        if header["sequence"] != segment.sequence or trailer["rows"] != len(lines):
            raise ValueError("the segment is damaged")
        return Content(
            header["stream"], header["begin"], trailer["end"], trailer["lost"], list(lines)
        )

    def forget(self, segment: Segment) -> None:
        """Delete a segment."""
        segment.path.unlink(missing_ok=True)


class _Writer:
    """The segment that is being written."""

    def __init__(self, folder: Path, stream: str, sequence: int, begin: int) -> None:
        self._folder = folder
        self._stream = stream
        self._sequence = sequence
        self.begin = begin
        self.rows = 0
        self.size = 0
        self._last = begin
        self._unsynced = False
        path = folder / _CURRENT
        self._file: BinaryIO = path.open("xb", buffering=0)
        path.chmod(0o600)
        self._whole = self._append([_header(stream, sequence, begin)])

    @classmethod
    def begin_after(cls, folder: Path, stream: str, last: int, begin: int) -> _Writer:
        """Take the next number, on the disk before anything is written under it."""
        write_atomically(
            folder / _STREAM, dumps({"stream": stream, "sequence": last + 1, "end": begin})
        )
        return cls(folder, stream, last + 1, begin)

    @classmethod
    def take_up(cls, folder: Path, now: int) -> _Writer:
        """Begin the next segment; what an earlier run left unfinished is finished first."""
        _recover(folder)
        held = _stream(folder)
        # After an orderly end nothing was delivered in between: the next span joins on.
        begin = held["end"] if held["orderly"] else now
        return cls.begin_after(folder, held["stream"], held["sequence"], min(begin, now))

    @property
    def descriptor(self) -> int:
        """Of the open file."""
        return self._file.fileno()

    def dirty(self) -> bool:
        """Whether something was written since the last call."""
        found, self._unsynced = self._unsynced, False
        return found

    def write(self, lines: list[bytes], at: int) -> int:
        """Add rows; returns how many found room."""
        room = MAX_SEGMENT - self.size
        taken: list[bytes] = []
        for line in lines:
            room -= len(line) + 1
            if room < 0 or self.rows + len(taken) >= MAX_ROWS:
                break
            taken.append(line)
        try:
            self._whole = self._append(taken)
        except OSError:
            log_failure(_LOGGER, "decisions not written")
            self._cut()
            return 0
        self.rows += len(taken)
        self.size += sum(len(line) + 1 for line in taken)
        self._last = max(self._last, at)
        self._unsynced = True
        return len(taken)

    def finish(self, now: int, lost: int, *, orderly: bool) -> None:
        """End it: everything until before `now` is in it."""
        # A row of this very moment belongs to it, so the span ends behind that.
        end = max(now, self._last + 1 if self.rows else self._last)
        self._append([_trailer(self.rows, end, lost)])
        os.fsync(self.descriptor)
        self._file.close()
        _file_away(self._folder, self._stream, self._sequence, end, orderly=orderly)

    def _append(self, lines: list[bytes]) -> int:
        data = b"".join(line + b"\n" for line in lines)
        done = 0
        while done < len(data):
            done += self._file.write(data[done:]) or 0
        return self._file.tell()

    def _cut(self) -> None:
        """A full disk may have taken half of a row."""
        os.ftruncate(self.descriptor, self._whole)
        self._file.seek(self._whole)


def _line(one: Decision, at: int, revision: int) -> bytes:
    return dumps(
        [at, revision, one.epoch, one.action, one.client, one.type, one.outcome, one.reason,
         one.policies, one.subscriptions, one.count]
    )  # fmt: skip


def _header(stream: str, sequence: int, begin: int) -> bytes:
    return dumps({"stream": stream, "sequence": sequence, "begin": begin})


def _trailer(rows: int, end: int, lost: int) -> bytes:
    return dumps({"rows": rows, "end": end, "lost": lost})


def _file_away(folder: Path, stream: str, sequence: int, end: int, *, orderly: bool) -> None:
    (folder / _CURRENT).rename(folder / f"{sequence:012d}.segment")
    held = {"stream": stream, "sequence": sequence, "end": end, "orderly": orderly}
    write_atomically(folder / _STREAM, dumps(held))
    sync_folder(folder)


def _stream(folder: Path) -> dict[str, Any]:
    """The stream's name and last number; a new stream where they are lost."""
    fresh = {"stream": secrets.token_hex(16), "sequence": 0, "end": 0, "orderly": False}
    try:
        held = json.loads((folder / _STREAM).read_bytes())
        return {**fresh, **held}
    except (OSError, ValueError, TypeError):
        return fresh


def _recover(folder: Path) -> None:
    """Finish what a run that died was writing: whole rows stay, and it ends with the last."""
    path = folder / _CURRENT
    if not path.exists():
        return
    data = path.read_bytes()
    head, *rows = data[: data.rfind(b"\n") + 1].splitlines() or [b""]
    try:
        header = json.loads(head)
        stream, sequence, begin = header["stream"], header["sequence"], header["begin"]
        if rows and rows[-1].startswith(b"{"):
            end = json.loads(rows[-1])["end"]  # it died between the trailer and the rename
        else:
            end = max([begin, *(json.loads(row)[0] + 1 for row in rows)])
            rows.append(_trailer(len(rows), end, 0))
    except (ValueError, KeyError, TypeError, IndexError):
        log(_LOGGER, logging.ERROR, "segment unreadable", domain=folder.name)
        path.unlink()
        return
    write_atomically(path, b"".join(line + b"\n" for line in (head, *rows)))
    _file_away(folder, stream, sequence, end, orderly=False)
