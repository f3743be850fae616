"""What order-preserving matching takes, what it refuses, and what it leaves over."""

from __future__ import annotations

import pytest

from policyengine.attributes import And, AttributeType, Equal, Not, Or, Test, Value
from policyengine.errors import InputError
from policyengine.ope import Range, conjunction, ope_match, parse_conjunction, plain_client
from policyengine.ope.conjunctions import constraints_of

SCHEMA = {
    "zone": AttributeType("string"),
    "level": AttributeType("int", 0, 1023),
    "free": AttributeType("int"),
    "t": AttributeType("float", 0, 100, 0.5),
    "unit": AttributeType("enum", values=("a", "b", "c")),
    "on": AttributeType("bool"),
}
SCHEMES = ["plain", "sbm1", "sbm2"]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("level == 1 || on", 11),
        ("level == 1 && (zone == '||' || on)", 28),
        ("!(level == 1)", 0),
        ("on && !on", 6),
        ("zone != '!' && atLeast(1, [on, level > 2])", 15),
        ('zone == "atLeast(1" && !!on', 23),
        ("true || false", 5),
    ],
)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_no_conjunction_is_refused_where_it_stands(scheme: str, text: str, at: int) -> None:
    with pytest.raises(InputError) as caught:
        ope_match(scheme, SCHEMA, {"s": text}, [])  # type: ignore[arg-type]
    assert (caught.value.kind, caught.value.at) == ("unsupported", at)


def test_trees_are_refused_at_their_first_test() -> None:
    for tree, at in (
        (Or((Test("on", "==", True, 7), Test("level", "==", 1, 20))), 7),
        (Not(And(())), None),
        (Equal("level", "free", 4), 4),
    ):
        with pytest.raises(InputError) as caught:
            conjunction(And((Test("on", "has"), tree)))
        assert (caught.value.kind, caught.value.at) == ("unsupported", at)


def test_other_mistakes_keep_their_kind() -> None:
    for text, kind in (("zone < 1", "type"), ("a == 1", "unknown"), ("on &&", "syntax")):
        with pytest.raises(InputError) as caught:
            parse_conjunction(text, SCHEMA)
        assert caught.value.kind == kind
    layout = plain_client(SCHEMA).layout
    with pytest.raises(InputError) as caught:
        constraints_of(Test("gone", "has", None, 5), layout, lambda _, text: text.encode())
    assert (caught.value.kind, caught.value.at) == ("unknown", 5)
    with pytest.raises(InputError) as caught:
        ope_match("sbm3", SCHEMA, {}, [])  # type: ignore[arg-type]
    assert caught.value.kind == "unknown"
    with pytest.raises(InputError) as caught:
        ope_match("sbm1", SCHEMA, {}, [{"level": 4000}])
    assert caught.value.kind == "invalid"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("text", "values", "matches"),
    [
        ("level != 3", {}, False),
        ("level != 3", {"level": 3}, False),
        ("level != 4000", {"level": 3}, True),
        ("level == 4000", {"level": 3}, False),
        ("level >= -7 && level < 4000", {"level": 1023}, True),
        ("level > 1022 && level != 1023", {"level": 1023}, False),
        ("free != 0 && free != 1 && free > -1", {"free": 1}, False),
        ("free != 0 && free != 1 && free > -1", {"free": 2}, True),
        ("free >= 5 && free <= 5 && free != 5", {"free": 5}, False),
        ("free >= 5 && free <= 6 && free != 6", {"free": 5}, True),
        ("free > 3 && free < 9 && free != 1 && free != 20", {"free": 5}, True),
        ("free < 5 && free > 5", {"free": 5}, False),
        ("free in [1, 2, 3, 9] && free > 1", {"free": 9}, True),
        ("free in []", {"free": 9}, False),
        ("free == 1 && free == 2", {"free": 1}, False),
        ("t in [0.5, 0.75] && t != 50", {"t": 0.5}, True),
        ("t > 0.25 && t < 0.75", {"t": 0.5}, True),
        ("unit != 'b'", {"unit": "c"}, True),
        ("unit in ['a', 'b'] && unit != 'a'", {"unit": "b"}, True),
        ("on", {"on": True}, True),
        ("on != true", {"on": False}, True),
        ("on && on == false", {"on": True}, False),
        ("has(zone)", {"zone": ""}, True),
        ("has(zone)", {"on": True}, False),
        ("zone == ''", {"zone": ""}, True),
        ("zone != ''", {"zone": ""}, False),
        ("zone != ''", {"zone": "a"}, True),
        ("zone != 'ab' && zone.startsWith('ab')", {"zone": "abc"}, True),
        ("zone != 'ab' && zone.startsWith('ab')", {"zone": "ab"}, False),
        ("zone.startsWith('ab') && zone.startsWith('abc')", {"zone": "abcd"}, True),
        ("zone.startsWith('ab') && zone.startsWith('b')", {"zone": "ab"}, False),
        ("zone.endsWith('bc') && zone.endsWith('c')", {"zone": "abc"}, True),
        ("zone.endsWith('bc') && zone.endsWith('b')", {"zone": "abc"}, False),
        ("zone.startsWith('ab') && zone.endsWith('bc')", {"zone": "abc"}, True),
        ("zone.startsWith('ab') && zone.endsWith('bc')", {"zone": "abcb"}, False),
        ("zone.endsWith('é😀') && zone != 'é😀'", {"zone": "xé😀"}, True),
        ("zone.startsWith('') && zone.endsWith('')", {"zone": ""}, True),
        ("zone in ['ab', 'b'] && zone.endsWith('b') && zone != 'b'", {"zone": "ab"}, True),
        ("true", {}, True),
        ("false && on", {"on": True}, False),
    ],
)
def test_what_is_asked_is_what_matches(
    scheme: str, text: str, values: dict[str, Value], matches: bool
) -> None:
    found = ope_match(scheme, SCHEMA, {"s": text}, [values])  # type: ignore[arg-type]
    assert found == [["s"] if matches else []]


