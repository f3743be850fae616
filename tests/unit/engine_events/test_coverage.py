"""Coverage: paper 002, Fig. 3, filters in clear and under keys, several filters."""

from __future__ import annotations

import pytest

from policyengine.attributes import And, AttributeType, Equal, Not, Test, parse
from policyengine.errors import InputError
from policyengine.events import (
    EventTypes,
    Filter,
    Subscription,
    TypeSpec,
    covers,
    equivalent,
    implies,
    views,
)
from tests.unit.engine_events.city_types import BOTH, city, subscription

WEST = 'location == "West"'
TYPES = city()

# paper 002, Fig. 3
S1 = subscription("PoliceEvent")
S2 = subscription("PoliceEvent", (WEST, BOTH))
S3 = subscription("PoliceEvent", (WEST, ["police"]))
S4 = subscription("BurglaryEvent", (WEST, ["police"]))


def test_the_relations_of_figure_3() -> None:
    order = [S1, S2, S3, S4]
    found = [[covers(TYPES, first, second) for second in order] for first in order]
    assert found == [
        [True, True, True, True],
        [False, True, True, True],
        [False, False, True, True],
        [False, False, False, True],
    ]


def test_coverage_follows_the_tree_of_types_downwards_only() -> None:
    assert covers(TYPES, S1, subscription("SilentAlarm", ("polCode < 4", ["police"])))
    assert not covers(TYPES, subscription("BurglaryEvent"), S1)
    assert not covers(TYPES, subscription("FireEvent"), S1)
    same = subscription("BurglaryEvent", (WEST, BOTH))
    assert covers(TYPES, S2, same)
    assert not covers(TYPES, same, S2)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([], [], True),
        (["police"], ["police"], True),
        (["police", "fire"], ["police"], True),
        (["police"], ["police", "fire"], False),
        (["police"], ["fire"], False),
        ([], ["police"], False),  # what is public says nothing of what is encrypted
        (["police"], [], False),  # and the other way round
    ],
)
def test_keys_decide_between_equal_expressions(
    first: list[str], second: list[str], *, expected: bool
) -> None:
    general = subscription("PoliceEvent", (WEST, first))
    assert covers(TYPES, general, subscription("PoliceEvent", (WEST, second))) is expected


def test_every_filter_must_cover_one() -> None:
    two = subscription("PoliceEvent", (WEST, ["police"]), ("severity > 3", []))
    assert covers(TYPES, S3, two)
    assert not covers(TYPES, two, S3)
    assert covers(TYPES, subscription("PoliceEvent", ("severity >= 4", [])), two)
    assert not covers(TYPES, subscription("PoliceEvent", ("severity >= 5", [])), two)


def test_filters_in_clear_imply_together() -> None:
    parts = subscription("PoliceEvent", ("severity >= 3", []), ("severity <= 3", []))
    assert equivalent(TYPES, parts, subscription("PoliceEvent", ("severity == 3", [])))
    # a filter under keys does not help one in clear
    mixed = subscription("PoliceEvent", ("severity >= 3", []), ("severity <= 3", ["police"]))
    assert not covers(TYPES, subscription("PoliceEvent", ("severity == 3", [])), mixed)


def test_filters_under_one_key_imply_together() -> None:
    low, high = ("polCode >= 3", ["police"]), ("polCode <= 3", ["police"])
    both = subscription("BurglaryEvent", low, high)
    assert covers(TYPES, subscription("BurglaryEvent", ("polCode == 3", BOTH)), both)
    # under any of two keys, the two may be met under different ones
    loose = subscription("BurglaryEvent", ("polCode >= 3", BOTH), ("polCode <= 3", BOTH))
    assert not covers(TYPES, subscription("BurglaryEvent", ("polCode == 3", BOTH)), loose)
    # whichever key meets the wide one, the narrow ones under that key join it
    joined = subscription("BurglaryEvent", ("polCode >= 3", BOTH), high, ("polCode <= 3", ["fire"]))
    assert covers(TYPES, subscription("BurglaryEvent", ("polCode == 3", BOTH)), joined)
    missing = subscription("BurglaryEvent", ("polCode >= 3", BOTH), high)
    assert not covers(TYPES, subscription("BurglaryEvent", ("polCode == 3", BOTH)), missing)


def test_a_filter_that_always_holds_is_as_good_as_none() -> None:
    for keys in ([], ["police"], BOTH):
        always = subscription("PoliceEvent", ("has(zone) || !has(zone)", keys))
        assert equivalent(TYPES, always, S1)
    never = subscription("PoliceEvent", ("severity > 10", []))
    assert covers(TYPES, subscription("PoliceEvent", ('zone == "x"', [])), never)
    assert not covers(TYPES, S3, never)  # clear only covers clear, whatever it says


def test_a_bound_of_work_says_no_but_stays_reflexive() -> None:
    wide = subscription("PoliceEvent", ("severity > 3", []))
    narrow = subscription("PoliceEvent", ("severity > 4", []))
    assert covers(TYPES, wide, narrow)
    assert not covers(TYPES, wide, narrow, work=3)
    for each in (S1, S2, S3, S4, wide, narrow):
        assert equivalent(TYPES, each, each, work=0)
    more = subscription("PoliceEvent", ("severity > 3 && severity < 9", []))
    assert covers(TYPES, wide, more, work=0)
    assert not implies(
        [parse("severity > 4", TYPES.schema("PoliceEvent"))],
        parse("severity > 3", TYPES.schema("PoliceEvent")),
        TYPES.schema("PoliceEvent"),
        work=2,
    )


