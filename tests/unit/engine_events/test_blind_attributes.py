"""Attributes that clients hide: how types say so, and that nobody passes them on in clear."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.attributes import AttributeType
from policyengine.errors import DecodeError, InputError
from policyengine.events import AttributeSpec, EventTypes, TypeSpec, protect
from policyengine.primitives import SeededRandom

TEXT = AttributeType("string")
HIDDEN = AttributeSpec("patient", TEXT, blind="searchable", sealed=True)
PLAIN = AttributeSpec("ward", TEXT)
HIDING = {"kind": "searchable", "sealed": True}


def test_a_type_says_how_its_attribute_is_hidden() -> None:
    assert HIDDEN.to_json()["protection"] == HIDING
    assert "protection" not in PLAIN.to_json()
    for spec in (HIDDEN, PLAIN, AttributeSpec("n", TEXT, blind="order-preserving")):
        assert AttributeSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {},
        {"kind": "searchable"},
        {"kind": "clear", "sealed": False},
        {"kind": ["searchable"], "sealed": False},
        {"kind": "searchable", "sealed": 1},
        {**HIDING, "more": 1},
    ],
)
def test_protections_are_read_strictly(wrong: Any) -> None:
    with pytest.raises(DecodeError):
        AttributeSpec.from_json({**PLAIN.to_json(), "protection": wrong})


def test_a_sub_type_hides_neither_more_nor_less() -> None:
    above = TypeSpec("Alarm", None, (HIDDEN, PLAIN))
    EventTypes([above, TypeSpec("Fall", "Alarm", (HIDDEN,))])
    for other in (AttributeSpec("patient", TEXT), AttributeSpec("ward", TEXT, blind="searchable")):
        with pytest.raises(InputError, match="changes nothing but its keys"):
            EventTypes([above, TypeSpec("Fall", "Alarm", (other,))])


def test_a_hidden_attribute_is_never_passed_on_as_it_came() -> None:
    keyed = AttributeSpec("name", TEXT, ("staff",), blind="searchable")
    found = protect(
        {"patient": "p-17", "ward": "west", "name": "Ada"},
        [HIDDEN, PLAIN, keyed],
        {"staff": (1, bytes(32))},
        aad=b"event",
        random=SeededRandom(b"blind"),
    )
    assert found.clear == {"ward": "west"}
    assert found.sealed == {}
    assert found.dropped == ("patient", "name")
