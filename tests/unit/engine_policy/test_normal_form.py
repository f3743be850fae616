"""The normal form: shape, limits, and what is left out."""

from __future__ import annotations

import time

import pytest

from policyengine.attributes import (
    AttributeType,
    Equal,
    Join,
    Literal,
    Not,
    Test,
    literal_token,
    normalise,
    parse,
)
from policyengine.errors import InputError

SCHEMA = {
    "zone": AttributeType("string"),
    "level": AttributeType("int", 0, 1023),
    "free": AttributeType("int"),
    "t": AttributeType("float", 0, 100, 0.5),
    "wide": AttributeType("float"),
    "unit": AttributeType("enum", values=("a", "b", "c")),
    "on": AttributeType("bool"),
    "x": AttributeType("string"),
} | {f"a{number}": AttributeType("int") for number in range(40)}


def dnf(text: str) -> list[list[str]]:
    found = normalise(parse(text, SCHEMA), SCHEMA)
    return [[literal_token(literal) for literal in conjunction] for conjunction in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", [[]]),
        ("false", []),
        ("on", [["on==true"]]),
        ("!on", [["!has(on)"], ["on==false"]]),
        ("on != true", [["on==false"]]),
        ("!(zone == 'x')", [["!has(zone)"], ['zone != "x"']]),
        ("!(zone != 'x')", [["!has(zone)"], ['zone=="x"']]),
        ("!(level < 5)", [["!has(level)"], ["level >= 5"]]),
        ("!has(zone)", [["!has(zone)"]]),
        ("!!has(zone)", [["has(zone)"]]),
        ("unit in ['a']", [['unit=="a"']]),
        ("unit in ['b', 'a', 'b']", [['unit in ["a","b"]']]),
        ("!(unit in ['a', 'b'])", [["!has(unit)"], ['unit !in ["a","b"]']]),
        ("!(unit in ['a'])", [["!has(unit)"], ['unit != "a"']]),
        ("!(zone.endsWith('x'))", [["!has(zone)"], ['zone !endsWith "x"']]),
        ("on || on && level == 1", [["on==true"]]),
        ("on && level == 1 || on", [["on==true"]]),
        ("has(on) && on", [["on==true"]]),
        ("has(on) && !has(on)", []),
        ("zone == 'x' && zone == 'y'", []),
        ("on && (level == 1 || zone == 'x')",
         [["on==true", "level==1"], ["on==true", 'zone=="x"']]),
        ("atLeast(2, [on, level == 1, zone == 'x'])",
         [["on==true", "level==1"], ["on==true", 'zone=="x"'], ["level==1", 'zone=="x"']]),
        ("!atLeast(1, [on, has(zone)])",
         [["!has(on)", "!has(zone)"], ["on==false", "!has(zone)"]]),
    ],
)  # fmt: skip
def test_shape(text: str, expected: list[list[str]]) -> None:
    found = dnf(text)
    assert sorted(map(sorted, found)) == sorted(map(sorted, expected))


def test_conjunctions_come_in_the_order_of_the_text() -> None:
    assert dnf("zone == 'z' || level == 1 || on") == [['zone=="z"'], ["level==1"], ["on==true"]]


