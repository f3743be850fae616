"""A pipeline of Spark's in a process of its own, ended with the worker that started it.

On a machine that agents, brokers and the control plane share with it, it takes what they leave:
who may no longer read is told first, and what stands for them is computed afterwards.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from django.conf import settings

POLL_SECONDS = 0.5
STOP_SECONDS = 10
_NICENESS = "10"


def run(command: Sequence[str], *, meanwhile: Callable[[], None], log: Path | None = None) -> int:
    """Start a pipeline and wait for its end; returns its status.

    Args:
        command: program and arguments.
        meanwhile: called twice a second; what it raises ends the pipeline.
        log: takes what the pipeline says, behind what is there.
    """
    with (log or Path("/dev/null")).open("ab") as output:
        process = subprocess.Popen(
            [*_die_with_parent(), *_behind_others(), *command],
            cwd=settings.BASE_DIR,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            while process.poll() is None:
                time.sleep(POLL_SECONDS)
                meanwhile()
        finally:
            _stop(process)
    return process.returncode


def _die_with_parent() -> tuple[str, ...]:
    """Where Linux offers it: a killed worker leaves no pipeline behind."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "TERM", "--") if setpriv else ()


def _behind_others() -> tuple[str, ...]:
    nice = shutil.which("nice")
    return (nice, "-n", _NICENESS) if nice else ()


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
