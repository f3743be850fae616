"""The judge of histories finds every fault that it is there for, and none in a right one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.histories import FIELDS, History, judge, merged

LEASE = 30.0
WATER = {"consumer": "X", "value": 21.5}


def may_read(who: str, event_type: str, values: Mapping[str, Any]) -> set[str] | None:
    """X reads its own, guests the value alone, everybody else nothing."""
    if who == "x" and values["consumer"] == "X":
        return set(values)
    return {"value"} if who == "guest" else None


def right() -> History:
    """Nothing is wrong: a revocation, a restart and a repair."""
    told = History(clock=lambda: 0.0)
    told.note("subscribed", at=1, who="x", type="Water")
    told.note("subscribed", at=1, who="guest", type="Telemetry", below=["Water"])
    told.note("applied", at=1, who="agent:a", domain="d", kind="bundle", number=3)
    told.note("leased", at=2, who="agent:a", seconds=30)
    event(told, 3, "1", to=("x", "guest"))
    told.note("settled", at=9)
    told.note("revoked", at=10, who="x")
    event(told, 12, "2", to=("x", "guest"))
    event(told, 20, "3", to=("guest",))
    told.note("started", at=30, who="agent:a")
    told.note("leased", at=31, who="agent:a", seconds=30)
    event(told, 32, "4", to=("guest",))
    told.note("repaired", at=40, domain="d", revision=5, agents=["agent:a"])
    told.note("applied", at=70, who="agent:a", domain="d", kind="bundle", number=6)
    told.note("applied", at=70, who="agent:a", domain="d", kind="notice", number=1)
    told.note("published", at=80, who="meter", event="5", type="Water", values=WATER)
    told.note("refused", at=80.1, event="5", reason="no-lease")
    return told


def event(told: History, at: float, name: str, *, to: tuple[str, ...]) -> None:
    told.note("published", at=at, who="meter", event=name, type="Water", values=WATER)
    told.note("accepted", at=at + 0.1, event=name)
    for who in to:
        values = WATER if who == "x" else {"value": 21.5}
        told.note("delivered", at=at + 0.2, who=who, event=name, values=values, by="agent:a")


def found(told: History, **more: Any) -> list[str]:
    return judge(told.lines, may_read, lease=LEASE, **more)


def test_a_right_history_is_right() -> None:
    assert found(right()) == []
    assert judge([], may_read, lease=LEASE) == []


DELIVERED = {"who": "guest", "event": "1", "values": {"value": 21.5}}
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "late to the revoked": (
        {**DELIVERED, "what": "delivered", "at": 41, "who": "x", "event": "3", "values": WATER},
        "`x` got `3` 31.0 s after its revocation",
    ),
    "twice": ({**DELIVERED, "what": "delivered", "at": 4}, "`guest` saw 1 events twice, 0 may be"),
    "too much of it": (
        {**DELIVERED, "what": "delivered", "at": 4, "values": WATER},
        "`guest` got {'consumer': 'X', 'value': 21.5} of `1`, by the policy it is {'value': 21.5}",
    ),
    "to somebody else": (
        {**DELIVERED, "what": "delivered", "at": 4, "who": "y"},
        "`y` got {'value': 21.5} of `1`, by the policy it is None",
    ),
    "out of nothing": (
        {**DELIVERED, "what": "delivered", "at": 4, "event": "9"},
        "`guest` got `9`, which nobody published",
    ),
    "before it was published": (
        {**DELIVERED, "what": "delivered", "at": 2.5},
        "`guest` got `1` before it was published",
    ),
    "what was refused": (
        {**DELIVERED, "what": "delivered", "at": 81, "event": "5"},
        "`guest` got `5`, which was refused",
    ),
    "without a lease": (
        {**DELIVERED, "what": "delivered", "at": 79, "event": "4", "by": "agent:a"},
        "`agent:a` gave `4` to `guest` at 79.0, with a lease until 61.0",
    ),
    "before a lease after a start": (
        {**DELIVERED, "what": "delivered", "at": 30.5, "event": "3", "by": "agent:a"},
        "`agent:a` gave `3` to `guest` at 30.5, with a lease until 30.0",
    ),
    "an older revision": (
        {"what": "applied", "at": 75, "who": "agent:a", "domain": "d", "kind": "bundle",
         "number": 5},
        "`agent:a` went back from revision 6 to 5",
    ),
    "out of a sleeve": (
        {"what": "accepted", "at": 5, "event": "8"}, "`8` was accepted and never published",
    ),
    "no convergence": (
        {"what": "repaired", "at": 8, "domain": "d", "revision": 5, "agents": ["agent:a"]},
        "agent:a had not applied revision 5 60 s after the repair",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_found(name: str) -> None:
    line, problem = FAULTS[name]
    told = right()
    told.note(**line)
    assert problem in found(told)


def test_what_was_acknowledged_and_lost_is_found() -> None:
    told = right()
    told.lines = [
        line
        for line in told.lines
        if (line["what"], line.get("who"), line.get("event")) != ("delivered", "guest", "2")
    ]
    assert found(told) == ["`guest` lacks `2`, accepted at 12.1"]


def test_what_a_party_is_to_have_before_its_revocation_is_asked_for() -> None:
    told = right()
    told.lines = [
        line
        for line in told.lines
        if (line["what"], line.get("who"), line.get("event")) != ("delivered", "x", "1")
    ]
    assert found(told) == ["`x` lacks `1`, accepted at 3.1"]


def test_a_publication_of_a_revoked_publisher_is_found() -> None:
    told = right()
    told.note("revoked", at=1, who="meter")
    assert found(told) == ["`4` of `meter` was taken after its revocation"]


def test_a_revocation_of_one_type_is_of_that_type_alone() -> None:
    told = right()
    told.note("revoked", at=1, who="guest", type="Report")
    assert found(told) == []
    told.note("revoked", at=1, who="guest", type="Water")
    assert found(told) == ["`guest` got `4` 31.2 s after its revocation"]


def test_a_double_after_a_death_is_none_and_a_late_line_is_not_late() -> None:
    told = right()
    told.note("delivered", at=4, **DELIVERED)
    assert found(told, again={"guest": 1}) == []
    told.note("delivered", at=41, who="x", event="3", values=WATER)
    assert found(told, again={"guest": 1}, slack=2.0) == []


def test_lines_are_checked_as_they_are_noted_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "history"
    told = History(path)
    told.note("settled", at=2)
    told.note("revoked", at=1, who="x")
    with path.open("a") as file:
        file.write('{"at": 3, "what": "rev')  # a kill cut this off
    assert merged([path]) == [told.lines[1], told.lines[0]]
    assert (told.count("revoked", who="x"), told.count("revoked", who="y")) == (1, 0)
    with pytest.raises(ValueError, match="lacks"):
        told.note("revoked")
    with pytest.raises(ValueError, match="no line"):
        told.note("guessed")
    assert set(FIELDS) >= {line["what"] for line in right().lines}
