"""Checks the chain of the audit."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from adminapp.audit import selectors
from adminapp.audit.models import Entry


class Command(BaseCommand):
    help = "Say which entries of the audit were changed, removed, added or moved; exit 1 if any."

    def handle(self, *args: Any, **options: Any) -> None:
        problems = selectors.verify_chain()
        for problem in problems:
            self.stdout.write(f"{problem.sequence}: {problem.kind}: {problem.message}")
        if problems:
            raise CommandError(f"the chain is broken in {len(problems)} places", returncode=1)
        self.stdout.write(f"the chain of {Entry.objects.count()} entries is whole")
