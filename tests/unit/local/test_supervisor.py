"""The supervisor: order, restarts that are said aloud, nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.local.errors import LocalError
from tasks.local.processes import Child, group_alive, tail
from tasks.local.supervisor import Part, Supervisor, table

SECONDS = 90.0
"""For a process to start on a machine that has much else to do."""
SLEEPER = "import time; time.sleep(600)"
AWAKE = "import time; print('here', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('deaf', flush=True); time.sleep(600)"
)
COUNTER = (
    "import signal, time; signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True)); "
    "print('ready', flush=True); time.sleep(600)"
)
PARENT = (
    "import subprocess, sys, time; "
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    "print('both', flush=True); time.sleep(600)"
)


def _child(folder: Path, name: str, code: str) -> Child:
    return Child(name, [sys.executable, "-c", code], log=folder / f"{name}.log")


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_groups_stop_in_reverse_order_by_their_process_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    original = Child.stop
    monkeypatch.setattr(
        Child,
        "stop",
        lambda child, *, timeout: (said.append(child.name), original(child, timeout=timeout)),
    )
    supervisor = Supervisor(lambda _text: None)
    children = {name: _child(tmp_path, name, SLEEPER) for name in ("one", "two", "three")}
    parts = {name: Part(name, child) for name, child in children.items()}
    supervisor.start(parts["one"])
    supervisor.start(parts["two"], parts["three"])
    pids = [child.pid for child in children.values() if child.pid]
    supervisor.stop()
    assert said == ["three", "two", "one"]
    assert len(pids) == 3
    assert not any(group_alive(pid) for pid in pids)
    assert {part.state for part in parts.values()} == {"stopped"}


def test_sigterm_is_sent_once(tmp_path: Path) -> None:
    child = _child(tmp_path, "counter", COUNTER)
    child.start()
    _until(lambda: "ready" in child.tail())
    child.terminate()
    _until(lambda: "asked" in child.tail())
    child.terminate()
    child.stop(timeout=0.5)
    assert child.tail().count("asked") == 1


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    child = _child(tmp_path, "deaf", STUBBORN)
    child.start()
    _until(lambda: "deaf" in child.tail())
    assert child.stop(timeout=0.3) == -signal.SIGKILL


def test_what_a_part_started_goes_with_it(tmp_path: Path) -> None:
    child = _child(tmp_path, "parent", PARENT)
    child.start()
    pid = child.pid
    assert pid is not None
    _until(lambda: "both" in child.tail())
    child.stop()
    _until(lambda: not group_alive(pid))


def test_a_dead_part_is_named_and_started_again_with_growing_delays(tmp_path: Path) -> None:
    said: list[str] = []
    clock = Clock()
    supervisor = Supervisor(said.append, clock=clock)
    child = _child(tmp_path, "part", SLEEPER)
    supervisor.start(Part("part", child))
    delays = []
    for restart in (1, 2, 3):
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        _until(lambda: not child.running)
        supervisor.look()
        assert f"part: ended with signal {int(signal.SIGKILL)}" in said[-1]
        assert str(child.log) in said[-1]
        delay = 0.0
        while not child.running:
            clock.now += 0.5
            delay += 0.5
            supervisor.look()
        delays.append(delay)
        assert f"restart {restart}" in said[-1]
    assert delays == [1.0, 2.0, 4.0]
    (line,) = table(supervisor.parts, clock.now)
    assert "3 restarts" in line
    supervisor.stop()


def test_a_part_that_does_not_come_up_is_explained_with_its_log(tmp_path: Path) -> None:
    supervisor = Supervisor(lambda _text: None)
    child = _child(tmp_path, "broken", "raise SystemExit('no such database')")
    with pytest.raises(LocalError, match="no such database"):
        supervisor.start(Part("broken", child, ready=lambda: False))
    supervisor.stop()


def test_a_part_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.now += seconds

    supervisor = Supervisor(lambda _text: None, clock=clock, sleep=sleep)
    part = Part("slow", _child(tmp_path, "slow", SLEEPER), ready=lambda: False, patience=5)
    with pytest.raises(LocalError, match="was not ready after 5 s"):
        supervisor.start(part)
    supervisor.stop()
    assert not part.child.running


def test_children_die_with_their_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys; sys.path.insert(0, os.getcwd()); from pathlib import Path; "
        "from tasks.local.processes import Child; "
        f"log = Path({str(tmp_path)!r}) / 'x.log'; "
        f"child = Child('x', [sys.executable, '-c', {AWAKE!r}], log=log); "
        "child.start(); print(child.pid, flush=True); import time; time.sleep(600)"
    )
    parent = _child(tmp_path, "supervisor", code)
    parent.start()
    _until(lambda: parent.tail().strip().isdigit())
    grandchild = int(parent.tail())
    # Only what runs has asked the system for a signal at its parent's death.
    _until(lambda: "here" in tail(tmp_path / "x.log"))
    # The grandchild leads a group of its own, so this is not about killing a group.
    os.kill(parent.pid or 0, signal.SIGKILL)
    _until(lambda: not group_alive(grandchild))
    parent.stop()
