"""Makes a backup: every table as it was at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, models, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from adminapp.audit import keys
from adminapp.audit import selectors as audit
from tasks.backup import archive, rows

Progress = Callable[[int, int], None]
PART_BYTES = 8 * 2**20
AUDIT_KEY = "audit-key"


def backup(path: Path, *, passphrase: str | None, progress: Progress) -> dict[str, Any]:
    """Write a backup to `path`; returns its manifest without the parts.

    Raises:
        FileExistsError: there is a file already.
    """
    with archive.writing(path, passphrase) as out, snapshot():
        models_to_dump = rows.tables()
        total = sum(model._base_manager.count() for model in models_to_dump)
        dump = _Dump(out, total, progress)
        described = {rows.label(model): dump.table(model) for model in models_to_dump}
        # Without a passphrase the file would be all that is needed to read what it hides.
        if passphrase is not None:
            out.add(AUDIT_KEY, settings.AUDIT_KEY.encode())
        state = audit.state()
        manifest = {
            "made": timezone.now().isoformat(),
            "database": connection.vendor,
            "migrations": schema(),
            "tables": described,
            "audit": {"size": state.size, "root": state.root, "key_id": keys.key_id()},
        }
        out.finish(manifest)
    return manifest


def schema() -> list[str]:
    """The migrations that were applied: two databases with the same ones look the same."""
    recorder = MigrationRecorder(connection)
    return sorted(f"{app}.{name}" for app, name in recorder.applied_migrations())


@contextmanager
def snapshot() -> Iterator[None]:
    """One moment for all reads, without keeping anybody from writing meanwhile."""
    if connection.in_atomic_block:
        yield
        return
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            # Not `atomic`, which takes the lock of writers; a reader of the log needs none.
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


class _Dump:
    """Writes one table after the other, in parts that fit in memory."""

    def __init__(self, out: archive.ArchiveWriter, total: int, progress: Progress) -> None:
        self._out = out
        self._total = total
        self._done = 0
        self._progress = progress

    def table(self, model: type[models.Model]) -> dict[str, Any]:
        names: list[str] = []
        waiting: list[bytes] = []
        size = count = 0
        for line in rows.lines(model):
            waiting.append(line.encode())
            size += len(waiting[-1]) + 1
            count += 1
            self._done += 1
            if size >= PART_BYTES:
                names.append(self._part(model, len(names), waiting))
                waiting, size = [], 0
                self._progress(self._done, self._total)
        if waiting:
            names.append(self._part(model, len(names), waiting))
        self._progress(self._done, self._total)
        return {"columns": rows.columns(model), "rows": count, "parts": names}

    def _part(self, model: type[models.Model], number: int, waiting: list[bytes]) -> str:
        name = f"{rows.label(model)}/{number:06d}.jsonl.gz"
        self._out.add(name, b"\n".join(waiting) + b"\n")
        return name
