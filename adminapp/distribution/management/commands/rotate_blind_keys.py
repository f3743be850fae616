"""Has new keys of blind profiles follow in a domain."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.core.errors import ServiceError
from adminapp.distribution import services
from adminapp.identity.models import Domain


class Command(BaseCommand):
    help = (
        "Have new keys follow for all that a domain hides from agents: after a client's keys or "
        "an agent's shares may have been copied, or to change who compares ranges."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--domain", required=True)
        parser.add_argument("--reason", required=True, help="for the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        domain = Domain.objects.filter(name=options["domain"]).first()
        if domain is None:
            raise CommandError(f"there is no domain `{options['domain']}`")
        try:
            epoch = services.rotate_blind_keys(actor=None, domain=domain, reason=options["reason"])
        except ServiceError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"after {epoch} another one follows now")
