"""What the clock says, as values of the environment (`env.*`), and when that next matters.

`env.time` is hours and minutes as one number (`env.time >= 930 && env.time < 1730`), `env.date`
year, month and day as one (`env.date == 20260131`), `env.weekday` 1 for Monday to 7 for Sunday; all
by the wall clock of a zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from policyengine.attributes import AttributeType, Literal, Value

TIME: Final = "env.time"
HOUR: Final = "env.hour"
MINUTE: Final = "env.minute"
WEEKDAY: Final = "env.weekday"
DAY: Final = "env.day"
MONTH: Final = "env.month"
YEAR: Final = "env.year"
DATE: Final = "env.date"

_FIRST, _LAST = 1970, 9000  # years


def _between(least: int, most: int) -> AttributeType:
    return AttributeType("int", minimum=least, maximum=most)


FACTS: Final[Mapping[str, AttributeType]] = {
    TIME: _between(0, 2359),
    HOUR: _between(0, 23),
    MINUTE: _between(0, 59),
    WEEKDAY: _between(1, 7),
    DAY: _between(1, 31),
    MONTH: _between(1, 12),
    YEAR: _between(_FIRST, _LAST),
    DATE: _between(_FIRST * 10_000 + 101, _LAST * 10_000 + 1231),
}
"""What the clock always knows, by full name."""

_AHEAD: Final = {WEEKDAY: 8, DAY: 63}  # days within which every value comes round
_MONTHS_AHEAD: Final = 14


def facts(moment: datetime, zone: ZoneInfo) -> dict[str, Value]:
    """What the clock says at a moment."""
    local = moment.astimezone(zone)
    return {
        TIME: local.hour * 100 + local.minute,
        HOUR: local.hour,
        MINUTE: local.minute,
        WEEKDAY: local.isoweekday(),
        DAY: local.day,
        MONTH: local.month,
        YEAR: local.year,
        DATE: local.year * 10_000 + local.month * 100 + local.day,
    }


def next_change(literals: Iterable[Literal], after: datetime, zone: ZoneInfo) -> datetime | None:
    """When a test of the clock first answers otherwise than at `after`; None: never again.

    Args:
        literals: tests of `FACTS`; others are passed over.
        zone: where the wall clock hangs.
    """
    asked = dict.fromkeys(each for each in literals if each.attribute in FACTS)
    found = (_next_change(literal, after, zone) for literal in asked)
    return min((moment for moment in found if moment is not None), default=None)


def _next_change(literal: Literal, after: datetime, zone: ZoneInfo) -> datetime | None:
    now = literal.holds(facts(after, zone))
    for moment in sorted({each for each in _moments(literal, after, zone) if each > after}):
        if literal.holds(facts(moment, zone)) != now:
            return moment
    return None


def _moments(literal: Literal, after: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """Every moment at which the answer could next change; more than those do no harm."""
    listed = literal.value if isinstance(literal.value, tuple) else (literal.value,)
    values = [int(value) for value in listed if isinstance(value, int | float)]
    edges = sorted({edge for value in values for edge in (value, value + 1)})
    today = after.astimezone(zone).date()
    name = literal.attribute
    if name in (TIME, HOUR, MINUTE):
        for ahead in (-1, 0, 1, 2):
            yield from _shifts(today + timedelta(days=ahead), zone)
            for at in (time(0, 0), *_times(name, edges)):
                yield from _instants(today + timedelta(days=ahead), at, zone)
        return
    for day in _days(name, edges, today):
        yield from _instants(day, time(0, 0), zone)
        yield from _shifts(day, zone)  # where clocks are put forward at midnight


def _times(name: str, edges: Iterable[int]) -> Iterator[time]:
    for edge in edges:
        if name == MINUTE:
            yield from (time(hour, edge % 60) for hour in range(24))
            continue
        hour, minute = divmod(edge, 100) if name == TIME else (edge, 0)
        if minute > 59:  # no such minute: what holds before it holds up to the next hour
            hour, minute = hour + 1, 0
        if 0 <= hour < 24:
            yield time(hour, minute)


def _days(name: str, edges: Iterable[int], today: date) -> Iterator[date]:
    if name in _AHEAD:
        yield from (today + timedelta(days=ahead) for ahead in range(_AHEAD[name] + 1))
    elif name == MONTH:
        first = today.replace(day=1)
        for _ in range(_MONTHS_AHEAD):
            yield first
            first = (first + timedelta(days=31)).replace(day=1)
    elif name == YEAR:
        yield from (date(edge, 1, 1) for edge in edges if _FIRST <= edge <= _LAST)
    else:
        yield from (_day(edge) for edge in edges if edge >= _FIRST * 10_000)


def _day(number: int) -> date:
    """The day that a number names, or the next one that there is."""
    year, rest = divmod(number, 10_000)
    month, day = divmod(rest, 100)
    if month > 12:
        return date(year + 1, 1, 1)
    if month < 1:
        return date(year, 1, 1)
    start = date(year, month, 1)
    following = (start + timedelta(days=31)).replace(day=1)
    return min(start + timedelta(days=max(day, 1) - 1), following)


def _instants(day: date, at: time, zone: ZoneInfo) -> Iterator[datetime]:
    """A wall-clock time as moments: two where clocks are put back."""
    for fold in (0, 1):
        yield datetime.combine(day, at, zone).replace(fold=fold).astimezone(UTC)


def _shifts(day: date, zone: ZoneInfo) -> Iterator[datetime]:
    """The moment of a day at which the zone's clocks are put forward or back."""
    low = datetime.combine(day, time(0, 0), zone).astimezone(UTC) - timedelta(hours=3)
    high = low + timedelta(hours=30)
    before = low.astimezone(zone).utcoffset()
    if before == high.astimezone(zone).utcoffset():
        return
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    yield high
