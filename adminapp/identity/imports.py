"""Imports of principals from CSV files: all of a file's rows in one change, or none.

A file is checked outside any transaction, against the domain as it is at one revision, and written
in one transaction if that revision still stands; else it is checked again. Whatever breaks before
that transaction commits leaves no principal behind, and the work starts anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.core import journal, versions
from adminapp.core.errors import InUse, ServiceError
from adminapp.identity import mapping, permissions, ports
from adminapp.identity.csvfile import Refusal, Unreadable, count_lines
from adminapp.identity.importing import Checker, Wanted
from adminapp.identity.models import Domain, HomeAgent, Principal, PrincipalImport, User
from adminapp.identity.recording import BulkChange, record_many
from adminapp.outbox import services as outbox

Beat: TypeAlias = Callable[[PrincipalImport], None]
State = PrincipalImport.State
OPEN = (State.WAITING, State.CHECKING, State.WRITING)
STEP = 500
BATCH = 1000
ATTEMPTS = 3


class _Moved(Exception):
    """The domain was changed since the file was checked."""


class _Stopped(Exception):
    """The import was cancelled, or somebody else finished it."""


def start_import(
    *,
    actor: User | None,
    domain: Domain,
    chunks: Iterable[bytes],
    mode: str = PrincipalImport.Mode.ALL,
    dry_run: bool = False,
    enqueue: bool = True,
) -> PrincipalImport:
    """Keep a file and have it worked on.

    Args:
        chunks: the file; what its iterator raises is passed on, and nothing is kept.
        mode: `all` writes nothing when a row is refused, `valid` writes the others.
        dry_run: only check.
        enqueue: False leaves the work to the caller, see `run_import`.
    """
    permissions.require_manager(actor, domain)
    job = PrincipalImport(
        domain=domain,
        user=actor,
        mode=mode,
        dry_run=dry_run,
        source=journal.current_source()[:8],
    )
    versions.check(job)
    path = file_of(job)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for chunk in chunks:
                file.write(chunk)
        with transaction.atomic():
            job.save(force_insert=True)
            _note(job, actor, "import.started")
            if enqueue:
                outbox.put(topic="import", key=f"import:{job.uid}", payload={"import": job.pk})
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return job


def cancel_import(
    *, actor: User | None, job: PrincipalImport, expected_version: int | None = None
) -> PrincipalImport:
    """Stop an import that has not begun to write."""
    permissions.require_manager(actor, job.domain)
    with transaction.atomic():
        row = versions.locked(job, expected_version)
        if row.state not in (State.WAITING, State.CHECKING):
            raise InUse(f"this import is {row.get_state_display().lower()} and cannot be stopped")
        row.state, row.finished = State.CANCELLED, timezone.now()
        versions.save(row)
        _note(row, actor, "import.cancelled")
    file_of(row).unlink(missing_ok=True)
    return row


def run_import(
    *, actor: User | None, job: PrincipalImport, beat: Beat = lambda _job: None
) -> PrincipalImport:
    """Work on an import until it is done, refused or stopped; again when it broke half-way.

    Args:
        actor: whoever runs the work; the principals are made by the one who asked for them.
        beat: called every few hundred rows.
    """
    job.refresh_from_db()
    if job.state not in OPEN:
        return job
    try:
        _work(job, beat)
    except _Stopped:
        job.refresh_from_db()
    except Unreadable as error:
        _end(job, State.REFUSED, [error.refusal], error=error.refusal.reason)
    except ServiceError as error:
        _end(job, State.REFUSED, [], error=error.message)
    return job


def prune_imports(*, actor: User | None) -> int:
    """Forget imports that ended long ago, and their reports."""
    old = timezone.now() - settings.IMPORTS_KEPT
    gone = list(PrincipalImport.objects.exclude(state__in=OPEN).filter(finished__lt=old))
    for job in gone:
        file_of(job).unlink(missing_ok=True)
        report_of(job).unlink(missing_ok=True)
    PrincipalImport.objects.filter(pk__in=[job.pk for job in gone]).delete()
    return len(gone)


def file_of(job: PrincipalImport) -> Path:
    """Where the file is kept until the import ends."""
    return Path(settings.IMPORT_DIR) / f"{job.uid}.csv"


def report_of(job: PrincipalImport) -> Path:
    """Where the report is: a JSON object a line."""
    return Path(settings.IMPORT_DIR) / f"{job.uid}.jsonl"


def refusals(job: PrincipalImport) -> Iterator[Refusal]:
    """What was refused, in the order of the file."""
    with suppress(FileNotFoundError), report_of(job).open(encoding="utf-8") as file:
        for line in file:
            yield Refusal(**json.loads(line))


# -- the work --------------------------------------------------------------------------------


def _work(job: PrincipalImport, beat: Beat) -> None:
    path = file_of(job)
    if not path.exists():
        _end(job, State.FAILED, [], error="the file is gone")
        return
    for _attempt in range(ATTEMPTS):
        domain = Domain.objects.get(pk=job.domain_id)
        permissions.require_manager(job.user, domain)
        wanted, refused = _check(job, domain, path, beat)
        nothing = job.dry_run or not wanted or (refused and job.mode == PrincipalImport.Mode.ALL)
        if nothing:
            _end(job, State.REFUSED if refused else State.DONE, refused)
            return
        _go_on(job, State.WRITING)
        beat(job)
        try:
            with journal.source(job.source):
                _write(job, domain.revision, wanted, refused)
        except _Moved:
            continue
        path.unlink(missing_ok=True)
        return
    raise InUse("the domain is being changed all the time; import the file again later")


def _check(
    job: PrincipalImport, domain: Domain, path: Path, beat: Beat
) -> tuple[list[Wanted], list[Refusal]]:
    job.rows_done = job.rows_refused = 0
    job.rows_total = max(count_lines(path) - 1, 0)
    job.started = job.started or timezone.now()
    _go_on(job, State.CHECKING)
    wanted: list[Wanted] = []
    refused: list[Refusal] = []
    for found in Checker.of(domain, job.user, timezone.now()).rows(path):
        job.rows_done += 1
        if isinstance(found, Wanted):
            wanted.append(found)
        else:
            refused += found
            job.rows_refused += 1
        if job.rows_done % STEP == 0:
            _go_on(job, State.CHECKING)
            beat(job)
    job.rows_total = job.rows_done
    _go_on(job, State.CHECKING)
    return wanted, refused


def _go_on(job: PrincipalImport, state: str) -> None:
    """Say how far it is, unless it was stopped."""
    job.state = state
    fields = ("state", "rows_done", "rows_total", "rows_refused", "started")
    values = {field: getattr(job, field) for field in fields}
    if not PrincipalImport.objects.filter(pk=job.pk, state__in=OPEN).update(**values):
        raise _Stopped


@audit.change
def _write(
    job: PrincipalImport, revision: int, wanted: list[Wanted], refused: list[Refusal]
) -> None:
    held = PrincipalImport.objects.select_for_update().get(pk=job.pk)
    if held.state not in OPEN:
        raise _Stopped
    domain = Domain.objects.get(pk=job.domain_id)
    if domain.revision != revision:
        raise _Moved
    permissions.require_manager(job.user, domain)
    Principal.objects.bulk_create([each.row for each in wanted], batch_size=BATCH)
    HomeAgent.objects.bulk_create(
        [home for each in wanted for home in each.homes], batch_size=BATCH
    )
    record_many(job.user, domain, "principal.created", map(_change, wanted))
    appointed = [(each.row, each.appointments) for each in wanted if each.appointments]
    if appointed:
        ports.appointments_of(domain, job.user).give(appointed)
    job.rows_written = len(wanted)
    _end(job, State.DONE, refused)


def _change(wanted: Wanted) -> BulkChange:
    row = wanted.row
    return BulkChange(row, mapping.principal_at(row, wanted.homes), row.name)


def _end(job: PrincipalImport, state: str, refused: list[Refusal], *, error: str = "") -> None:
    """Keep the report and say how it ended; the file is needed no more."""
    fresh = report_of(job).with_suffix(f".{os.getpid()}")
    with fresh.open("w", encoding="utf-8") as file:
        for each in refused:
            file.write(json.dumps(asdict(each), ensure_ascii=False) + "\n")
    fresh.replace(report_of(job))
    job.state, job.error, job.finished = state, error, timezone.now()
    fields = ("state", "error", "finished", "rows_done", "rows_total", "rows_refused",
              "rows_written")  # fmt: skip
    values = {field: getattr(job, field) for field in fields}
    with transaction.atomic():
        if not PrincipalImport.objects.filter(pk=job.pk, state__in=OPEN).update(**values):
            raise _Stopped
        _note(job, job.user, f"import.{state}")
    if not job.rows_written:
        file_of(job).unlink(missing_ok=True)


def _note(job: PrincipalImport, actor: User | None, action: str) -> None:
    """Have the audit say that somebody sent a file and what became of it.

    A file that is only checked writes nothing and leaves nothing.
    """
    if job.dry_run:
        return
    audit.write(
        actor=actor,
        action=action,
        domain_name=job.domain.name,
        object_type="import",
        object_id=job.pk,
        object_name=str(job.uid),
        after={
            "mode": job.mode,
            "state": job.state,
            "rows_total": job.rows_total,
            "rows_refused": job.rows_refused,
            "rows_written": job.rows_written,
        },
    )