def test_many_parts_of_text_count_as_too_much_work() -> None:
    parts = [f"p{number}" for number in range(30)]
    starts = " || ".join(f'zone.startsWith("{part}")' for part in parts)
    ends = " || ".join(f'zone.endsWith("{part}")' for part in parts)
    schema = TYPES.schema("PoliceEvent")
    both = parse(f"({starts}) && ({ends})", schema)
    assert implies([both], parse(starts, schema), schema)
    assert not implies([both], parse(f"{starts} || has(severity)", schema), schema, work=1000)
    assert implies([both], parse(f"{starts} || has(severity)", schema), schema)


def test_thresholds_imply_lower_thresholds() -> None:
    schema = TYPES.schema("BurglaryEvent")
    terms = 'severity > 3, polCode > 3, has(zone), premises.startsWith("W")'
    three, two = (parse(f"atLeast({count}, [{terms}])", schema) for count in (3, 2))
    assert implies([three], two, schema)
    assert not implies([two], three, schema)
    assert implies([parse(f"!atLeast(2, [{terms}])", schema)], Not(three), schema)


def test_what_compares_two_attributes_implies_itself_only() -> None:
    schema = {"a": AttributeType("int"), "b": AttributeType("int")}
    join = Equal("a", "b")
    assert implies([join], join, schema)
    assert implies([join, Test("a", "has")], Test("a", "has"), schema)
    assert not implies([join], Test("a", "has"), schema)
    assert not implies([Test("a", "==", 1), Test("b", "==", 1)], join, schema)


def test_a_tree_that_is_too_deep_is_no_filter() -> None:
    deep: And | Not | Test = Test("zone", "has")
    for _ in range(300):
        deep = Not(deep)
    with pytest.raises(InputError, match="nests"):
        Filter(deep)


def test_an_event_shows_what_each_key_opens() -> None:
    event = {"location": "West", "severity": 3, "isDrill": True}
    public = {"severity": 3}
    assert views(TYPES, "PoliceEvent", event) == {
        None: public,
        "fire": {"location": "West", **public},
        "police": {"location": "West", **public},
        "policeTraining": {"isDrill": True, **public},
    }
    seen = views(TYPES, "BurglaryEvent", event)
    assert seen["police"] == {"location": "West", **public}
    assert "fire" not in seen  # a sub-type removed the key
    fire = subscription("PoliceEvent", (WEST, ["fire"]))
    assert fire.matches(TYPES, "PoliceEvent", views(TYPES, "PoliceEvent", event))
    assert not fire.matches(TYPES, "BurglaryEvent", seen)
    assert S4.matches(TYPES, "BurglaryEvent", seen)
    assert not S4.matches(TYPES, "PoliceEvent", views(TYPES, "PoliceEvent", event))
    clear = subscription("PoliceEvent", (WEST, []))
    assert not clear.matches(TYPES, "PoliceEvent", views(TYPES, "PoliceEvent", event))


def test_a_subscription_is_what_its_json_says() -> None:
    assert Subscription.from_json(S2.to_json(), TYPES) == S2
    assert S2.to_json() == {
        "type": "PoliceEvent",
        "filters": [{"expression": WEST, "keys": ["fire", "police"]}],
    }
    bare = {"type": "PoliceEvent", "filters": [{"expression": "severity > 1"}]}
    assert Subscription.from_json(bare, TYPES).filters[0].keys == frozenset()


@pytest.mark.parametrize(
    ("obj", "kind", "where"),
    [
        ([], "invalid", "subscription"),
        ({"type": "PoliceEvent"}, "invalid", "subscription.filters"),
        ({"type": 1, "filters": []}, "invalid", "subscription.type"),
        ({"type": "PoliceEvents", "filters": []}, "unknown", "subscription.type"),
        ({"type": "PoliceEvent", "filters": {}}, "invalid", "subscription.filters"),
        ({"type": "PoliceEvent", "filters": [1]}, "invalid", "subscription.filters[0]"),
        ({"type": "PoliceEvent", "filters": [1] * 1025}, "too-large", "subscription.filters"),
        ({"type": "PoliceEvent", "filters": [], "x": 1}, "unknown", "subscription.x"),
        (
            {"type": "PoliceEvent", "filters": [{"expression": "x == 1"}]},
            "unknown",
            "subscription.filters[0].expression",
        ),
        (
            {"type": "PoliceEvent", "filters": [{"expression": "polCode == 1"}]},
            "unknown",
            "subscription.filters[0].expression",
        ),
        (
            {"type": "PoliceEvent", "filters": [{"expression": "zone > 1"}]},
            "type",
            "subscription.filters[0].expression",
        ),
        (
            {"type": "PoliceEvent", "filters": [{"expression": "true", "keys": [1]}]},
            "invalid",
            "subscription.filters[0].keys[0]",
        ),
        (
            {"type": "PoliceEvent", "filters": [{"expression": "true", "keys": ["a", "a"]}]},
            "invalid",
            "subscription.filters[0].keys",
        ),
    ],
)
def test_what_is_wrong_with_a_subscription_has_a_place(obj: object, kind: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        Subscription.from_json(obj, TYPES)
    assert (caught.value.kind, caught.value.where) == (kind, where)


def test_a_problem_in_an_expression_keeps_its_position_and_suggestion() -> None:
    with pytest.raises(InputError) as caught:
        subscription("PoliceEvent", ("true && sevrity == 1", []))
    assert (caught.value.at, caught.value.suggestion) == (8, "severity")


def test_types_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        covers(EventTypes([TypeSpec("Other", None)]), S1, S1)
    assert caught.value.kind == "unknown"
