"""From a conjunction to intervals on columns: what a subscriber encrypts.

Everything that a subscription says about one column is worked out before it is encrypted
and becomes one list of intervals, ascending and without overlap: `x >= 3 && x != 5 && x < 9`
is 3..5, 5..8 with both fives outside. So equal conditions look equal however they were
written, and the broker learns no more than the intervals.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast

from policyengine.attributes import (
    And,
    Equal,
    Expression,
    Or,
    Schema,
    Test,
    evaluate,
    parse,
    unknown,
)
from policyengine.attributes.syntax import walk
from policyengine.errors import InputError
from policyengine.ope.layout import BACKWARD, FORWARD, Bound, Column, Interval, Layout

Constraints: TypeAlias = Mapping[str, tuple[Interval, ...]]
"""Intervals of each column that a subscription looks at; the event must have all of them."""

_MARKS: Final = re.compile(
    r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?P<mark>\|\||!(?!=)|\batLeast(?=\s*\())"""
)
_REFUSED: Final = "order-preserving matching takes conjunctions only; expected tests joined by `&&`"


def parse_conjunction(text: str, schema: Schema) -> Expression:
    """Read a subscription.

    Args:
        text: tests joined by `&&`.
        schema: the attributes that it may name.

    Raises:
        InputError: as `parse`, and `unsupported` with its position for `||`, `!` and
            `atLeast`.
    """
    expression = parse(text, schema)
    try:
        conjunction(expression)
    except InputError as error:
        found = (match.start() for match in _MARKS.finditer(text) if match["mark"])
        raise InputError(
            error.kind, error.message, at=next(found, error.at), where=error.where
        ) from None
    return expression


def conjunction(expression: Expression) -> tuple[Test, ...] | None:
    """Return the tests that must all hold, or None where the constant `false` is among them.

    Raises:
        InputError: `unsupported` for anything but a conjunction of tests; the position is
            that of the first test inside.
    """
    tests: list[Test] = []
    never = False
    for node in walk(expression):
        if isinstance(node, Test):
            tests.append(node)
        elif isinstance(node, Or) and not node.terms:
            never = True
        elif not isinstance(node, And):
            inside = (one.at for one in walk(node) if isinstance(one, Test | Equal))
            raise InputError("unsupported", _REFUSED, at=next(inside, None))
    return None if never else tuple(tests)


def constraints_of(
    expression: Expression, layout: Layout, order: Callable[[str, str], bytes]
) -> Constraints | None:
    """Turn a conjunction into intervals.

    Args:
        expression: a typed expression.
        layout: columns of the event type.
        order: what texts are sorted by, from the column's name and the text; a key may
            have put them into another order than that of their letters.

    Returns:
        The intervals, column by column in order of their names; None when the tests
        contradict one another, so that no event can ever match.

    Raises:
        InputError: `unsupported` as `conjunction`, `unknown` for an attribute that is not
            declared.
    """
    tests = conjunction(expression)
    if tests is None:
        return None
    grouped: defaultdict[str, list[Test]] = defaultdict(list)
    for test in tests:
        if test.attribute not in layout.schema:
            raise unknown("attribute", test.attribute, layout.schema, at=test.at)
        grouped[test.attribute].append(test)
    found: dict[str, tuple[Interval, ...]] = {}
    for name in sorted(grouped):
        if layout.schema[name].kind == "string":
            columns = _text(name, grouped[name], partial(order, name + FORWARD))
        else:
            columns = {name: tuple(_ranked(layout.columns[name], grouped[name]))}
        if not all(columns.values()):
            return None
        found.update(columns)
    return dict(sorted(found.items()))


def _ranked(column: Column, tests: Sequence[Test]) -> Iterator[Interval]:
    """Return the intervals of a number, bool or enum."""
    kept, dropped = _equalities(tests)
    without = {point for value in dropped if (point := column.single(value)) is not None}
    ranks = _range(column, tests)
    if ranks is None:
        return
    first, last = ranks
    if kept is not None:
        points = {point for value in kept if (point := column.single(value)) is not None}
        runs = _runs(
            point
            for point in points - without
            if (first is None or point >= first) and (last is None or point <= last)
        )
        yield from runs if column.size is None else _trimmed(runs, column.size - 1)
    elif column.size is not None:
        # a small domain: what is left over are whole intervals
        top = column.size - 1
        inside = range(first or 0, (top if last is None else last) + 1)
        yield from _trimmed(_runs_without(inside, without), top)
    else:
        yield from _around(first, last, sorted(without))


