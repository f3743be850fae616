"""A pipeline's process: waited for, behind others, and never left behind."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tasks import pipelines


def test_its_status_and_what_it_says(tmp_path: Path) -> None:
    log, looks = tmp_path / "log", []
    log.write_text("before\n")
    script = "import os, sys; print(os.nice(0)); sys.stderr.write('oops\\n'); sys.exit(3)"
    status = pipelines.run(
        [sys.executable, "-c", script], meanwhile=lambda: looks.append(1), log=log
    )
    assert status == 3
    assert looks
    assert sorted(log.read_text().split()) == sorted(["before", str(os.nice(0) + 10), "oops"])


def test_what_breaks_meanwhile_ends_it(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    script = f"import os, time; open({str(place)!r}, 'w').write(str(os.getpid())); time.sleep(600)"

    def broken() -> None:
        if place.exists() and place.read_text():
            raise LookupError("stopped by an operator")

    with pytest.raises(LookupError, match="stopped by an operator"):
        pipelines.run([sys.executable, "-c", script], meanwhile=broken)
    with pytest.raises(ProcessLookupError):
        os.kill(int(place.read_text()), 0)


def test_one_that_does_not_listen_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelines, "STOP_SECONDS", 0.5)
    place = tmp_path / "pid"
    script = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"open({str(place)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )

    def broken() -> None:
        if place.exists() and place.read_text():
            raise LookupError("stopped")

    started = time.monotonic()
    with pytest.raises(LookupError):
        pipelines.run([sys.executable, "-c", script], meanwhile=broken)
    assert time.monotonic() - started < 300
    with pytest.raises(ProcessLookupError):
        os.kill(int(place.read_text()), 0)
