"""Writes the audit as lines of JSON."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from adminapp.audit import exporting, selectors
from adminapp.core.progress import Bar


class Command(BaseCommand):
    help = "Write entries of the audit as lines of JSON, and the last checkpoint after them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", help="file to write, which must not be there; - for output")
        parser.add_argument("--domain", help="only entries of this domain")
        parser.add_argument("--person", default="", help="only entries about this pseudonym")
        parser.add_argument("--since", type=_moment, help="ISO 8601; UTC without an offset")
        parser.add_argument("--until", type=_moment, help="ISO 8601; entries before it")

    def handle(self, *args: Any, **options: Any) -> None:
        domain = options["domain"]
        found = selectors.search(
            domain_names=None if domain is None else {domain},
            person=options["person"],
            since=options["since"],
            until=options["until"],
        )
        if options["path"] == "-":
            for document in exporting.documents(found):
                self.stdout.write(_line(document))
            return
        try:
            with Path(options["path"]).open("x", encoding="utf-8") as file:
                total = found.count()
                with Bar("entries") as bar:
                    for number, document in enumerate(exporting.documents(found)):
                        file.write(_line(document) + "\n")
                        bar.show(number, total)
        except OSError as error:
            raise CommandError(f"{options['path']}: {error.strerror}") from error


def _line(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, sort_keys=True)


def _moment(text: str) -> datetime:
    found = parse_datetime(text)
    if found is None:
        raise ValueError(text)
    return found if found.tzinfo else timezone.make_aware(found)
