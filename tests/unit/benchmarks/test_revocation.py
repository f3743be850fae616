"""What `make bench-revocation` makes of its records: numbers that nobody else checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_revocation as bench
from benchmarks.fleet import Observed

TWO = ("agent-0000", "agent-0001")


def heard(observed: Observed, agent: str, at: float, *denied: str) -> None:
    observed.note({"kind": "notice", "agent": agent, "at": at, "denied": list(denied)})


def applied(observed: Observed, agent: str, at: float, revision: int) -> None:
    observed.note({"kind": "bundle", "agent": agent, "at": at, "revision": revision})


def test_an_agent_enforces_from_the_notice_on_or_from_the_policy_that_knows() -> None:
    observed = Observed()
    for agent in TWO:
        applied(observed, agent, 1.0, 7)
    assert observed.count("p-1", 8) == 0
    heard(observed, TWO[0], 5.0, "p-1")
    heard(observed, TWO[0], 9.0, "p-1")  # sent again: the first time counts
    applied(observed, TWO[0], 6.0, 8)
    assert observed.count("p-1", 8) == 1
    applied(observed, TWO[1], 7.0, 9)
    assert observed.count("p-1", 8) == 2
    assert observed.enforced("p-1", 8) == {TWO[0]: 5.0, TWO[1]: 7.0}
    assert observed.enforced("p-2", 9) == {TWO[1]: 7.0}


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [bench.percentile(values, part) for part in (0.5, 0.95, 0.99)] == [51, 96, 100]
    assert bench.percentile([2.0, 1.0], 0.99) == 2.0


def size(missing: int = 0, slowest: float = 4.0) -> dict[str, Any]:
    rows = [
        {"seconds": [0.1, 0.5], "missing": 0, "by_notice": 2, "asked": 0.1, "known": 1.0,
         "complete": 9.0},
        {"seconds": [0.2, slowest], "missing": missing, "by_notice": 1, "asked": 0.1,
         "known": 2.0, "complete": 9.0},
    ]  # fmt: skip
    return {
        "agents": 2,
        "embedded": True,
        "plain": [{"seconds": [0.01, 0.02]}],
        "at_rest": rows[:1],
        "one_after_another": rows,
        "memory": {"control plane": 2.0**28, "ActiveMQ": 2.0**27, "one agent": 2.0**22},
        "load": (1.0, 1.0, 1.0),
    }


def test_what_was_missed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    reached = {aim.what: aim.reached for aim in bench.report_enforcement([size()])}
    assert reached == {
        "enforced by all of 2, at rest, p50": True,
        "enforced by all of 2, at rest, p99": True,
        "enforced by all of 2, at rest, never beyond": True,
        "enforced by all of 2, one after the other, p50": False,  # of two the later one, 4 s
        "enforced by all of 2, one after the other, p99": True,
        "enforced by all of 2, one after the other, never beyond": True,
    }
    told = capsys.readouterr().out
    assert "2 agents, plain message" in told
    assert "83%" in told  # by notice: five of six
    late = {aim.what: aim.reached for aim in bench.aims_of(size(slowest=31.0))}
    assert not late["enforced by all of 2, one after the other, never beyond"]
    lost = {aim.what: aim.reached for aim in bench.aims_of(size(missing=1))}
    assert not lost["enforced by all of 2, one after the other, never beyond"]


def test_a_rotation_is_shown_beside_its_cryptography(capsys: pytest.CaptureFixture[str]) -> None:
    stage = {
        "stage": "staging",
        "seconds": {"compile": 3.0, "wraps": 1.0, "push": 1.0, "agents": 0.5},
        "count": {"compile": 1, "wraps": 10, "push": 10, "agents": 10},
        "bytes": 10_000,
    }
    bench.report_rotation(
        {
            "agents": 10,
            "first": stage,
            "leases": {"seconds": {"leases": 1.0}, "count": {"leases": 10}},
            "stages": [stage],
            "seconds": 5.0,
            "sealing": {"wraps": 0.5, "bundles": 0.5, "size": 1000.0},
            "memory": {"authority": 2.0**25},
        }
    )
    told = capsys.readouterr().out
    assert "10 wraps" in told
    assert "10 bundles of 1,000 bytes" in told
    assert "2.00 x" in told
    assert "4.00 x" in told
    assert "100 ms" in told  # a lease


def test_every_part_has_its_door(monkeypatch: pytest.MonkeyPatch) -> None:
    makefile = Path(bench.REPOSITORY / "Makefile").read_text()
    assert f"--parts {','.join(bench.PARTS)} $(ARGS)" in makefile
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(bench, "run", lambda *words: asked.append(words) or size())
    monkeypatch.setattr(bench, "alone", lambda *words: asked.append(words) or ([], 0))
    monkeypatch.setattr(bench, "report_rotation", lambda _found: None)
    bench.main(["--small", "--parts", ",".join(bench.PARTS)])
    assert asked == [
        ("enforcement", "--agents", 10, "--revocations", 5, "--at-rest", 1),
        ("rotation", "--agents", 50),
        ("recompute", ["--quick"]),
        ("deltas", ["--quick"]),
    ]
