"""The story, played by real processes and checked by itself, as `make demo` does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.local.demo.play import STEPS

pytestmark = [pytest.mark.slow, pytest.mark.activemq, pytest.mark.spark]
ROOT = Path(__file__).resolve().parents[2]


def test_the_story_plays_as_it_should(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tasks.local", "demo", "--var", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["ok"] is True
    assert [step["number"] for step in report["steps"]] == list(range(len(STEPS) + 1))
    assert all(step["ok"] and step["checks"] for step in report["steps"])
    assert "everything as expected" in done.stdout
    assert not (tmp_path / "work").exists()
    assert _left_behind(tmp_path) == []


def _left_behind(folder: Path) -> list[str]:
    """Command lines of processes that name the demo's folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found
