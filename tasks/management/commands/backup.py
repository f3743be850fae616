"""Backs the control plane up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.core.progress import Bar
from tasks.backup.dump import backup
from tasks.backup.passphrases import ask, from_file


class Command(BaseCommand):
    help = (
        "Write all tables of the control plane, as they are at one moment, to a file. Beside it "
        "keep a copy of the trusted authority's state folder, without which no key can be opened; "
        "an encrypted backup holds the audit key, a plain one does not."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path, help="file to write, which must not be there")
        parser.add_argument("--encrypt", action="store_true", help="ask for a passphrase")
        parser.add_argument("--passphrase-file", type=Path, help="encrypt under its first line")

    def handle(self, *args: Any, **options: Any) -> None:
        file = options["passphrase_file"]
        passphrase = from_file(file) if file else ask(twice=True) if options["encrypt"] else None
        try:
            with Bar("rows") as bar:
                made = backup(options["path"], passphrase=passphrase, progress=bar.show)
        except OSError as error:
            raise CommandError(str(error)) from error
        count = sum(table["rows"] for table in made["tables"].values())
        self.stdout.write(f"{count} rows of {len(made['tables'])} tables in {options['path']}")
        key = "" if passphrase else " and the audit key"
        self.stdout.write(f"not in it: the trusted authority's state folder{key}")
