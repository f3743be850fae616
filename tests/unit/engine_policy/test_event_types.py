"""Event types: the tree, its checks and their words; restriction."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.attributes import AttributeType
from policyengine.errors import DecodeError, InputError
from policyengine.events import (
    NOT_PERMITTED,
    AttributeSpec,
    EventTypes,
    Removed,
    TypeSpec,
    restrict,
)

TEXT = AttributeType("string")
LOCATION = AttributeSpec("location", TEXT, ("police", "fire"), "quasi-identifying")
POLICE = TypeSpec("PoliceEvent", None, (LOCATION, AttributeSpec("severity", AttributeType("int"))))
NARROW = AttributeSpec("location", TEXT, ("police",), "quasi-identifying")
BURGLARY = TypeSpec(
    "BurglaryEvent", "PoliceEvent", (NARROW, AttributeSpec("suspect", TEXT, ("police",)))
)
THEFT = TypeSpec("TheftEvent", "PoliceEvent")
SILENT = TypeSpec("SilentBurglary", "BurglaryEvent")


def types() -> EventTypes:
    return EventTypes([SILENT, THEFT, BURGLARY, POLICE])


def test_attributes_are_inherited_with_the_keys_that_are_left() -> None:
    tree = types()
    assert tree.names == ("BurglaryEvent", "PoliceEvent", "SilentBurglary", "TheftEvent")
    assert [spec.name for spec in tree.attributes("SilentBurglary")] == [
        "location", "severity", "suspect",
    ]  # fmt: skip
    assert tree.attribute("SilentBurglary", "location").keys == ("police",)
    assert tree.attribute("TheftEvent", "location").keys == ("police", "fire")
    assert tree.schema("PoliceEvent") == {"location": TEXT, "severity": AttributeType("int")}
    assert tree.spec("TheftEvent") is THEFT


def test_the_tree() -> None:
    tree = types()
    assert tree.ancestors("SilentBurglary") == ("BurglaryEvent", "PoliceEvent")
    assert tree.ancestors("PoliceEvent") == ()
    assert tree.is_a("SilentBurglary", "PoliceEvent")
    assert tree.is_a("PoliceEvent", "PoliceEvent")
    assert not tree.is_a("PoliceEvent", "BurglaryEvent")
    assert tree.subtree("BurglaryEvent") == ("BurglaryEvent", "SilentBurglary")
    assert tree.subtree("PoliceEvent") == tree.names


def test_values_are_checked_against_the_inherited_attributes() -> None:
    tree = types()
    assert tree.validate("SilentBurglary", {"location": "West", "severity": 3}) == {
        "location": "West", "severity": 3,
    }  # fmt: skip
    assert tree.validate("PoliceEvent", {}) == {}
    for name, values, kind, suggestion in (
        ("PoliceEvnt", {}, "unknown", "PoliceEvent"),
        ("PoliceEvent", {"suspect": "x"}, "unknown", None),
        ("PoliceEvent", {"locaton": "x"}, "unknown", "location"),
        ("PoliceEvent", {"location": 5}, "invalid", None),
    ):
        with pytest.raises(InputError) as caught:
            tree.validate(name, values)  # type: ignore[arg-type]
        assert (caught.value.kind, caught.value.suggestion) == (kind, suggestion)


def test_names_that_do_not_exist_come_with_the_nearest() -> None:
    tree = types()
    for question in (
        lambda: tree.attributes("Police"),
        lambda: tree.schema("Police"),
        lambda: tree.spec("Police"),
        lambda: tree.ancestors("Police"),
        lambda: tree.subtree("Police"),
        lambda: tree.is_a("Police", "PoliceEvent"),
        lambda: tree.is_a("PoliceEvent", "Police"),
        lambda: tree.attribute("Police", "location"),
    ):
        with pytest.raises(InputError) as caught:
            question()
        assert (caught.value.kind, caught.value.suggestion) == ("unknown", "PoliceEvent")
    with pytest.raises(InputError) as caught:
        tree.attribute("PoliceEvent", "severty")
    assert caught.value.suggestion == "severity"


def spec(*attributes: AttributeSpec) -> list[TypeSpec]:
    return [POLICE, TypeSpec("Child", "PoliceEvent", attributes)]


@pytest.mark.parametrize(
    ("specs", "kind", "where", "words"),
    [
        ([POLICE, POLICE], "invalid", "PoliceEvent", "declared twice"),
        ([TypeSpec("A", "B")], "unknown", "A", "`B` is no known event type"),
        ([TypeSpec("A", "A")], "invalid", "A", "cycle"),
        ([TypeSpec("A", "B"), TypeSpec("B", "A")], "invalid", "A", "cycle"),
        (
            [TypeSpec("A", "B"), TypeSpec("B", "C"), TypeSpec("C", "B")],
            "invalid", "A", "cycle",
        ),
        (spec(AttributeSpec("location", TEXT, ("police", "press"), "quasi-identifying")),
         "invalid", "Child.location", "`press`; a sub-type may only remove keys"),
        (spec(AttributeSpec("severity", AttributeType("int"), ("police",))),
         "invalid", "Child.severity", "only remove keys"),
        (spec(AttributeSpec("location", TEXT, (), "quasi-identifying")),
         "invalid", "Child.location", "last key"),
        (spec(AttributeSpec("location", AttributeType("int"), ("police",), "quasi-identifying")),
         "invalid", "Child.location", "nothing but its keys"),
        (spec(AttributeSpec("location", TEXT, ("police",))),
         "invalid", "Child.location", "nothing but its keys"),
        (spec(AttributeSpec("a", TEXT), AttributeSpec("a", TEXT)), "invalid", "Child.a", "twice"),
        (spec(AttributeSpec("a", TEXT, ("x", "x"))), "invalid", "Child.a", "a key twice"),
        (spec(AttributeSpec("a b", TEXT)), "invalid", "a b", "cannot be an attribute's name"),
    ],
)  # fmt: skip
def test_trees_that_break_a_rule(specs: list[TypeSpec], kind: str, where: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        EventTypes(specs)
    assert (caught.value.kind, caught.value.where) == (kind, where)
    assert words in caught.value.message


@pytest.mark.parametrize("declared", [POLICE, BURGLARY, THEFT])
def test_types_travel_as_json(declared: TypeSpec) -> None:
    assert TypeSpec.from_json(declared.to_json()) == declared


GOOD: dict[str, Any] = POLICE.to_json()
ATTRIBUTE: dict[str, Any] = LOCATION.to_json()


@pytest.mark.parametrize(
    "broken",
    [
        None, {}, GOOD | {"more": 1}, GOOD | {"name": 5}, GOOD | {"parent": 5},
        GOOD | {"attributes": {}}, GOOD | {"attributes": [5]},
        *(GOOD | {"attributes": [ATTRIBUTE | change]} for change in (
            {"name": 5}, {"keys": "police"}, {"keys": [5]}, {"pia": None}, {"more": 1},
            {"type": {"type": "text"}}, {"type": None},
        )),
    ],
)  # fmt: skip
def test_types_are_read_strictly(broken: Any) -> None:
    with pytest.raises(DecodeError):
        TypeSpec.from_json(broken)


def test_restriction_keeps_order_and_says_why() -> None:
    result = restrict(["c", "a", "b"], {"a", "c", "z"})
    assert result.kept == ("c", "a")
    assert result.removed == (Removed("b", NOT_PERMITTED),)
    assert restrict(["c", "a"], None).kept == ("c", "a")
    assert restrict(["c", "a"], ()).kept == ()
