"""Processes of a test: started with a log file, stopped by their id."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]


class Running:
    """A child process with what it printed.

    Args:
        command: program and arguments.
        log: file that takes standard output and standard error.
        environment: variables on top of this process's own.
        folder: working folder.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        folder: Path = REPOSITORY,
    ) -> None:
        self.log = log
        self.command = list(command)
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def text(self) -> str:
        """Give everything the process has printed so far."""
        return self.log.read_text(errors="replace")

    def wait_for_text(self, text: str, *, seconds: float) -> None:
        """Wait until the process has printed something; fail at once if it has ended."""

        def seen() -> bool:
            if text in self.text():
                return True
            if self.process.poll() is not None:
                raise AssertionError(f"{self.command[0]} ended early:\n{self.text()}")
            return False

        wait_until(seen, seconds=seconds, what=f"`{text}` from {self.command[0]}")

    def stop(self, *, seconds: float = 15, gently: signal.Signals = signal.SIGTERM) -> int:
        """End the process, gently first; give its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(gently)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()


@contextmanager
def running(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path = REPOSITORY,
) -> Iterator[Running]:
    """Run a program for the length of a block."""
    process = Running(command, log=log, environment=environment, folder=folder)
    try:
        yield process
    finally:
        process.stop()


def children_of(pid: int) -> list[int]:
    """List the direct children of a process (Linux)."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return sorted(found)


def wait_gone(pid: int, *, seconds: float) -> None:
    """Wait until a process does not exist any more, or is a zombie."""

    def gone() -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        return state == "Z"

    wait_until(gone, seconds=seconds, what=f"the end of {pid}")
