"""Wraps every key in the database under the authority's newest key-encryption key."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from adminapp.core.authority import AuthorityError
from adminapp.distribution.rewrapping import rewrap_keys


class Command(BaseCommand):
    help = (
        "Wrap every key in the database under the trusted authority's newest key-encryption key, "
        "after `python -m tasks.authority rotate-kek`. Nothing comes here in clear."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = rewrap_keys()
        except AuthorityError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{done.renewed} of {done.keys} keys were wrapped anew")
        if done.waiting:
            raise CommandError(
                f"{done.waiting} runs of a recompute hold keys of their own: once they have "
                "ended, run this again, before the old key-encryption key is retired"
            )
