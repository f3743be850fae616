"""Delta after delta equals the whole, and a delta that anybody touched is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.bundles import Content, Delta, difference
from policyengine.bundles.deltas import apply
from policyengine.bundles.entries import put_together, take_apart
from policyengine.errors import DecodeError, PortcullisError, RejectedError
from policyengine.primitives.canonical import dumps, loads
from tests.support.content_histories import history

KINDS = st.sampled_from(("agent", "client", "comparator"))
SEEDS = st.integers(0, 2**32)


@given(KINDS, SEEDS)
@settings(max_examples=25, deadline=None)
def test_replayed_deltas_equal_the_whole(kind: str, seed: int) -> None:
    contents = list(history(kind, seed, 8))
    held = contents[0]
    for before, after in pairwise(contents):
        delta = Delta.from_json(loads(dumps(difference(before, after).to_json())))
        held = apply(held, delta)
        assert held.to_json() == after.to_json()
    assert held == contents[-1]
    # over several revisions at once it comes to the same
    assert apply(contents[0], difference(contents[0], contents[-1])) == contents[-1]


@given(KINDS, SEEDS)
@settings(max_examples=15, deadline=None)
def test_a_content_has_one_row_of_entries_and_a_row_makes_one_content(kind: str, seed: int) -> None:
    *_, content = history(kind, seed, 3)
    entries = take_apart(content)
    assert put_together(type(content), entries.listed) == content
    assert len(entries.outline) == 32 * len(entries.listed)
    assert entries.size == sum(len(dumps({path: value})) for path, value in entries.listed)


@given(SEEDS, SEEDS)
@settings(max_examples=15, deadline=None)
def test_a_delta_starts_from_its_own_content_alone(one: int, other: int) -> None:
    before, *_, after = history("agent", one, 4)
    *_, stranger = history("agent", other, 5)
    if stranger == before:
        return
    with pytest.raises(RejectedError) as caught:
        apply(stranger, difference(before, after))
    assert caught.value.reason == "previous"


def _changed(draw: st.DrawFn, value: Any) -> Any:
    """The JSON value with one thing in it changed."""
    if isinstance(value, dict) and value:
        name = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 9)) == 0:
            return {key: held for key, held in value.items() if key != name}
        return {**value, name: _changed(draw, value[name])}
    if isinstance(value, list) and value:
        at = draw(st.integers(0, len(value) - 1))
        turn = draw(st.integers(0, 9))
        if turn == 0:
            return value[:at] + value[at + 1 :]
        if turn == 1:
            return [*value[: at + 1], *value[at:]]
        if turn == 2:
            return value[::-1]
        return [*value[:at], _changed(draw, value[at]), *value[at + 1 :]]
    if isinstance(value, bool) or value is None:
        return 7
    if isinstance(value, int):
        return value + draw(st.sampled_from((-1, 1, 2**20)))
    if isinstance(value, str):
        return value[:-1] + ("b" if value[-1:] == "a" else "a")
    return [value]


@st.composite
def mutants(draw: st.DrawFn) -> tuple[Content, dict[str, Any], dict[str, Any]]:
    before, *_, after = history(draw(KINDS), draw(SEEDS), draw(st.integers(1, 4)))
    honest = difference(before, after).to_json()
    return before, honest, _changed(draw, honest)


@given(mutants())
@settings(max_examples=120, deadline=None)
def test_a_delta_that_was_touched_is_refused(
    drawn: tuple[Content, dict[str, Any], dict[str, Any]],
) -> None:
    before, honest, touched = drawn
    if dumps(touched) == dumps(honest):
        return
    with pytest.raises(PortcullisError) as caught:
        apply(before, Delta.from_json(touched))
    assert isinstance(caught.value, DecodeError | RejectedError)