def test_equal_conditions_are_equal_however_they_are_written() -> None:
    client = plain_client(SCHEMA)
    for first, second in (
        ("level > 4 && level < 9", "level >= 5 && level <= 8"),
        ("level in [5, 6, 7, 8]", "level >= 5 && level <= 8 && level <= 900"),
        ("level >= 0", "has(level)"),
        ("level != 0", "level > 0"),
        ("on != false", "on"),
        ("unit in ['a', 'b', 'c']", "has(unit)"),
        ("zone.startsWith('')", "has(zone)"),
        ("zone.startsWith('ab') && zone != 'x'", "zone.startsWith('ab')"),
        ("on && false", "level == 1 && level == 2"),
    ):
        assert client.encrypt_subscription(first) == client.encrypt_subscription(second)


def test_a_hole_names_the_number_once_and_both_sides_from_outside() -> None:
    client = plain_client(SCHEMA)
    ((_, ranges),) = client.encrypt_subscription("free != 5").ranges
    below, above = ranges
    assert below == Range(None, below.high, high_open=True)
    assert above == Range(below.high, None, low_open=True)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_large_subscriptions(scheme: str) -> None:
    schema = {f"a{place}": AttributeType("int") for place in range(31)}
    schema["zone"] = AttributeType("string")
    every = " && ".join(f"a{place} >= {place}" for place in range(31))
    literals = ", ".join(str(10 * number) for number in range(256))
    asked = {
        "wide": every,
        "in": f"a0 in [{literals}]",
        "not": " && ".join(f"a0 != {10 * number}" for number in range(256)),
        "long": f"zone.startsWith('{'x' * 300}') && zone.endsWith('{'y' * 300}')",
        "huge": f"a1 > {10**99} && a1 != {10**99 + 5}",
    }
    event: dict[str, Value] = {f"a{place}": place + 2550 for place in range(31)}
    events = [
        event,
        {"a0": 2551, "zone": "x" * 300 + "y" * 300},
        {"a1": 10**99 + 5},
        {"a1": 10**99 + 6},
    ]
    assert ope_match(scheme, schema, asked, events) == [  # type: ignore[arg-type]
        ["in", "wide"],
        ["long", "not"],
        [],
        ["huge"],
    ]
