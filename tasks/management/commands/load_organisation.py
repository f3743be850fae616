"""Loads organisations from YAML files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.changes.loading import load
from adminapp.core.errors import Invalid, ServiceError


class Command(BaseCommand):
    """All files or nothing; loading twice changes nothing."""

    help = "Load organisations from YAML files: all of them or, on any mistake, nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument(
            "--update",
            action="store_true",
            help="also bring objects that exist but differ in line with the files",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Load, and say what was done."""
        try:
            report = load(options["files"], update=options["update"])
        except Invalid as error:
            lines = [f"{problem.pointer}: {problem.message}" for problem in error.problems]
            raise CommandError("\n".join(["nothing was changed:", *lines])) from error
        except ServiceError as error:
            raise CommandError(f"nothing was changed: {error.message}") from error
        for word in ("created", "updated", "different"):
            for name in getattr(report, word):
                self.stdout.write(f"{word:9} {name}")
        self.stdout.write(
            f"{len(report.created)} created, {len(report.updated)} updated, "
            f"{len(report.different)} different, {report.unchanged} unchanged"
        )