def _range(column: Column, tests: Sequence[Test]) -> tuple[int | None, int | None] | None:
    """Return the ranks that all tests of order leave over."""
    low = high = None
    low_open = high_open = False
    for test in tests:
        value = cast(float, test.value)
        if test.op in (">", ">=") and (low is None or (value, test.op == ">") > (low, low_open)):
            low, low_open = value, test.op == ">"
        elif test.op in ("<", "<=") and (
            high is None or (-value, test.op == "<") > (-high, high_open)
        ):
            high, high_open = value, test.op == "<"
    if low is None and high is None:
        return None, None
    return column.ranks(low, low_open, high, high_open)


def _equalities(tests: Iterable[Test]) -> tuple[set[Any] | None, set[Any]]:
    """Return the values that equalities leave over (None: all) and those that are excluded."""
    kept: set[Any] | None = None
    dropped: set[Any] = set()
    for test in tests:
        if test.op in ("==", "in"):
            wanted = set(test.value) if isinstance(test.value, tuple) else {test.value}
            kept = wanted if kept is None else kept & wanted
        elif test.op == "!=":
            dropped.add(test.value)
    return kept, dropped


def _runs(points: Iterable[int]) -> Iterator[Interval]:
    """Join neighbouring points to intervals."""
    ordered = sorted(points)
    starts = [at for at in range(len(ordered)) if not at or ordered[at - 1] + 1 < ordered[at]]
    for start, end in pairwise([*starts, len(ordered)]):
        yield Interval(Bound(ordered[start]), Bound(ordered[end - 1]))


def _runs_without(inside: range, without: set[int]) -> Iterator[Interval]:
    """Cut excluded points out of a range."""
    edges = sorted(point for point in without if point in inside)
    for before, after in pairwise([inside.start - 1, *edges, inside.stop]):
        if before + 1 < after:
            yield Interval(Bound(before + 1), Bound(after - 1))


def _trimmed(intervals: Iterable[Interval], top: int) -> Iterator[Interval]:
    """Leave out bounds at the ends of the domain."""
    for interval in intervals:
        low, high = interval.low, interval.high
        yield Interval(
            None if low == Bound(0) else low,
            None if high == Bound(top) else high,
        )


def _around(first: int | None, last: int | None, without: Sequence[int]) -> Iterator[Interval]:
    """Cut excluded points out of a range of a large domain, each one named once.

    The neighbours of an excluded number would be two further ciphertexts, so that the
    number itself bounds both sides from outside.
    """
    low = None if first is None else Bound(first)
    for point in without:
        if (first is not None and point < first) or (last is not None and point > last):
            continue
        if low is None or low != Bound(point):
            yield Interval(low, Bound(point, open=True))
        low = Bound(point, open=True)
    if low is None or last is None or low.point != last or not low.open:
        yield Interval(low, None if last is None else Bound(last))


def _text(
    name: str, tests: Sequence[Test], order: Callable[[str], bytes]
) -> dict[str, tuple[Interval, ...]]:
    """Return the intervals of an open string, in both directions where both are needed.

    An equality decides every other test at once, before anything is encrypted.
    """
    forward, backward = name + FORWARD, name + BACKWARD
    kept, dropped = _equalities(tests)
    others = And(tuple(test for test in tests if test.op not in ("==", "in")))
    if kept is not None:
        left = sorted((value for value in kept if evaluate(others, {name: value})), key=order)
        return {forward: tuple(Interval(Bound(value), Bound(value)) for value in left)}
    prefix = _longest(cast(str, test.value) for test in tests if test.op == "startsWith")
    suffix = _longest(cast(str, test.value)[::-1] for test in tests if test.op == "endsWith")
    if prefix is None or suffix is None:
        return {forward: ()}
    # what begins or ends otherwise is outside already
    hit = (text for text in dropped if text.startswith(prefix) and text[::-1].startswith(suffix))
    without = sorted(hit, key=order)
    columns: dict[str, tuple[Interval, ...]] = {}
    if prefix or without or not suffix:
        columns[forward] = tuple(_texts_around(prefix, without))
    if suffix:
        columns[backward] = (_begins(suffix),)
    return columns


def _longest(parts: Iterable[str]) -> str | None:
    """Return the longest part if the others are beginnings of it, else None."""
    ordered = sorted(parts, key=len)
    if not ordered:
        return ""
    fits = all(ordered[-1].startswith(part) for part in ordered)
    return ordered[-1] if fits else None


def _begins(part: str) -> Interval:
    return Interval(Bound(part), Bound(part, after=True))


def _texts_around(prefix: str, without: Sequence[str]) -> Iterator[Interval]:
    """Cut excluded texts out of those that begin with a prefix."""
    whole = _begins(prefix) if prefix else Interval()
    low = whole.low
    for text in without:
        if text and low != Bound(text):  # nothing stands before the empty text
            yield Interval(low, Bound(text, open=True))
        low = Bound(text, open=True)
    yield Interval(low, whole.high)
