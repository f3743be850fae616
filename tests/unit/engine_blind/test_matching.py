"""Blind matching against evaluation in clear, with attributes that are hidden or dropped."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine import sde
from policyengine.attributes import And, AtLeast, Equal, Not, Or, Test, Value, evaluate
from policyengine.blind import (
    BlindFilter,
    RoutedBlind,
    finish_filter,
    finish_part,
    seal_filter_text,
    split_filter,
    take_apart,
)
from policyengine.blind.apart import LIMIT
from policyengine.errors import DecodeError, DecryptionError, InputError, RejectedError
from tests.unit.engine_blind.world import (
    ALL,
    CLEAR,
    EVERY,
    SCHEMA,
    VALUES,
    doctor,
    expression,
    master,
    nurse,
    party,
    publisher,
    routed,
    sealed,
)

FILTERS = [
    "",
    'name == "Alice Ash"',
    'name != "Alice Ash"',
    '!(name == "Alice Ash")',
    'name startsWith "Al" && age > 40',
    "age in [40, 41, 42] || ill",
    "!has(age)",
    "!(age > 40)",
    'zone == "West" && age >= 41',
    'zone == "West" || unit == "b"',
    '!(zone == "West" && unit == "b")',
    'atLeast(2, [zone == "East", ill, level > 3])',
    '(zone == "West" || age < 10) && (level == 1 || !ill)',
]
EVENTS: list[dict[str, Value]] = [
    {},
    {**VALUES, "zone": "West", "level": 5},
    {"name": "Bob", "age": 9, "zone": "East", "level": 1},
    {"ill": False, "unit": "b", "zone": "West"},
    {"age": 41, "level": 9},
]


def met(
    text: str, values: Mapping[str, Value], hidden: Collection[str], dropped: Collection[str] = ()
) -> bool:
    """What agents find: everything through bytes, shares and the matcher."""
    subscriber = nurse()
    blind = seal_filter_text(subscriber.keys, text or "true", ALL, EVERY)
    arrived = BlindFilter.from_bytes(blind.to_bytes())
    own = {name: value for name, value in values.items() if name in SCHEMA}
    part = routed(own, EVERY - set(dropped))
    part = RoutedBlind.from_bytes(part.to_bytes())
    seen = {n: v for n, v in values.items() if n in CLEAR and n not in hidden}
    event = part.event(EVERY - set(hidden))
    assert event is not None
    for one in finish_filter(subscriber.share, arrived):
        clear = not one.clear or evaluate(expression(one.clear), seen)
        matcher = sde.Matcher(master().search.system)
        if one.search is not None:
            matcher.add("f", one.search)
        if clear and (one.search is None or matcher.match(event)):
            return True
    return False


@pytest.mark.parametrize("text", FILTERS)
def test_agents_find_what_evaluation_in_clear_finds(text: str) -> None:
    tree = expression(text or "true")
    for values in EVENTS:
        assert met(text, values, ()) == evaluate(tree, values), (text, values)


@pytest.mark.parametrize("text", FILTERS)
def test_what_is_hidden_or_dropped_counts_as_absent(text: str) -> None:
    tree = expression(text or "true")
    for hidden in ({"age"}, {"name", "unit", "zone"}, EVERY):
        for values in EVENTS[1:3]:
            left = {name: value for name, value in values.items() if name not in hidden}
            assert met(text, values, hidden) == evaluate(tree, left)
            blind = hidden & EVERY
            left = {name: value for name, value in values.items() if name not in blind}
            assert met(text, values, (), blind) == evaluate(tree, left)


_LEAVES = st.sampled_from(
    ['zone == "a"', "level > 3", "age > 3", "ill", 'name == "x"', "has(unit)", "!has(zone)"]
).map(expression)
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda terms: And(tuple(terms)), st.lists(inner, max_size=3)),
        st.builds(lambda terms: Or(tuple(terms)), st.lists(inner, max_size=3)),
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=3).flatmap(
            lambda terms: st.integers(1, len(terms)).map(lambda k: AtLeast(k, tuple(terms)))
        ),
    ),
    max_leaves=5,
)
_VALUES = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from(["a", "b"]),
        "level": st.integers(0, 9),
        "age": st.integers(0, 9),
        "ill": st.booleans(),
        "name": st.sampled_from(["x", "y"]),
        "unit": st.sampled_from(["a", "b"]),
    },
)


@settings(max_examples=200, deadline=None)
@given(_TREES, _VALUES)
def test_a_filter_taken_apart_means_the_same(tree, values) -> None:
    alternatives = take_apart(tree, lambda name: "blind" if name in SCHEMA else "clear")
    assert len(alternatives) <= LIMIT
    found = any(all(evaluate(one, values) for one in each.values()) for each in alternatives)
    assert found == evaluate(tree, values)
    for each in alternatives:
        for way, one in each.items():
            assert {way} == {
                "blind" if node.attribute in SCHEMA else "clear"
                for node in _tests(one)
            } or not _tests(one)  # fmt: skip


def _tests(tree) -> list[Test]:
    from policyengine.attributes.syntax import walk

    return [node for node in walk(tree) if isinstance(node, Test)]


def test_what_cannot_be_taken_apart_is_refused_in_plain_words() -> None:
    searchable = {"name"}
    schema = {"name": SCHEMA["name"], "zone": CLEAR["zone"]}
    with pytest.raises(InputError, match="cannot be compared") as caught:
        split_filter(Equal("name", "zone"), schema, searchable)
    assert caught.value.kind == "unsupported"
    with pytest.raises(InputError, match="cannot be compared"):
        split_filter(Not(Equal("name", "zone")), schema, searchable)
    many = " && ".join('(zone == "a" || name == "b")' for _ in range(7))
    with pytest.raises(InputError, match="several subscriptions"):
        split_filter(expression(many), schema, searchable)
    with pytest.raises(InputError, match="agents cannot match on `age`"):
        split_filter(expression("age > 3"), schema, searchable)
    both = expression('zone == "a" && name == "b"')
    assert split_filter(Not(Not(both)), schema, searchable) == split_filter(
        both, schema, searchable
    )
    assert split_filter(expression("true"), schema, searchable) == ((None, None),)
    assert split_filter(expression("false"), schema, searchable) == ()
    assert split_filter(expression("!false"), schema, searchable) == ((None, None),)


def test_filters_are_read_strictly() -> None:
    blind = seal_filter_text(nurse().keys, 'zone == "West" || age > 3', ALL, EVERY)
    data = blind.to_bytes()
    assert BlindFilter.from_bytes(data).to_bytes() == data
    from policyengine.blind.wire import FILTER, write

    place = blind.place
    for fields in ([b"x"], [b"\xff", b""], [b"x" * 70_000, b""], [b"", b"junk"], [b""] * 200):
        with pytest.raises(DecodeError):
            BlindFilter.from_bytes(write(FILTER, place, fields))
    assert BlindFilter.from_bytes(write(FILTER, place, [])).alternatives == ()


def test_a_share_of_somebody_else_or_of_another_epoch_is_refused() -> None:
    blind = seal_filter_text(nurse().keys, "age > 3", ALL, EVERY)
    with pytest.raises(RejectedError, match="not that of"):
        finish_filter(doctor().share, blind)
    with pytest.raises(RejectedError, match="not that of"):
        finish_part(doctor().share, sealed(), EVERY)
    other = party("sender", (), 8)
    for work in (
        lambda: finish_filter(party("nurse", (), 8).share, blind),
        lambda: finish_part(other.share, sealed(), EVERY),
    ):
        with pytest.raises(RejectedError) as caught:
            work()
        assert caught.value.reason == "blind-epoch"


def test_trapdoors_of_one_element_twice_are_refused() -> None:
    from dataclasses import replace

    from policyengine.sde import encrypt_event

    def made():
        return encrypt_event(publisher().keys.search, {}, {}, padding=1).event.trapdoors[0]

    part = sealed()
    always = part.always
    assert always is not None
    doubled = replace(always, trapdoors=tuple(sorted([made(), made()])))
    with pytest.raises(DecryptionError):
        finish_part(publisher().share, replace(part, always=doubled), EVERY)
