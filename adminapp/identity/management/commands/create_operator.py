"""Makes an operator and prints a random password, once."""

from __future__ import annotations

import json
import secrets
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.core.errors import ServiceError
from adminapp.identity import services
from adminapp.identity.models import User


class Command(BaseCommand):
    help = "Make an operator; the random password is printed once and kept nowhere."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--username", default="operator")
        parser.add_argument("--email", default="")
        parser.add_argument(
            "--reset", action="store_true", help="give an operator that exists a new password"
        )
        parser.add_argument("--json", action="store_true", help="print JSON, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        username, password = options["username"], secrets.token_urlsafe(18)
        user = User.objects.filter(username=username).first()
        try:
            if user is None:
                services.create_user(
                    actor=None,
                    username=username,
                    password=password,
                    email=options["email"],
                    operator=True,
                )
            elif options["reset"]:
                services.set_password(actor=None, user=user, password=password)
            else:
                raise CommandError(f"there is a user `{username}` already; --reset sets a password")
        except ServiceError as error:
            raise CommandError(error.message) from error
        if options["json"]:
            self.stdout.write(json.dumps({"username": username, "password": password}))
        else:
            self.stdout.write(f"name      {username}\npassword  {password}")
