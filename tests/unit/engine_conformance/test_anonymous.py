"""Policies and subjects as anonymous sets, from the expression to the names that matched."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policyengine.conformance import Responder
from tests.unit.engine_conformance.samples import ATTRIBUTES

REFUSED = {"granted": False, "conjunction": None, "matched": []}


def ask(policy: str, subject: Any, **fields: Any) -> Any:
    question = {
        "id": 1, "op": "anonset.match", "encoding": "bloom", "attributes": ATTRIBUTES,
        "policy": policy, "subject": subject, **fields,
    }  # fmt: skip
    responder = Responder()
    found = json.loads(responder.answer(json.dumps(question).encode()))
    assert responder.unexpected == 0
    return found["result"] if found["ok"] else found["error"]["kind"]


def granted(conjunction: int, *matched: str) -> dict[str, Any]:
    return {"granted": True, "conjunction": conjunction, "matched": list(matched)}


@pytest.mark.parametrize("encoding", ["bloom", "tokens"])
@pytest.mark.parametrize(
    ("policy", "subject", "expected"),
    [
        ('zone == "a"', [{"zone": "a"}], granted(0, "zone")),
        ('zone == "a"', [{"zone": "b"}], REFUSED),
        ('zone == "a"', [], REFUSED),
        ("true", [], REFUSED),
        ("true", [{}], granted(0)),
        ("false", [{}], REFUSED),
        ("!has(zone)", [{"zone": "a"}, {}], granted(1, "zone")),
        ('zone == "a" && level > 3', [{"zone": "a"}, {"level": 4, "zone": "a"}],
         granted(1, "level", "zone")),
        ('level > 3 || zone == "a"', [{"zone": "a", "level": 1}], granted(0, "zone")),
        ('level > 3 || zone == "a"', [{"zone": "a", "level": 4}], granted(0, "level")),
        ("atLeast(2, [on, level != 1, t < 5])", [{"on": True}, {"t": 0, "level": 7}],
         granted(1, "level", "t")),
    ],
)  # fmt: skip
def test_grants_and_what_matched(encoding: str, policy: str, subject: Any, expected: Any) -> None:
    assert ask(policy, subject, encoding=encoding) == expected


def test_a_filter_that_is_too_small_grants_too_much_and_never_too_little() -> None:
    subject = [{"zone": "a", "level": number, "on": True, "t": 1} for number in range(4)]
    for number in range(30):
        found = ask('level == 2 && zone == "a"', subject, m=20, k=1, seed=number)
        assert found["granted"]
        assert found["conjunction"] <= 2
    assert ask('zone == "b"', subject, m=8, k=50)["granted"]
    assert ask('zone == "b"', subject, k=20) == REFUSED
    assert ask('zone == "b"', subject, m=4000) == REFUSED


def test_sizes_of_tokens_change_nothing() -> None:
    assert ask("on", [{"on": True}], encoding="tokens", m=8, k=1) == granted(0, "on")


def test_a_seed_repeats_what_chance_gives() -> None:
    def found(seed: int | str) -> list[bool]:
        policies = [f'zone == "{number}"' for number in range(20)]
        return [ask(policy, [{"level": 1}], m=12, k=1, seed=seed)["granted"] for policy in policies]

    assert found(1) == found(1)
    assert len({tuple(found(seed)) for seed in ("1", 1, 2, 3)}) > 1


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"m": 7}, "invalid"),
        ({"m": 2**17 + 1}, "invalid"),
        ({"k": 0}, "invalid"),
        ({"k": 257}, "invalid"),
        ({"m": "8"}, "type"),
        ({"k": True}, "type"),
        ({"k": 1.0}, "type"),
        ({"encoding": "tokens", "m": 7}, "invalid"),
        ({"encoding": "bits"}, "unknown"),
        ({"encoding": None}, "type"),
        ({"subject": {}}, "type"),
        ({"subject": [1]}, "type"),
        ({"subject": [{"zone": 1}]}, "invalid"),
        ({"subject": [{"zome": "1"}]}, "unknown"),
        ({"seed": 1.5}, "type"),
        ({"seed": True}, "type"),
        ({"m": None, "k": None, "seed": None}, REFUSED),
    ],
)
def test_fields_that_do_not_fit(fields: dict[str, Any], kind: Any) -> None:
    assert ask("on", fields.pop("subject", []), **fields) == kind


def test_long_conjunctions_get_no_second_elements_and_longer_ones_are_refused() -> None:
    def declared(count: int) -> dict[str, Any]:
        return {f"b{number}": {"type": "bool"} for number in range(count)}

    for count, expected in ((255, True), (400, True), (513, "too-large")):
        attributes = declared(count)
        subject = [dict.fromkeys(attributes, True)]
        found = ask("b1 && b2", subject, attributes=attributes, m=131_072, k=4)
        assert (found if isinstance(found, str) else found["granted"]) == expected


def test_many_conjunctions_are_matched_in_portions() -> None:
    subject = [{"level": number} for number in range(700)]
    found = ask("level == 650 || level == 640", subject, m=131_072, k=8)
    assert found == granted(640, "level")
