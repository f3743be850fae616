"""`python -m tasks.local run`: everything on loopback, in the foreground, until Ctrl-C."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tasks.local import parts
from tasks.local.display import Display
from tasks.local.errors import LocalError
from tasks.local.layout import Layout
from tasks.local.ports import require_free
from tasks.local.setup.machine import RUNNING_BYTES, check_disk
from tasks.local.stack import Stack


def run(var: Path, *, port: int, traffic: bool) -> int:
    """Start all, show a status line per part, stop all on Ctrl-C or SIGTERM; the exit status."""
    layout = Layout(var.resolve(), port)
    layout.make()
    with _only_one(layout), _stop_requests() as wanted:
        require_free(port, what="the console", how='make run ARGS="--port 8100"')
        check_disk(shutil.disk_usage(var).free, RUNNING_BYTES, var)
        display = Display(sys.stdout)
        stack = Stack(layout, display.say)
        try:
            _start(stack, display, wanted, traffic=traffic)
            while not wanted:
                stack.supervisor.look()
                display.show(stack.supervisor.parts)
                time.sleep(0.5)
        except _Stopped:
            pass
        finally:
            display.say("stopping ...")
            stack.stop()
            display.say("stopped; nothing is left running. `make run` goes on from here.")
    return 0


class _Stopped(Exception):
    """A stop was asked for during the start."""


def _start(stack: Stack, display: Display, wanted: list[int], *, traffic: bool) -> None:
    began = time.monotonic()
    steps = [
        ("message brokers", stack.start_brokers),
        ("trusted authority", stack.start_authority),
        ("database, keys, sample organisations", stack.prepare),
        ("console, worker, relay, answers to agents", stack.start_control_plane),
        ("broker agents", stack.start_agents),
    ]
    made: dict[str, Any] = {}
    for title, step in steps:
        display.say(f"starting: {title}")
        made |= step() or {}
        if wanted:
            raise _Stopped
    if traffic:
        stack.supervisor.start(parts.traffic(stack.layout))
    display.say(f"up after {time.monotonic() - began:.0f} s")
    for text in (*_sign_in(stack.layout, made), *beware(stack.layout)):
        display.say(text)


def _sign_in(layout: Layout, made: dict[str, Any]) -> list[str]:
    lines = ["", f"  Console   {layout.address}"]
    if made.get("password"):
        lines.append(f"  Sign in   {made['username']}   password   {made['password']}")
        lines.append("  The password was made just now and is kept nowhere: note it.")
    else:
        lines.append(f"  Sign in   {made['username']}, with the password shown at the first start")
        lines.append("  Forgotten? `make password` makes a new one.")
    return [*lines, "  Ctrl-C stops everything.", ""]


def beware(layout: Layout) -> list[str]:
    """Said loudly where what is run must not be depended upon."""
    if not parts.root_is_self_made(layout.authority_socket):
        return []
    return [
        "  BEWARE: the root of trust is self-made. This is a set-up for development: whoever takes",
        "  this machine can replace every key. Hold a root ceremony (`policyctl root init`) before",
        "  anything depends on it.",
        "",
    ]


@contextlib.contextmanager
def _only_one(layout: Layout) -> Iterator[IO[str]]:
    with (layout.run / "supervisor.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LocalError(
                f"Portcullis already runs from {layout.var}. Stop it there with Ctrl-C first."
            ) from None
        yield lock


@contextlib.contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """A list that fills when a stop is asked for; a second request does not cut the first short."""
    wanted: list[int] = []

    def note(number: int, _frame: object) -> None:
        wanted.append(number)

    before = {
        number: signal.signal(number, note)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield wanted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
