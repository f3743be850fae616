"""Renders ActiveMQ's configuration from the administration model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adminapp.distribution.standing import overlay_exists, standing
from tasks.activemq.names import UnusableNameError, java_name
from tasks.activemq.render import Settings, differences, missing_parts, render, write
from tasks.activemq.rights import CONTROL, Rights, control_rights, overlay_rights

# Read by ActiveMQ while it runs; everything else when it starts.
_RELOADED = frozenset({"users.properties", "groups.properties"})
_DIFFERS = 3


class Command(BaseCommand):
    """Writes, or with --check compares; both may be run as often as one likes."""

    help = (
        "Write the configuration of the ActiveMQ broker of an overlay, or of the control queues "
        "(`control`), into a folder. Only files that differ are written. Run it again after "
        "changes: users and groups are read anew by a running broker."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("broker", help="an overlay's name, or `control`")
        parser.add_argument("--out", type=Path, required=True, help="the folder")
        parser.add_argument("--check", action="store_true", help="write nothing, say what differs")
        parser.add_argument(
            "--with-control",
            action="store_true",
            help="the overlay has the control queues too",
        )
        parser.add_argument("--suffix", default="", help="end of certificates' names, `O=Example`")
        parser.add_argument("--host", default=Settings.host, help="address to listen on")
        parser.add_argument("--port", type=int, default=Settings.port)
        parser.add_argument("--store-mb", type=int, default=Settings.store_mb)
        parser.add_argument("--connections", type=int, default=Settings.connections)
        parser.add_argument(
            "--runtime-configuration",
            action="store_true",
            help="have a running broker read new authorisations too (not in Debian's ActiveMQ)",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Render."""
        try:
            settings = Settings(
                name=options["broker"],
                host=_address(options["host"]),
                port=options["port"],
                store_mb=options["store_mb"],
                connections=options["connections"],
                runtime=options["runtime_configuration"],
            )
            suffix = java_name(options["suffix"]) if options["suffix"] else ""
        except (ValueError, UnusableNameError) as error:
            raise CommandError(str(error)) from error
        rights = _rights(options["broker"], suffix, with_control=options["with_control"])
        for name, reason in sorted(rights.left_out.items()):
            self.stderr.write(f"{name} cannot sign in: {reason}")
        files = render(settings, rights)
        folder: Path = options["out"]
        try:
            found = differences(folder, files) if options["check"] else write(folder, files)
        except OSError as error:
            raise CommandError(f"{folder}: {error.strerror}") from error
        self._tell(found, folder, check=options["check"], runtime=settings.runtime)

    def _tell(self, found: dict[str, str], folder: Path, *, check: bool, runtime: bool) -> None:
        for name, what in sorted(found.items()):
            self.stdout.write(f"{name}: {what if check else 'written'}")
        if not found:
            self.stdout.write("everything is as the model has it")
        reloaded = _RELOADED | ({"activemq.xml"} if runtime else set())
        if set(found.values()) - {"missing"} and found.keys() - reloaded:
            self.stdout.write("a running broker has to be started anew for this")
        for name in missing_parts(folder):
            self.stdout.write(f"{name} is not there yet: yours to make")
        if check and found:
            raise CommandError("the configuration is not as the model has it", returncode=_DIFFERS)


def _rights(broker: str, suffix: str, *, with_control: bool) -> Rights:
    everybody = standing()
    overlay = overlay_exists(broker)
    if not overlay and broker != CONTROL:
        raise CommandError(f"there is no overlay `{broker}`")
    if broker == CONTROL or with_control:
        return control_rights(everybody, suffix=suffix, overlay=broker if overlay else None)
    return overlay_rights(everybody, broker, suffix=suffix)


def _address(host: str) -> str:
    if not host or any(not (each.isalnum() or each in ".-:[]") for each in host):
        raise ValueError(f"`{host}` is not an address")
    return host
