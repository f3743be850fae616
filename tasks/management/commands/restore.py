"""Restores the control plane from a backup."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.audit.verification import verify_with_authority
from adminapp.core.authority import AuthorityError
from adminapp.core.progress import Bar
from adminapp.distribution import services
from tasks.backup import archive, load
from tasks.backup.passphrases import ask, from_file

# Further than any domain comes between two backups.
STEP = 1_000_000


class Command(BaseCommand):
    help = (
        "Put a backup into an empty database of the same schema: all of it or nothing. Stop every "
        "other process of the control plane first. If the backup is older than what was lost, say "
        "--after-loss, and let the trusted authority forget the audit that it signed since: "
        "`python -m tasks.authority forget-audit`."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument("--passphrase-file", type=Path, help="its first line is the passphrase")
        parser.add_argument("--force", action="store_true", help="delete what the database holds")
        parser.add_argument("--check", action="store_true", help="only see whether it fits")
        parser.add_argument(
            "--after-loss",
            nargs="?",
            type=int,
            const=STEP,
            default=0,
            metavar="STEP",
            help="raise every domain's revision by STEP (1,000,000), past what agents may hold",
        )
        parser.add_argument(
            "--audit-key-to", type=Path, help="only write the backup's audit key to this file"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["path"]
        if options["after_loss"] < 0:
            raise CommandError("--after-loss goes up, not down")
        try:
            self._handle(path, self._passphrase(path, options["passphrase_file"]), options)
        except (archive.DamagedArchive, load.RestoreRefused) as error:
            raise CommandError(f"nothing was changed: {error}") from error
        except OSError as error:
            raise CommandError(f"nothing was changed: {path}: {error.strerror}") from error

    def _passphrase(self, path: Path, file: Path | None) -> str | None:
        if not archive.is_sealed(path):
            return None
        return from_file(file) if file else ask(twice=False)

    def _handle(self, path: Path, passphrase: str | None, options: dict[str, Any]) -> None:
        if options["audit_key_to"]:
            self._write_audit_key(path, passphrase, options["audit_key_to"])
            return
        with Bar("bytes read") as bar:
            manifest = load.check(path, passphrase=passphrase, progress=bar.show)
        self.stdout.write(f"the backup of {manifest['made']} is whole")
        if options["check"]:
            return
        with Bar("rows") as bar:
            count = load.restore(
                path,
                manifest=manifest,
                passphrase=passphrase,
                force=options["force"],
                progress=bar.show,
                after_loss=options["after_loss"],
            )
        self.stdout.write(f"{count} rows restored")
        self._recall()
        self._verify()

    def _recall(self) -> None:
        try:
            count = services.recall(restored=True)
        except AuthorityError:
            self.stdout.write(
                "not recalled: the trusted authority does not answer; serve_agents asks it for "
                "what was revoked since, before it gives any lease"
            )
            return
        self.stdout.write(f"{count} revocations since are carried out again")

    def _write_audit_key(self, path: Path, passphrase: str | None, to: Path) -> None:
        archive.check(path, passphrase, lambda _done, _total: None)
        key = load.audit_key(path, passphrase)
        if key is None:
            raise CommandError("only an encrypted backup holds the audit key")
        descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
        self.stdout.write(f"the audit key is in {to}")

    def _verify(self) -> None:
        with Bar("entries") as bar:
            report = verify_with_authority(progress=bar.show)
        for problem in report.problems:
            self.stdout.write(f"{problem.sequence}: {problem.kind}: {problem.message}")
        for what in report.unchecked:
            self.stdout.write(f"not checked: {what}")
        if report.problems:
            raise CommandError("everything was restored, and the audit in it is broken")
        self.stdout.write(f"the audit of {report.size} entries is whole")
