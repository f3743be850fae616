"""Checks the whole audit."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.audit.promises import LogKey
from adminapp.audit.verification import Report, verify, verify_with_authority
from adminapp.core.progress import Bar
from policyengine.errors import DecodeError
from policyengine.primitives.checkpoints import parse_verifier_key

BROKEN, UNCHECKED = 1, 2


class Command(BaseCommand):
    help = (
        "Say which entries of the audit were changed, removed, added or moved. "
        "Exit code 0: sound, 1: broken, 2: not all could be checked."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--key",
            type=Path,
            help="file with the verifier key of the checkpoints; the authority's own otherwise",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with Bar("entries") as bar:
            if options["key"] is None:
                report = verify_with_authority(progress=bar.show)
            else:
                report = verify(key=_key(options["key"]), progress=bar.show)
        if options["json"]:
            self.stdout.write(json.dumps(asdict(report), sort_keys=True))
        else:
            self._print(report)
        if report.problems:
            places = len(report.problems)
            raise CommandError(
                f"the audit is broken in {places} place{'s' if places > 1 else ''}",
                returncode=BROKEN,
            )
        if report.unchecked:
            raise CommandError("not all could be checked", returncode=UNCHECKED)

    def _print(self, report: Report) -> None:
        for problem in report.problems:
            self.stdout.write(f"{problem.sequence}: {problem.kind}: {problem.message}")
        for what in report.unchecked:
            self.stdout.write(f"not checked: {what}")
        if not report.problems and not report.unchecked:
            self.stdout.write(
                f"the audit of {report.size} entries is whole; "
                f"{report.checkpoints} signed checkpoints hold"
            )


def _key(path: Path) -> LogKey:
    try:
        return LogKey(*parse_verifier_key(path.read_text(encoding="ascii").strip()))
    except (OSError, UnicodeDecodeError, DecodeError) as error:
        raise CommandError(f"{path} holds no verifier key", returncode=UNCHECKED) from error
