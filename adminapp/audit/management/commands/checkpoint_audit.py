"""Has the audit signed now."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.audit.checkpoints import CheckpointRefused, log_key, make_checkpoint
from adminapp.core.authority import AuthorityError
from policyengine.primitives.checkpoints import verifier_key


class Command(BaseCommand):
    help = "Have the trusted authority sign the audit as it is now, and print the checkpoint."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--print-key",
            action="store_true",
            help="print the verifier key instead; keep it where nobody can change it",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["print_key"]:
                key = log_key()
                self.stdout.write(verifier_key(key.origin, key.public))
                return
            made = make_checkpoint()
        except (AuthorityError, CheckpointRefused) as error:
            raise CommandError(str(error)) from error
        self.stdout.write("nothing was added since the last one" if made is None else made.note)
