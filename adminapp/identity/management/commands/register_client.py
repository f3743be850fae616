"""Registers the public keys of a principal's client."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.core.errors import ServiceError
from adminapp.identity import services
from adminapp.identity.management.commands.register_agent import read_keys
from adminapp.identity.models import Principal


class Command(BaseCommand):
    help = "Register the public keys of a principal's client."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--domain", required=True)
        parser.add_argument("--principal", required=True, help="its name or handle")
        parser.add_argument("--keys", default="-", help="file with the public keys; - is stdin")

    def handle(self, *args: Any, **options: Any) -> None:
        keys = read_keys(options["keys"])
        rows = Principal.objects.filter(domain__name=options["domain"])
        wanted = options["principal"]
        principal = rows.filter(name=wanted).first() or rows.filter(handle=wanted).first()
        if principal is None:
            raise CommandError(f"domain `{options['domain']}` has no principal `{wanted}`")
        if all(getattr(principal, field) == value for field, value in keys.items()):
            self.stdout.write(f"{principal.name} has these keys already")
            return
        try:
            services.register_credentials(actor=None, principal=principal, **keys)
        except ServiceError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{principal.name} ({principal.handle}) can take part now")
