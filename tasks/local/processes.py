"""Child processes with a log file, stopped by their own process id and never by a name."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


class Child:
    """One child process in a session of its own.

    The session keeps a Ctrl-C in the terminal away from the child, so that the parent decides
    the order in which parts stop. Where Linux offers it, the child also gets SIGTERM when the
    parent dies in any way, so that even `kill -9` of the parent leaves nothing behind.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.log = log
        self.env = dict(env) if env is not None else None
        self.cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False

    @property
    def pid(self) -> int | None:
        """The process id, or None when it was never started."""
        return self._process.pid if self._process else None

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit status (negative: the signal), or None while it runs or was never started."""
        return self._process.poll() if self._process else None

    def start(self) -> None:
        """Start it; standard output and error go to the end of the log file."""
        if self.running:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._asked = False
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_die_with_parent(), *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd=self.cwd,
                start_new_session=True,
            )

    def terminate(self) -> None:
        """Ask it to end, once, without waiting; stop() then waits."""
        process = self._process
        if process is not None and process.poll() is None and not self._asked:
            # A second SIGTERM would make some programs drop what they are finishing.
            self._asked = True
            process.send_signal(signal.SIGTERM)

    def stop(self, *, timeout: float = 10.0) -> int | None:
        """SIGTERM, wait at most `timeout` seconds, then SIGKILL the group; the exit status."""
        process = self._process
        if process is None:
            return None
        self.terminate()
        _wait(process, timeout)
        # Whatever the leader left in its group (workers of a pool) goes with it.
        kill_group(process.pid)
        return process.wait()

    def kill(self) -> None:
        """SIGKILL the whole group at once, as a crash would."""
        if self._process is not None:
            kill_group(self._process.pid)
            self._process.wait()

    def wait(self, *, timeout: float) -> int | None:
        """Wait for its end; the exit status, or None when it still runs after `timeout` seconds."""
        if self._process is not None:
            _wait(self._process, timeout)
        return self.returncode

    def tail(self, lines: int = 12) -> str:
        """The last lines of the log, for an error message."""
        return tail(self.log, lines)


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a text file; empty when there is none."""
    if not path.is_file():
        return ""
    text = path.read_bytes()[-16_384:].decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-lines:])


def kill_group(pid: int) -> None:
    """SIGKILL every process of the group that `pid` leads; nothing when the group is gone."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def group_alive(pid: int) -> bool:
    """Whether any process is left in the group that `pid` leads."""
    try:
        os.killpg(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _wait(process: subprocess.Popen[bytes], timeout: float) -> None:
    end = time.monotonic() + timeout
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)


def _die_with_parent() -> tuple[str, ...]:
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "TERM", "--") if setpriv else ()
