"""Restores a backup: all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.core.management.color import no_style
from django.db import IntegrityError, connection, models, transaction

from adminapp.audit import keys, witness
from adminapp.audit import selectors as audit_selectors
from adminapp.audit import services as audit
from adminapp.distribution import services as distribution
from tasks.backup import archive, dump, rows

Progress = Callable[[int, int], None]
BATCH = 500
# Django makes these by itself in every database.
MADE_BY_DJANGO = frozenset({"contenttypes.contenttype", "auth.permission"})


class RestoreRefused(Exception):
    """Nothing was changed; the message says why."""


def check(path: Path, *, passphrase: str | None, progress: Progress) -> dict[str, Any]:
    """Read a backup and see that it can be restored here; returns its manifest.

    Raises:
        DamagedArchive: it is not whole.
        RestoreRefused: it is of another schema or audit key than this control plane.
    """
    manifest: dict[str, Any] = archive.check(path, passphrase, progress)
    here = dump.schema()
    if manifest["migrations"] != here:
        apart = sorted(set(manifest["migrations"]) ^ set(here))
        raise RestoreRefused(
            f"the backup has another schema; migrations that differ: {', '.join(apart[:5])}"
        )
    if manifest["audit"]["size"] and manifest["audit"]["key_id"] != keys.key_id():
        raise RestoreRefused(
            "the backup was made under another audit key: start with that one "
            "(PORTCULLIS_AUDIT_KEY_FILE); an encrypted backup holds it, see --audit-key-to"
        )
    return manifest


def audit_key(path: Path, passphrase: str | None) -> bytes | None:
    """The audit key that an encrypted backup holds."""
    found = (data for name, data in archive.parts(path, passphrase) if name == dump.AUDIT_KEY)
    return next(found, None)


def restore(
    path: Path,
    *,
    manifest: dict[str, Any],
    passphrase: str | None,
    force: bool,
    progress: Progress,
    after_loss: int = 0,
) -> int:
    """Put what `check` found whole into the database; returns the number of rows.

    Args:
        force: whether what is there now may go.
        after_loss: how far to raise the revisions of all domains above those of the backup, past
            whatever agents heard of since; 0 where nothing was changed since.

    Raises:
        RestoreRefused: the database is not empty, or the rows do not fit together.
    """
    if not force and not is_empty():
        raise RestoreRefused("the database is not empty; --force deletes what it holds")
    try:
        with transaction.atomic():
            total = _Load(path, manifest, progress).run(passphrase)
            ContentType.objects.clear_cache()
            _note(manifest, after_loss)
    except IntegrityError as error:
        raise RestoreRefused(f"the backup's rows do not fit together: {error}") from error
    _begin_witness()
    return total


def is_empty() -> bool:
    """Whether nothing was ever made in this database."""
    return not any(
        model._base_manager.exists()
        for model in rows.tables()
        if rows.label(model) not in MADE_BY_DJANGO
    )


class _Load:
    """Replaces every table by the backup's."""

    def __init__(self, path: Path, manifest: dict[str, Any], progress: Progress) -> None:
        self._path = path
        self._tables: dict[str, Any] = manifest["tables"]
        self._models = {rows.label(model): model for model in rows.tables()}
        self._progress = progress

    def run(self, passphrase: str | None) -> int:
        if set(self._tables) != set(self._models):
            raise RestoreRefused("the backup has other tables than this release")
        for model in self._models.values():
            queryset: Any = model._base_manager.all()
            # References are checked at the end of the transaction, so the order is free.
            queryset._raw_delete(queryset.db)
        counts = self._insert(passphrase)
        for name, table in self._tables.items():
            if counts.get(name, 0) != table["rows"]:
                raise RestoreRefused(f"the backup lacks rows of `{name}`")
        connection.check_constraints()
        self._reset_sequences()
        return sum(counts.values())

    def _insert(self, passphrase: str | None) -> dict[str, int]:
        total = sum(table["rows"] for table in self._tables.values())
        counts: dict[str, int] = {}
        for name, data in archive.parts(self._path, passphrase):
            label = name.partition("/")[0]
            if label not in self._models:
                continue
            found = rows.rows(self._models[label], self._tables[label]["columns"], data)
            for batch in _batches(found):
                self._models[label]._base_manager.bulk_create(batch)
                counts[label] = counts.get(label, 0) + len(batch)
                self._progress(sum(counts.values()), total)
        return counts

    def _reset_sequences(self) -> None:
        statements = connection.ops.sequence_reset_sql(no_style(), list(self._models.values()))
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def _batches(found: Iterable[models.Model]) -> Iterator[list[models.Model]]:
    remaining = iter(found)
    while batch := list(islice(remaining, BATCH)):
        yield batch


@audit.change
def _note(manifest: dict[str, Any], after_loss: int) -> None:
    audit.write(
        actor=None,
        action="backup.restored",
        object_type="backup",
        object_id=manifest["made"],
        object_name=f"backup of {manifest['made']}",
        after={"rows": {name: table["rows"] for name, table in manifest["tables"].items()}},
    )
    if after_loss:
        distribution.resume_after_loss(by=after_loss)


def _begin_witness() -> None:
    """The file beside the database may know of a future that is no more; it is kept aside."""
    notes = [row.note for row in audit_selectors.checkpoints().order_by("size")]
    if list(witness.read()) != notes:
        witness.begin_anew(notes)
