"""Hands rows of the outbox that are due to Celery."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from kombu.exceptions import OperationalError

from adminapp.outbox import relay
from tasks import jobs, loop


class Command(BaseCommand):
    """Runs until SIGTERM; several may run at once."""

    help = "Hand outbox rows that are due to Celery, again and again, until SIGTERM."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("--interval", type=float, default=0.1, help="seconds between looks")
        parser.add_argument("--once", action="store_true", help="hand out what is due and stop")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run the loop."""
        if options["once"]:
            self.stdout.write(f"{hand_out()} rows handed out")
            return
        stop = loop.Stop()
        stop.listen()
        self.stdout.write("relaying the outbox")
        interval: float = options["interval"]
        # After a full batch look again at once.
        loop.run(
            lambda: 0.0 if hand_out() >= BATCH else interval, stop, (OperationalError, OSError)
        )
        self.stdout.write("stopped")


BATCH = 100


def hand_out() -> int:
    """One look; returns how many rows were handed to Celery."""
    handed = relay.hand_out(limit=BATCH, first=jobs.FIRST)
    for topic, key in handed:
        jobs.work.apply_async((key,), queue=jobs.queue_for(topic))
    return len(handed)