@pytest.mark.parametrize(
    "text",
    [
        "level == 5000", "level > 1023", "level < 0", "level > 5 && level < 6", "level in []",
        "level > 9 && level <= 9", "level >= 9 && level < 9", "level < 5 && level > 7",
        "t > 100", "t > 5 && t < 5", "t >= 5 && t < 5", "t > 5 && t <= 5", "t == 0.25",
        "unit != 'a' && unit != 'b' && unit != 'c'", "unit == 'a' && unit in ['b', 'c']",
        "on && on == false", "on != true && on != false",
        "zone.startsWith('a') && zone.startsWith('b')", "zone.endsWith('a') && zone.endsWith('b')",
        "zone.startsWith('ab') && !zone.startsWith('a') && has(zone)",
        "zone.endsWith('ab') && !zone.endsWith('b') && has(zone)",
        "zone == 'abc' && zone.startsWith('b')", "!has(zone) && zone != 'x'",
        "level in [1, 2] && level > 2",
    ],
)  # fmt: skip
def test_what_can_never_hold_is_left_out(text: str) -> None:
    assert dnf(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "level >= 5 && level <= 5", "t >= 5 && t <= 5", "level > 5 && level < 7", "free > 5",
        "free > 5 && free >= 5", "free >= 5 && free > 5 && free < 9 && free <= 9 && free <= 8",
        "wide > 0.1 && wide < 0.2", "zone.startsWith('a') && zone.startsWith('ab')",
        "zone.endsWith('a') && zone.endsWith('ba')", "zone != 'x' && zone != 'y'",
        "unit != 'a' && unit != 'b'", "level in [1, 2] && level > 1",
        "zone.startsWith('ab') && !zone.startsWith('abc') && has(zone)",
    ],
)  # fmt: skip
def test_what_can_hold_stays(text: str) -> None:
    assert len(dnf(text)) == 1


def test_joins_stay_literals_and_cannot_be_negated() -> None:
    expression = parse("zone == x && has(zone) && has(x)", SCHEMA, joins=True)
    assert normalise(expression, SCHEMA) == ((Join("zone", "x"),),)
    with pytest.raises(InputError) as caught:
        normalise(Not(Equal("zone", "x")), SCHEMA)
    assert caught.value.kind == "unsupported"


def test_undeclared_attributes_are_refused() -> None:
    for expression in (Test("zome", "has"), Equal("zome", "zone"), Equal("zone", "zome")):
        with pytest.raises(InputError) as caught:
            normalise(expression, SCHEMA)
        assert (caught.value.kind, caught.value.suggestion) == ("unknown", "zone")


def test_the_limit_is_exact() -> None:
    text = " && ".join(f"(a{number} == 1 || a{number} == 2)" for number in range(10))
    expression = parse(text, SCHEMA)
    assert len(normalise(expression, SCHEMA)) == 1024
    for limit in (1023, 100):
        with pytest.raises(InputError) as caught:
            normalise(expression, SCHEMA, limit=limit)
        assert caught.value.kind == "too-large"


@pytest.mark.parametrize(
    "text",
    [
        " && ".join(f"(a{n} == 1 || a{n} == 2)" for n in range(40)),
        " && ".join(f"!(a{n} == 1)" for n in range(40)),
        " && ".join(f"({' || '.join(f'a{m} == {n}' for n in range(100))})" for m in range(3)),
        "atLeast(20, [" + ", ".join(f"a{n} == 1" for n in range(40)) + "])",
        " && ".join(f"(a{n % 40} >= {n} || a{(n + 1) % 40} <= {n})" for n in range(500)),
        " && ".join(f"(a{n % 40} >= {n % 17} || a{(n * 7) % 40} <= {n % 13})" for n in range(300)),
    ],
)
def test_explosions_are_refused_quickly(text: str) -> None:
    expression = parse(text, SCHEMA)
    started = time.perf_counter()
    with pytest.raises(InputError) as caught:
        normalise(expression, SCHEMA)
    assert caught.value.kind == "too-large"
    assert time.perf_counter() - started < 30


def test_work_is_bounded_even_where_nothing_is_left() -> None:
    many = [Literal("free", "!=", number) for number in range(1024)]
    text = " && ".join(f"free != {literal.value}" for literal in many)
    assert len(dnf(text)[0]) == 1024


def test_wide_thresholds_cost_only_what_they_give() -> None:
    terms = ", ".join(f"a{number} == 1" for number in range(40))
    assert len(dnf(f"atLeast(39, [{terms}])")) == 40
    assert len(dnf(f"atLeast(1, [{terms}])")) == 40
    assert len(dnf(f"atLeast(40, [{terms}])")) == 1
