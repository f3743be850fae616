"""A control plane in processes of its own, configured by its environment alone.

The tests' own process has its settings already, so whatever needs another database or
another transport runs beside it: `Plane` starts it, `plane_commands` is what it runs.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.commands import Commands
from tests.support.migrated import migrated
from tests.support.processes import Running

COMMANDS = "tests.support.plane_commands"
QUEUES = "urgent,normal,slow"


class Plane:
    """Starts parts of one control plane.

    Args:
        folder: its state folder.
        environment: settings on top of the embedded defaults.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.environment = {
            "PORTCULLIS_ENV": "test",
            "PORTCULLIS_VAR": str(folder),
            "PLANE_EFFECTS": str(folder / "effects.log"),
            "PLANE_GATE": str(folder / "gate"),
            **(environment or {}),
        }
        self._commands = Commands(COMMANDS, {**os.environ, **self.environment})

    # -- commands that end by themselves ---------------------------------------------------

    def migrate(self) -> None:
        """Put a migrated database in place, the embedded one."""
        migrated(self.folder / "portcullis.sqlite3")

    def manage(self, *arguments: str) -> str:
        """Run a management command; give what it printed."""
        process = self.start(f"manage-{arguments[0]}", "manage.py", *arguments)
        try:
            status = process.process.wait(180)
        finally:
            process.stop()
        assert status == 0, process.text()
        return process.text()

    def call(self, command: str, *arguments: object) -> Any:
        """Have one of `plane_commands` done and give its answer; one process does them all."""
        return self._commands.call(command, *arguments)

    # -- processes that run until they are stopped -------------------------------------------

    def start(self, name: str, *arguments: str) -> Running:
        """Start Python with arguments; its output goes to `<name>.log`."""
        return Running(
            [sys.executable, *arguments],
            log=self.folder / f"{name}.log",
            environment=self.environment,
        )

    def worker(self, name: str) -> Running:
        """Start a Celery worker with one child that also knows the commands' slow work."""
        arguments = (
            "-A",
            "tasks.celery",
            "worker",
            "-I",
            COMMANDS,
            "-c",
            "1",
            "-n",
            f"{name}@test",
        )
        return self.start(
            name, "-m", "celery", *arguments, "-Q", QUEUES, "--loglevel", "INFO",
            "--without-gossip", "--without-mingle",
        )  # fmt: skip

    def relay(self) -> Running:
        """Start the relay of the outbox."""
        return self.start("relay", "manage.py", "relay_outbox", "--interval", "0.1")

    # -- what became of it -------------------------------------------------------------------

    def row(self, key: str) -> dict[str, Any]:
        """Give a row of the outbox, read straight from the embedded database."""
        path = self.folder / "portcullis.sqlite3"
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=20)) as database:
            found = database.execute(
                "SELECT state, attempts, error FROM outbox_outboxrow WHERE key = ?", (key,)
            ).fetchone()
        return dict(zip(("state", "attempts", "error"), found, strict=True))

    # -- slow work ---------------------------------------------------------------------------

    def effects(self) -> list[tuple[str, str, int]]:
        """List what slow work has done: what (`begin`, `end`), which, and in which process."""
        path = Path(self.environment["PLANE_EFFECTS"])
        lines = path.read_text().splitlines() if path.exists() else []
        return [(what, which, int(pid)) for what, which, pid in map(str.split, lines)]

    def open_gate(self) -> None:
        """Let slow work, of now and of later, come to its end."""
        Path(self.environment["PLANE_GATE"]).touch()
