"""The demo's report: what differs is said, and decides the outcome."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tasks.local.demo.report import Report


def test_a_report_is_ok_when_every_check_held(tmp_path: Path) -> None:
    said: list[str] = []
    report = Report(said.append, clock=iter(range(100)).__next__)
    with report.step(1, "first") as step:
        assert step.equal("delivered", [1, 2], [1, 2])
        assert step.true("acknowledged", True, "3 of 3")
    report.close()
    report.write(tmp_path / "deep" / "report.json")
    written = json.loads((tmp_path / "deep" / "report.json").read_text())
    assert report.ok
    assert written["ok"] is True
    assert written["steps"][0]["checks"][0] == {
        "what": "delivered",
        "expected": [1, 2],
        "seen": [1, 2],
        "ok": True,
    }
    assert written["steps"][0]["seconds"] > 0
    assert "everything as expected" in said[-1]


def test_a_difference_makes_it_fail_and_is_shown() -> None:
    said: list[str] = []
    report = Report(said.append)
    with report.step(1, "first") as step:
        assert not step.equal("delivered", ["UA1"], ["UA1", "UA2"])
    report.close()
    assert not report.ok
    text = "\n".join(said)
    assert "DIFFERS" in text
    assert '["UA1", "UA2"]' in text
    assert "1 differ" in text


def test_an_exception_fails_its_step_and_goes_on() -> None:
    report = Report(lambda _text: None)
    with pytest.raises(ValueError, match="boom"), report.step(1, "first"):
        raise ValueError("boom")
    assert not report.ok
    assert report.to_json()["steps"][0]["error"] == "ValueError: boom"


def test_a_step_without_checks_and_a_report_without_steps_are_not_ok() -> None:
    report = Report(lambda _text: None)
    assert not report.ok
    with report.step(1, "nothing checked"):
        pass
    assert not report.ok
