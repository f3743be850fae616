"""Imports principals of a domain from a CSV file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.core import journal
from adminapp.core.errors import ServiceError
from adminapp.identity import services
from adminapp.identity.imports import refusals
from adminapp.identity.models import Domain, PrincipalImport

WIDTH = 30
SHOWN = 20


class Command(BaseCommand):
    """All rows of the file, or with --mode valid the good ones; in one change."""

    help = (
        "Import principals from a CSV file in UTF-8. Columns: name, kind, agents, fallbacks, "
        "broker, sealing_key, verify_key, certificate, appointments and attribute.<name>; several "
        "names in a cell are separated by semicolons."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument("--domain", required=True)
        parser.add_argument(
            "--mode",
            choices=PrincipalImport.Mode.values,
            default=PrincipalImport.Mode.ALL.value,
            help="all: nothing is written when a row is refused; valid: the good rows are",
        )
        parser.add_argument("--dry-run", action="store_true", help="only check the file")

    def handle(self, *_: Any, **options: Any) -> None:
        """Import, and say what was refused."""
        domain = Domain.objects.filter(name=options["domain"]).first()
        if domain is None:
            raise CommandError(f"there is no domain `{options['domain']}`")
        try:
            with journal.source("command"):
                job = services.start_import(
                    actor=None,
                    domain=domain,
                    chunks=_chunks(options["file"]),
                    mode=options["mode"],
                    dry_run=options["dry_run"],
                    enqueue=False,
                )
        except OSError as error:
            raise CommandError(f"the file cannot be read: {error.strerror}") from error
        except ServiceError as error:
            raise CommandError(error.message) from error
        services.run_import(actor=None, job=job, beat=self._progress)
        self._end_progress()
        self._report(job)

    def _progress(self, job: PrincipalImport) -> None:
        if sys.stderr.isatty():
            share = job.rows_done / max(job.rows_total, 1)
            bar = "#" * int(WIDTH * share)
            self.stderr.write(
                f"\r{bar:<{WIDTH}} {job.rows_done:,} of {job.rows_total:,} {job.state}", ending=""
            )

    def _end_progress(self) -> None:
        if sys.stderr.isatty():
            self.stderr.write("")

    def _report(self, job: PrincipalImport) -> None:
        for number, each in enumerate(refusals(job)):
            if number == SHOWN:
                self.stdout.write("...")
                break
            column = f", {each.column}" if each.column else ""
            self.stdout.write(f"line {each.line}{column}: {each.reason}")
        self.stdout.write(
            f"{job.rows_done} rows, {job.rows_refused} refused, {job.rows_written} written"
        )
        if job.state != PrincipalImport.State.DONE:
            raise CommandError(job.error or "nothing was written" * (not job.rows_written))


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk
