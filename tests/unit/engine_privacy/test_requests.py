"""Requests in JSON: the shapes of the conformance command, and strict refusals."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.errors import InputError
from policyengine.primitives import SeededRandom
from policyengine.privacy import learns_json, plan_json, roundtrip_json

ASK = {"attributes": ["a", "b", "c"], "risky": [["a", "b"], ["c"]], "colluding": 1}
PLAN = {"overlays": [["a"], ["b"]], "encrypted": ["c"], "optimal": True}
VALUES = {"c": 3, "b": "x", "a": 1.0}
FRAME = {"id": "1", "op": "split.plan", "seed": 7}


def test_plan() -> None:
    assert plan_json(ASK | FRAME | {"max_overlays": 2}) == PLAN
    dear = ASK | {"max_overlays": 1, "encrypt_cost": {"a": 2, "b": 0.5}}
    assert plan_json(dear) == {"overlays": [["a"]], "encrypted": ["b", "c"], "optimal": True}
    assert plan_json(dear | {"encrypt_cost": None})["optimal"] is True


def test_roundtrip() -> None:
    def deliver(*numbers: int) -> dict[str, object]:
        asked = FRAME | {"plan": PLAN, "publication": VALUES, "deliver": list(numbers)}
        return roundtrip_json(asked, random=SeededRandom(b"roundtrip"))

    whole = deliver(1, 0, 1)
    assert whole == {"publication": VALUES}
    assert {name: type(value) for name, value in whole["publication"].items()} == {  # type: ignore[attr-defined]
        "a": float,
        "b": str,
        "c": int,
    }
    assert deliver(0, 0) == {"publication": None, "missing": [1]}
    assert deliver() == {"publication": None, "missing": [0, 1]}


def test_learns() -> None:
    def known(*overlays: int) -> object:
        return learns_json({"plan": PLAN, "publication": VALUES, "colluding": list(overlays)})

    assert known(0) == {"known": {"a": 1.0}}
    assert known(1, 0) == {"known": {"a": 1.0, "b": "x"}}
    assert known() == {"known": {}}
    only = {"plan": {"overlays": []}, "publication": {}, "colluding": [0]}
    assert learns_json(only) == {"known": {}}


@pytest.mark.parametrize(
    ("change", "kind", "where"),
    [
        ({"attributes": None}, "invalid", "attributes"),
        ({"attributes": "abc"}, "invalid", "attributes"),
        ({"attributes": [1]}, "invalid", "attributes"),
        ({"attributes": ["\ud800"]}, "invalid", "attributes"),
        ({"attributes": ["a"] * 300}, "too-large", "attributes"),
        ({"risky": {}}, "invalid", "risky"),
        ({"risky": ["ab"]}, "invalid", "risky"),
        ({"risky": [["a"]] * 10_001}, "too-large", "risky"),
        ({"risky": [["d"]]}, "unknown", "risky"),
        ({"colluding": True}, "invalid", "colluding"),
        ({"colluding": 1.0}, "invalid", "colluding"),
        ({"max_overlays": "2"}, "invalid", "max_overlays"),
        ({"encrypt_cost": []}, "invalid", "encrypt_cost"),
        ({"encrypt_cost": {"a": True}}, "invalid", "encrypt_cost"),
        ({"encrypt_cost": {"a": "1"}}, "invalid", "encrypt_cost"),
        ({"max_overlay": 1}, "unknown", "max_overlay"),
    ],
)
def test_wrong_questions(change: dict[str, Any], kind: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_json(ASK | {"max_overlays": 2} | change)
    assert (caught.value.kind, caught.value.where) == (kind, where)


@pytest.mark.parametrize(
    ("change", "kind", "where"),
    [
        ({"plan": []}, "invalid", "plan"),
        ({"plan": {}}, "invalid", "overlays"),
        ({"plan": {"overlays": {}}}, "invalid", "overlays"),
        ({"plan": {"overlays": [[]] * 257}}, "too-large", "overlays"),
        ({"plan": PLAN | {"optimal": 1}}, "invalid", "optimal"),
        ({"plan": PLAN | {"encryptd": []}}, "unknown", "encryptd"),
        ({"plan": PLAN | {"encrypted": ["a"]}}, "invalid", "a"),
        ({"publication": []}, "invalid", "publication"),
        ({"publication": {"d": 1}}, "unknown", "d"),
        ({"publication": {"a": None}}, "invalid", "a"),
        ({"publication": {"c": float("nan")}}, "invalid", None),
        ({"publication": {"a": float("nan")}}, "invalid", None),
        ({"deliver": 0}, "invalid", "deliver"),
        ({"deliver": [2]}, "invalid", "deliver"),
        ({"deliver": [False]}, "invalid", "deliver"),
        ({"colluding": [0]}, "unknown", "colluding"),
    ],
)
def test_wrong_deliveries(change: dict[str, Any], kind: str, where: str | None) -> None:
    with pytest.raises(InputError) as caught:
        roundtrip_json({"plan": PLAN, "publication": VALUES, "deliver": [0, 1]} | change)
    assert (caught.value.kind, caught.value.where) == (kind, where)


def test_a_field_that_is_missing() -> None:
    with pytest.raises(InputError) as caught:
        learns_json({"plan": PLAN, "publication": VALUES})
    assert (caught.value.kind, caught.value.where) == ("invalid", "colluding")
    with pytest.raises(InputError) as caught:
        learns_json({"plan": PLAN, "publication": VALUES, "colluding": [2]})
    assert (caught.value.kind, caught.value.where) == ("invalid", "colluding")
