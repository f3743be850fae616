"""One step of the set-up: a command with a log, a stamp that remembers it, an error that helps."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tasks.local.errors import LocalError

_BEAT_SECONDS = 20.0
_NO_NETWORK = (
    "temporary failure resolving",
    "could not resolve",
    "name or service not known",
    "network is unreachable",
    "no route to host",
    "connection refused",
    "connection timed out",
    "failed to establish a new connection",
    "newconnectionerror",
    "max retries exceeded",
    "enotfound",
    "etimedout",
    "econnrefused",
    "eai_again",
    "failed to fetch",
)


class Stamp:
    """Remembers that a step was done for exactly these inputs."""

    def __init__(self, root: Path, name: str, inputs: Iterable[bytes]) -> None:
        self.path = root / "var" / "setup" / f"{name}.stamp"
        self._value = hashlib.sha256(b"\0".join(inputs)).hexdigest()

    @property
    def current(self) -> bool:
        """Whether the step was done for the same inputs."""
        return self.path.is_file() and self.path.read_text() == self._value

    def clear(self) -> None:
        """Forget it: the step is about to run again."""
        self.path.unlink(missing_ok=True)

    def write(self) -> None:
        """Remember it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self._value)


def run(
    root: Path,
    title: str,
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    advice: str = "",
) -> None:
    """Run one command quietly, with its output in var/setup/<title>.log and a line on the screen.

    Raises LocalError with the end of the output when it fails; `advice` says what to try then.
    """
    log = root / "var" / "setup" / f"{title.replace(' ', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    print(f"  {title} ...", end="", flush=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            cwd=root,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        status = _wait(process)
    seconds = time.monotonic() - began
    if status != 0:
        print(" failed", flush=True)
        raise LocalError(_explain(title, argv, status, log, advice))
    print(f" {seconds:.0f} s", flush=True)


def _wait(process: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return process.wait(timeout=_BEAT_SECONDS)
        except subprocess.TimeoutExpired:
            print(".", end="", flush=True)
        except KeyboardInterrupt:
            process.wait()
            raise


def _explain(title: str, argv: Sequence[str], status: int, log: Path, advice: str) -> str:
    text = log.read_text(errors="replace")
    end = "\n".join(f"    {line}" for line in text.splitlines()[-15:])
    lowered = text.lower()
    if any(sign in lowered for sign in _NO_NETWORK):
        advice = (
            "It looks as if there is no network, or a package source cannot be reached from here "
            "(PyPI, Debian and the npm registry are needed). Check the connection or the proxy "
            "settings and run the same command again: it goes on where it stopped."
        )
    elif "no space left on device" in lowered:
        advice = "The disk is full. Make room and run the same command again."
    command = " ".join(argv)
    return f"`{title}` failed with status {status}: {command}\n{end}\n{advice}\nAll of it: {log}"


def say(text: str) -> None:
    """One line for the person who waits."""
    print(text, flush=True, file=sys.stdout)
