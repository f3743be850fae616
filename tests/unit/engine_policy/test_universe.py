"""Access trees: their limits, and the shape of what they ask for."""

from __future__ import annotations

import pytest

from policyengine.attributes import (
    ANY,
    NEVER,
    And,
    AttributeType,
    Element,
    Equal,
    Gate,
    Leaf,
    Test,
    access_tree,
    elements_of,
    leaves,
    parse,
    satisfied,
)
from policyengine.attributes import universe as module
from policyengine.attributes.codes import NumberCode
from policyengine.errors import InputError

SCHEMA = {
    "zone": AttributeType("string"),
    "level": AttributeType("int", 0, 1023),
    "free": AttributeType("int"),
    "unit": AttributeType("enum", values=("a", "b", "c")),
    "on": AttributeType("bool"),
}


def tree(text: str) -> object:
    return access_tree(parse(text, SCHEMA), SCHEMA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", Leaf(ANY)),
        ("false", Leaf(NEVER)),
        ("true && on", Leaf(Element("on==", "true"))),
        ("atLeast(2, [true, on, false])", Leaf(Element("on==", "true"))),
        ('unit != "b"', Gate(1, (Leaf(Element("unit==", '"a"')), Leaf(Element("unit==", '"c"'))))),
        ("level == 5000", Leaf(NEVER)),
        ("level >= 0", Leaf(Element("level?", "1"))),
        ("level < 512", Leaf(Element("level/1", "0"))),
        ("level >= 512 && level < 768", Leaf(Element("level/2", "10"))),
        ("level > 3 && level < 4", Leaf(NEVER)),
        ("!has(zone)", Leaf(Element("zone?", "0"))),
        ('zone.startsWith("")', Leaf(Element("zone?", "1"))),
        ('zone.endsWith("st")', Leaf(Element("zone$2", "st"))),
        (
            "level > 3 && level >= 3 && level <= 4 && level < 5",
            Leaf(Element("level/10", "0000000100")),
        ),
        (
            "level >= 3 && level > 3 && level < 5 && level <= 5",
            Leaf(Element("level/10", "0000000100")),
        ),
        ('!zone.startsWith("")', Leaf(Element("zone?", "0"))),
        ("on || on", Leaf(Element("on==", "true"))),
    ],
)
def test_trees_ask_for_as_little_as_they_can(text: str, expected: object) -> None:
    assert tree(text) == expected


def test_bounds_of_one_attribute_become_one_interval() -> None:
    found = tree("level >= 100 && on && level < 700 && level > 50")
    assert isinstance(found, Gate)
    assert found.count == 2
    assert {leaf.element.label for leaf in leaves(found)} <= {"on=="} | {
        f"level/{length}" for length in range(1, 11)
    }
    # any event satisfies one of the prefixes at most, so that a reader needs one share for it
    (prefixes,) = (term for term in found.terms if isinstance(term, Gate))
    assert prefixes.count == 1


def test_negated_leaves_stand_beside_a_leaf_for_presence() -> None:
    found = tree('zone != "West"')
    other = Leaf(Element("zone==", '"West"'), negated=True)
    assert found == Gate(2, (Leaf(Element("zone?", "1")), other))
    assert not satisfied(Gate(2, (other, other)), elements_of({}, SCHEMA))


def test_what_cannot_be_tested_under_encryption_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        access_tree(And((Equal("free", "level", 4), Test("on", "==", True))), SCHEMA)
    assert (caught.value.kind, caught.value.at) == ("unsupported", 4)
    with pytest.raises(InputError) as caught:
        access_tree(Test("nowhere", "has"), SCHEMA)
    assert caught.value.kind == "unknown"
    with pytest.raises(InputError) as caught:
        tree(f'zone.startsWith("{"x" * 129}")')
    assert caught.value.kind == "too-large"
    assert satisfied(
        access_tree(parse(f'zone.startsWith("{"x" * 128}")', SCHEMA), SCHEMA),
        elements_of({"zone": "x" * 1000}, SCHEMA),
    )
    for operation in (
        lambda: access_tree(Test("free", "<", 3), SCHEMA, ranges="bits"),
        lambda: elements_of({"free": 3}, SCHEMA, ranges="bits"),
    ):
        with pytest.raises(InputError) as caught:
            operation()
        assert caught.value.kind == "unsupported"


def test_trees_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LEAVES", 3)
    with pytest.raises(InputError) as caught:
        tree('unit == "a" || unit == "b" || level == 1 || on')
    assert caught.value.kind == "too-large"


def test_tokens_of_elements_cannot_be_confused() -> None:
    assert Element("a", "bc").token != Element("ab", "c").token
    assert Element("a=", "=1").token != Element("a==", "1").token


def test_a_cover_of_everything_is_the_empty_prefix() -> None:
    code = NumberCode(SCHEMA["level"])
    assert code.cover(None, None) == code.cover(0, None) == code.cover(None, 1023) == ("",)
    assert code.cover(0, 1023) == ("",)
    assert code.cover(0, 0) == ("0000000000",)
