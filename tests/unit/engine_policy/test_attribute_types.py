"""Declared domains: what a type admits and how a refusal is worded."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.attributes import (
    AttributeType,
    check_name,
    check_values,
    nearest,
    schema_from_json,
    shown,
)
from policyengine.attributes.problems import listed
from policyengine.errors import InputError

DECLARED: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "int", "min": 0, "max": 1023},
    {"type": "int", "min": -5, "step": 5},
    {"type": "float", "min": 0, "max": 100, "step": 0.5},
    {"type": "enum", "values": ["a", "b"]},
    {"type": "bool"},
]


@pytest.mark.parametrize("declared", DECLARED)
def test_declarations_travel_as_json(declared: dict[str, Any]) -> None:
    assert AttributeType.from_json(declared).to_json() == declared


@pytest.mark.parametrize(
    ("declared", "kind", "where", "suggestion"),
    [
        ("string", "invalid", None, None),
        ({}, "unknown", "type", None),
        ({"type": 5}, "unknown", "type", None),
        ({"type": "strin"}, "unknown", "type", "string"),
        ({"type": "int", "mim": 1}, "unknown", "mim", "min"),
        ({"type": "string", "min": 1}, "invalid", "min", None),
        ({"type": "int", "min": 2, "max": 1}, "invalid", "min", None),
        ({"type": "int", "min": 0.5}, "invalid", "min", None),
        ({"type": "int", "max": True}, "invalid", "max", None),
        ({"type": "int", "max": "9"}, "invalid", "max", None),
        ({"type": "float", "max": float("inf")}, "invalid", "max", None),
        ({"type": "int", "max": 10**200}, "invalid", "max", None),
        ({"type": "float", "max": 10**200}, "invalid", "max", None),
        ({"type": "int", "step": 0}, "invalid", "step", None),
        ({"type": "enum"}, "invalid", "values", None),
        ({"type": "enum", "values": ["a", "a"]}, "invalid", "values", None),
        ({"type": "enum", "values": "ab"}, "invalid", "values", None),
        ({"type": "enum", "values": ["a", 1]}, "invalid", "values", None),
        ({"type": "enum", "values": ["\ud800"]}, "invalid", "values", None),
        ({"type": "bool", "values": ["a"]}, "invalid", "values", None),
    ],
)
def test_bad_declarations_name_the_field(
    declared: Any, kind: str, where: str | None, suggestion: str | None
) -> None:
    with pytest.raises(InputError) as caught:
        AttributeType.from_json(declared)
    assert (caught.value.kind, caught.value.where) == (kind, where)
    assert caught.value.suggestion == suggestion


def test_a_kind_that_does_not_exist_is_refused_in_code_too() -> None:
    with pytest.raises(InputError, match="no known type"):
        AttributeType("text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declared", "value", "result"),
    [
        ({"type": "string"}, "x", "x"),
        ({"type": "int"}, 7, 7),
        ({"type": "float"}, 7, 7.0),
        ({"type": "float", "step": 0.1}, 0.3, 0.3),
        ({"type": "float"}, -0.0, 0.0),
        ({"type": "int", "min": 1, "step": 3}, 7, 7),
        ({"type": "enum", "values": ["a"]}, "a", "a"),
        ({"type": "bool"}, False, False),
    ],
)
def test_values_come_in_one_form(declared: Any, value: Any, result: Any) -> None:
    found = AttributeType.from_json(declared).check(value, "a")
    assert repr(found) == repr(result)


@pytest.mark.parametrize(
    ("declared", "value", "kind", "words"),
    [
        ({"type": "string"}, 5, "invalid", "expected text"),
        ({"type": "string"}, "\udc00", "invalid", "expected text"),
        ({"type": "string"}, "x" * 70_000, "too-large", "65536"),
        ({"type": "int"}, 5.0, "invalid", "a whole number"),
        ({"type": "int"}, True, "invalid", "a whole number"),
        ({"type": "int"}, 10**100, "too-large", "100 digits"),
        ({"type": "float"}, 10**400, "too-large", "100 digits"),
        ({"type": "float"}, "5", "invalid", "a number"),
        ({"type": "float"}, float("nan"), "invalid", "a number"),
        ({"type": "int", "min": 0}, -1, "invalid", "at least 0"),
        ({"type": "int", "max": 9}, 10, "invalid", "at most 9"),
        ({"type": "float", "step": 0.5}, 0.3, "invalid", "steps of 0.5"),
        ({"type": "enum", "values": ["west", "east"]}, "wset", "invalid", "`east`, `west`"),
        ({"type": "enum", "values": ["west"]}, 1, "invalid", "one of `west`"),
        ({"type": "bool"}, 1, "invalid", "`true` or `false`"),
    ],
)
def test_values_outside_the_domain_say_what_was_expected(
    declared: Any, value: Any, kind: str, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        AttributeType.from_json(declared).check(value, "name")
    assert caught.value.kind == kind
    assert caught.value.where == "name"
    assert words in caught.value.message


def test_an_enum_suggests_the_nearest_value() -> None:
    with pytest.raises(InputError) as caught:
        AttributeType("enum", values=("west", "east")).check("wset", "zone")
    assert caught.value.suggestion == "west"


def test_a_schema_names_the_attribute_at_fault() -> None:
    assert schema_from_json({"a": {"type": "bool"}}) == {"a": AttributeType("bool")}
    with pytest.raises(InputError) as caught:
        schema_from_json({"level": {"type": "int", "min": "0"}})
    assert caught.value.where == "level.min"
    with pytest.raises(InputError) as caught:
        schema_from_json({"level": 5})
    assert caught.value.where == "level"
    for bad in ([], {5: {"type": "bool"}}):
        with pytest.raises(InputError) as caught:
            schema_from_json(bad)
        assert caught.value.kind == "invalid"


def test_undeclared_values_are_refused_with_a_suggestion() -> None:
    schema = {"carrier": AttributeType("string")}
    assert check_values({"carrier": "UA"}, schema) == {"carrier": "UA"}
    with pytest.raises(InputError) as caught:
        check_values({"carier": "UA"}, schema)
    assert (caught.value.kind, caught.value.suggestion) == ("unknown", "carrier")


@pytest.mark.parametrize("name", ["a", "event.carrier", "_x9.y_"])
def test_names_that_expressions_can_write(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name", ["", "9a", "a-b", "a..b", ".a", "a.", "in", "true", "é", "a" * 201]
)
def test_names_that_they_cannot(name: str) -> None:
    with pytest.raises(InputError) as caught:
        check_name(name)
    assert caught.value.kind == "invalid"


def test_messages_are_short_whatever_was_typed() -> None:
    assert len(shown("x" * 10_000)) < 50
    assert listed([]) == "none is declared"
    assert listed(f"name{number}" for number in range(20)).endswith(" and 12 more")
    assert nearest("CARRIER", ["carrier", "origin"]) == "carrier"
    assert nearest("zzz", ["carrier"]) is None
