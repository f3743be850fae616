"""Shows the certificate that brokers trust for those who enrolled."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from adminapp.core.authority import AuthorityError, get_authority


class Command(BaseCommand):
    """Writes PEM to standard output."""

    help = (
        "Show the certificate of the authority that issues certificates to agents and clients "
        "that enrol. Put it into the trust store of every broker."
    )

    def handle(self, *_: Any, **__: Any) -> None:
        """Ask the authority."""
        try:
            self.stdout.write(get_authority().certificate_authority(), ending="")
        except AuthorityError as error:
            raise CommandError(str(error)) from error
