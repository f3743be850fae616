"""Gives a comparator the keys of domains, or takes them from it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.core.errors import ServiceError
from adminapp.distribution import services
from adminapp.identity.management.commands.register_agent import read_keys
from adminapp.identity.models import Domain


class Command(BaseCommand):
    help = (
        "Register a comparator with the public keys that `python -m brokers.comparator init` "
        "printed, for domains whose ranges it is to compare (scheme `sbm2`); with --remove, new "
        "keys follow in these domains that it does not get."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True)
        parser.add_argument("--domain", action="append", required=True, help="may be repeated")
        parser.add_argument("--keys", default="-", help="file with the public keys; - is stdin")
        parser.add_argument("--remove", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        domains = [_domain(name) for name in options["domain"]]
        name, listed = options["name"], ", ".join(options["domain"])
        try:
            if options["remove"]:
                services.remove_comparator(actor=None, name=name, domains=domains)
                self.stdout.write(f"comparator {name} compares no more in {listed}")
                return
            keys = read_keys(options["keys"])
            services.register_comparator(actor=None, name=name, domains=domains, **keys)
        except ServiceError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"comparator {name} is registered for {listed}")


def _domain(name: str) -> Domain:
    found = Domain.objects.filter(name=name).first()
    if found is None:
        raise CommandError(f"there is no domain `{name}`")
    return found
