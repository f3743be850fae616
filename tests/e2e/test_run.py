"""`make run`: comes up, signs in, survives a dead part, stops without a trace, goes on later."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.local import http
from tasks.local.demo.browser import Browser
from tasks.local.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.activemq]
ROOT = Path(__file__).resolve().parents[2]


class Run:
    """One `python -m tasks.local run` on a state folder of its own."""

    def __init__(self, var: Path, port: int, *options: str) -> None:
        self.port = port
        self.log = var.parent / f"run-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tasks.local", "run"),
                    *("--var", str(var), "--port", str(port), *options),
                ],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def says(self, text: str, *, seconds: float = 300.0) -> str:
        """Wait until it has printed `text`; all of its output."""
        until(lambda: text in self.log.read_text() or self.process.poll() is not None, seconds)
        assert text in self.log.read_text(), self.log.read_text()
        return self.log.read_text()

    def pids(self) -> dict[str, int]:
        """Its parts' process ids, from the last status lines."""
        lines = re.findall(r"^(\S.*?)\s+up\s+pid (\d+)", self.log.read_text(), re.MULTILINE)
        return {name.strip(): int(pid) for name, pid in lines}

    def stop(self, number: int = signal.SIGINT) -> int:
        """Ask it to stop, as Ctrl-C does; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=180)


def until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def var(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "var"
    folder.mkdir()
    yield folder
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().decode(errors="replace")
        except OSError:
            continue
        assert str(tmp_path) not in line, f"left behind: {line}"


def test_run_comes_up_heals_stops_and_goes_on(var: Path) -> None:
    run = Run(var, free_port())
    try:
        text = run.says("up after")
        found = re.search(r"Sign in\s+(\S+)\s+password\s+(\S+)", run.says("Ctrl-C stops"))
        assert found, text
        browser = Browser(f"http://127.0.0.1:{run.port}/")
        page = browser.sign_in(found.group(1), found.group(2))
        assert page.status == 200
        assert "heating" in browser.get("/domains/").text

        run.says("sample traffic")
        until(lambda: _received(var) > 3, 300)

        pids = run.pids()
        assert set(pids) == {
            *("activemq-a", "activemq-b", "authority", "console", "serve agents", "worker"),
            *("outbox relay", "beat", "alpha", "beta", "gamma", "sample traffic"),
        }
        os.kill(pids["beta"], signal.SIGKILL)
        run.says("beta: ended with signal 9")
        run.says("beta: starting again (restart 1)")
        second = Run(var, free_port())
        assert second.process.wait(timeout=180) == 1
        assert "already runs" in second.log.read_text()
    finally:
        status = run.stop()
    assert status == 0
    assert "nothing is left running" in run.log.read_text()
    until(lambda: not any(map(alive, pids.values())), 60)
    assert not http.answers(f"http://127.0.0.1:{run.port}/")

    changed = _new_password(var)
    again = Run(var, run.port, "--no-traffic")
    try:
        text = again.says("Ctrl-C stops")
        assert "password shown at the first start" in text
        browser = Browser(f"http://127.0.0.1:{again.port}/")
        with pytest.raises(LookupError, match="refused to sign in"):
            browser.sign_in(found.group(1), found.group(2))
        assert browser.sign_in(found.group(1), changed).status == 200
    finally:
        # Terminated instead of interrupted, it stops in the same way.
        assert again.stop(signal.SIGTERM) == 0


def test_a_port_in_use_is_said_at_once(var: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = Run(var, port)
        assert run.process.wait(timeout=180) == 1
    assert f"port {port}, which the console wants, is in use" in run.log.read_text()


def test_a_password_needs_an_account(var: Path) -> None:
    done = _password(var)
    assert done.returncode == 1
    assert "`make run` makes one" in done.stderr


def _new_password(var: Path) -> str:
    done = _password(var)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


def _password(var: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tasks.local", "password", "--var", str(var)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def _received(var: Path) -> int:
    try:
        return int(json.loads((var / "run" / "traffic.json").read_text())["received"])
    except (OSError, ValueError):
        return 0
