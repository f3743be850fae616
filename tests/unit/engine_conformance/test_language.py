"""What the two plain operations answer, at their limits too."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from policyengine.conformance import Responder
from tests.unit.engine_conformance.samples import ATTRIBUTES

MANY = {f"b{number}": {"type": "bool"} for number in range(32)}


def ask(op: str, expression: str, attributes: Any = ATTRIBUTES, **fields: Any) -> Any:
    question = {"id": 1, "op": op, "attributes": attributes, "expression": expression, **fields}
    responder = Responder()
    found = json.loads(responder.answer(json.dumps(question).encode()))
    assert responder.unexpected == 0
    return found["result"] if found["ok"] else (found["error"]["kind"], found["error"]["at"])


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        ("level != 1", {}, False),
        ("!(level == 1)", {}, True),
        ("on", {"on": True}, True),
        ("on", {"on": False}, False),
        ("has(on)", {"on": False}, True),
        ("level == 5000 || level < -3", {"level": 5}, False),
        ("level < 5000", {"level": 5}, True),
        ("t == 0.3", {"t": 0.5}, False),
        ("t == 1", {"t": 1}, True),
        ("atLeast(1, [on])", {}, False),
        ("level in []", {"level": 1}, False),
    ],
)
def test_meaning(expression: str, values: Any, expected: bool) -> None:
    assert ask("evaluate", expression, values=values) == {"value": expected}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('zone < "x"', ("type", 0)),
        ('unit >= "a"', ("type", 0)),
        ("on > true", ("type", 0)),
        ("atLeast(0, [on])", ("invalid", 8)),
        ("atLeast(2, [on])", ("invalid", 8)),
        ('unit == "c"', ("unknown", 8)),
        ('on && unit in ["a", "c"]', ("unknown", 20)),
        ('!(unit != "c")', ("unknown", 10)),
        ("nothing", ("unknown", 0)),
        ("zone == 1", ("type", 8)),
        ("level == zone", ("unsupported", 9)),
        ("level", ("type", 0)),
        ("on &&", ("syntax", 5)),
        ("é", ("syntax", 0)),
        ("(" * 65 + "on" + ")" * 65, ("too-large", 65)),
        ("level == " + "9" * 101, ("too-large", 9)),
    ],
)
def test_errors_point_at_the_place(expression: str, expected: tuple[str, int]) -> None:
    assert ask("evaluate", expression, values={}) == expected
    assert ask("normalise", expression) == expected


@pytest.mark.parametrize(("expression", "dnf"), [("false", []), ("true", [[]])])
def test_never_and_always(expression: str, dnf: list[Any]) -> None:
    assert ask("normalise", expression) == {"dnf": dnf}
    assert ask("normalise", f"on && !on || {expression}") == {"dnf": dnf}


def test_what_must_be_handled_before_anything_is_too_large() -> None:
    conjunctions = [
        " && ".join(
            f"b{(number + at) % 32} == {value}"
            for at, value in enumerate(("true", "false", "true", "false"))
        )
        for number in range(32)
    ] + [f"b{number} && b{(number + 7) % 32} && has(b1) && b2" for number in range(32)]
    text = " || ".join(conjunctions)
    found = ask("normalise", text, MANY)
    assert 0 < len(found["dnf"]) <= 64
    assert ask("evaluate", text, MANY, values={}) == {"value": False}
    every = " && ".join(f"({name} || !{name})" for name in list(MANY)[:6])
    assert len(ask("normalise", every, MANY)["dnf"]) <= 3**6
    one_of = " || ".join(f"level == {number}" for number in range(256))
    assert len(ask("normalise", one_of)["dnf"]) == 256
    assert ask("normalise", f"!({one_of})")["dnf"][1][0] == {
        "attribute": "level", "op": "!=", "value": 0,
    }  # fmt: skip
    assert ask("normalise", "(" * 64 + "on" + ")" * 64)["dnf"]
    assert ask("normalise", "atLeast(16, [" + ", ".join(MANY) + "])", MANY) == ("too-large", None)


@pytest.mark.parametrize(
    "expression",
    [
        'zone == "' + "\\" * 131_000,
        "zone == " + '"\\' * 65_000,
        '"\\' * 65_000,
        "'\"" * 65_000,
        "x" * 10_000_000,
        "on && " * 20_000 + "on",
    ],
)
def test_hostile_text_is_refused_quickly(expression: str) -> None:
    started = time.perf_counter()
    assert ask("evaluate", expression, values={})[0] in ("syntax", "too-large")
    assert time.perf_counter() - started < 10


def test_messages_stay_short_beside_huge_declarations() -> None:
    attributes = {"e": {"type": "enum", "values": [f"v{number}" for number in range(50_000)]}}
    responder = Responder()
    for expression, values in (
        ("e == 5", {}),
        ('e == "x"', {}),
        ("f", {}),
        ('e == "v1"', {"e": 1}),
    ):
        question = {
            "id": 1, "op": "evaluate", "attributes": attributes, "expression": expression,
            "values": values,
        }  # fmt: skip
        assert len(responder.answer(json.dumps(question).encode())) < 500
