"""Registers a broker agent by its public keys."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.core.errors import ServiceError
from adminapp.identity import services
from adminapp.identity.models import Agent, Overlay


class Command(BaseCommand):
    help = (
        "Register an agent with the public keys that `python -m brokers.agent init` printed. "
        "Run again with the same keys it changes nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True)
        parser.add_argument("--overlay", required=True)
        parser.add_argument("--keys", default="-", help="file with the public keys; - is stdin")

    def handle(self, *args: Any, **options: Any) -> None:
        keys = read_keys(options["keys"])
        overlay = Overlay.objects.filter(name=options["overlay"]).first()
        if overlay is None:
            raise CommandError(f"there is no overlay `{options['overlay']}`")
        held = Agent.objects.filter(name=options["name"]).first()
        if held is not None:
            self._check_same(held, overlay, keys)
            self.stdout.write(f"agent {held.name} was registered already")
            return
        try:
            services.register_agent(actor=None, name=options["name"], overlay=overlay, **keys)
        except ServiceError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"agent {options['name']} is registered on overlay {overlay.name}")

    def _check_same(self, held: Agent, overlay: Overlay, keys: dict[str, str]) -> None:
        same = held.overlay_id == overlay.pk and all(
            getattr(held, field) == value for field, value in keys.items()
        )
        if not same:
            raise CommandError(f"agent `{held.name}` is registered with another overlay or keys")


def read_keys(source: str) -> dict[str, str]:
    """The two public keys from a JSON file or standard input; other fields are passed over."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        found = json.loads(text)
        return {name: str(found[name]) for name in ("sealing_key", "verify_key")}
    except OSError as error:
        raise CommandError(f"the keys cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError("the keys are JSON with `sealing_key` and `verify_key`") from error
