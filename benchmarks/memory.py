"""How much memory a process and its children take at most."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_EVERY = 0.25


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that has ended.

    Args:
        output: what it printed.
        peak: greatest proportional memory of the process and its children, in bytes.
    """

    output: str
    peak: int


def run(
    command: Sequence[str], *, folder: Path, beside: Callable[[], Sequence[int]] = tuple
) -> Finished:
    """Run a program to its end and watch its memory (Linux).

    Args:
        command: program and arguments.
        folder: where it runs.
        beside: gives the ids of other processes that work for it.

    Raises:
        RuntimeError: it failed; the message is what it said.
    """
    process = subprocess.Popen(
        list(command), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY):
            peak[0] = max(peak[0], memory_of(process.pid, *beside()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        output, errors = process.communicate()
    finally:
        ended.set()
        watcher.join()
    if process.returncode != 0:
        raise RuntimeError(errors)
    return Finished(output, peak[0])


def memory_of(*roots: int) -> int:
    return sum(proportional(pid) for root in roots for pid in _tree(root))


def _tree(root: int) -> list[int]:
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                waiting += [int(child) for child in path.read_text().split()]
            except OSError:
                continue
    return found


def proportional(pid: int | str) -> int:
    """Give a process's memory, shared pages counted in parts."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
