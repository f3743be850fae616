"""What the clock says, and when that next matters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from adminapp.core import clock
from policyengine.attributes import Literal

ROME, NEPAL = ZoneInfo("Europe/Rome"), ZoneInfo("Asia/Kathmandu")
LONDON, CAIRO = ZoneInfo("Europe/London"), ZoneInfo("Africa/Cairo")
UTC_ZONE = ZoneInfo("UTC")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def literal(name: str, op: str, value: object) -> Literal:
    return Literal(f"env.{name}", op, value)  # type: ignore[arg-type]


def test_facts_are_those_of_the_wall_clock() -> None:
    assert clock.facts(at("2026-07-05T23:30:15"), ROME) == {
        "env.time": 130,
        "env.hour": 1,
        "env.minute": 30,
        "env.weekday": 1,
        "env.day": 6,
        "env.month": 7,
        "env.year": 2026,
        "env.date": 20260706,
    }
    assert set(clock.facts(at("2026-07-05T23:30:15"), UTC_ZONE)) == set(clock.FACTS)


@pytest.mark.parametrize(
    ("zone", "tests", "after", "wanted"),
    [
        (UTC_ZONE, [("time", ">=", 930)], "2026-03-02T08:00:00", "2026-03-02T09:30:00"),
        (UTC_ZONE, [("time", ">=", 930)], "2026-03-02T09:30:00", "2026-03-03T00:00:00"),
        (UTC_ZONE, [("time", "<", 930)], "2026-03-02T09:29:59", "2026-03-02T09:30:00"),
        (UTC_ZONE, [("time", "<=", 930)], "2026-03-02T09:29:59", "2026-03-02T09:31:00"),
        (UTC_ZONE, [("time", ">", 999)], "2026-03-02T09:29:59", "2026-03-02T10:00:00"),
        (NEPAL, [("hour", "==", 9)], "2026-03-02T00:00:00", "2026-03-02T03:15:00"),
        (NEPAL, [("hour", "==", 9)], "2026-03-02T03:15:00", "2026-03-02T04:15:00"),
        (UTC_ZONE, [("minute", "in", (0, 30))], "2026-03-02T08:10:00", "2026-03-02T08:30:00"),
        (UTC_ZONE, [("weekday", "<=", 5)], "2026-03-02T08:00:00", "2026-03-07T00:00:00"),
        (UTC_ZONE, [("weekday", "!=", 7)], "2026-03-08T08:00:00", "2026-03-09T00:00:00"),
        (UTC_ZONE, [("day", "==", 31)], "2026-04-02T00:00:00", "2026-05-31T00:00:00"),
        (UTC_ZONE, [("month", "==", 3)], "2026-04-02T00:00:00", "2027-03-01T00:00:00"),
        (UTC_ZONE, [("year", ">", 2029)], "2026-04-02T00:00:00", "2030-01-01T00:00:00"),
        (ROME, [("date", "==", 20260805)], "2026-04-02T00:00:00", "2026-08-04T22:00:00"),
        (ROME, [("date", "==", 20260805)], "2026-08-04T22:00:00", "2026-08-05T22:00:00"),
        (UTC_ZONE, [("date", ">=", 20260231)], "2026-02-02T00:00:00", "2026-03-01T00:00:00"),
        (UTC_ZONE, [("date", ">", 20261299)], "2026-02-02T00:00:00", "2027-01-01T00:00:00"),
        (UTC_ZONE, [("date", ">=", 20270000)], "2026-02-02T00:00:00", "2027-01-01T00:00:00"),
        # The first of several tests.
        (
            UTC_ZONE,
            [("time", ">=", 930), ("hour", "==", 8), ("duty", "==", 1)],
            "2026-03-02T07:00:00",
            "2026-03-02T08:00:00",
        ),
        # Clocks are put forward past the time that a test asks for, and back over it.
        (LONDON, [("time", ">=", 130)], "2026-03-29T00:30:00", "2026-03-29T01:00:00"),
        (LONDON, [("time", "<", 130)], "2026-10-25T00:40:00", "2026-10-25T01:00:00"),
        (LONDON, [("time", "<", 130)], "2026-10-25T01:00:00", "2026-10-25T01:30:00"),
        # A day that begins at one o'clock.
        (CAIRO, [("date", "==", 20260424)], "2026-04-23T12:00:00", "2026-04-23T22:00:00"),
    ],
)
def test_the_next_change(
    zone: ZoneInfo, tests: list[tuple[str, str, object]], after: str, wanted: str
) -> None:
    literals = [literal(*test) for test in tests]
    assert clock.next_change(literals, at(after), zone) == at(wanted)


def test_what_never_changes_again() -> None:
    now = at("2026-03-02T08:00:00")
    for tests in (
        [],
        [literal("duty", "==", True)],
        [literal("date", "<", 20200101)],
        [literal("year", "==", 1999)],
        [literal("hour", ">=", 0)],
        [literal("date", "has", None)],
    ):
        assert clock.next_change(tests, now, UTC_ZONE) is None


def test_the_next_change_agrees_with_watching_the_clock() -> None:
    """Minute by minute through a week in which clocks are put forward."""
    literals = [
        literal("time", ">=", 245),
        literal("weekday", "in", (2, 5)),
        literal("hour", "<", 3),
    ]
    start = at("2026-03-26T00:00:00")
    for each in literals:
        now = each.holds(clock.facts(start, ROME))
        changes = []
        for minute in range(1, 5 * 24 * 60):
            moment = start + timedelta(minutes=minute)
            if each.holds(clock.facts(moment, ROME)) != now:
                now = not now
                changes.append(moment)
        found, moment = [], start
        while (following := clock.next_change([each], moment, ROME)) and following < start + (
            timedelta(days=5)
        ):
            found.append(following)
            moment = following
        assert found == changes
