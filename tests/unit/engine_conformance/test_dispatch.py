"""From a line to an answer, whatever the line holds."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import pytest

from policyengine.conformance import OPERATIONS, Responder
from policyengine.errors import DecodeError, DecryptionError, GateError
from tests.unit.engine_conformance import hostile
from tests.unit.engine_conformance.samples import ATTRIBUTES, SAMPLES, VALUES

KINDS = {"syntax", "type", "unknown", "too-large", "invalid", "unsupported"}
GOOD: dict[str, Any] = {"id": "1", "op": "evaluate", **SAMPLES["evaluate"][0]}


def answer(question: object) -> dict[str, Any]:
    """Answer one question; the last line of defence must not be what answers."""
    responder = Responder()
    found = responder.answer(json.dumps(question).encode())
    assert responder.unexpected == 0
    assert b"\n" not in found
    parsed: dict[str, Any] = json.loads(found.decode("ascii"))
    return parsed


def error(question: object) -> tuple[str, str]:
    found = answer(question)
    assert set(found) == {"id", "ok", "error"}
    assert found["ok"] is False
    assert set(found["error"]) == {"kind", "message", "at"}
    return found["error"]["kind"], found["error"]["message"]


def test_a_good_line() -> None:
    assert answer(GOOD) == {"id": "1", "ok": True, "result": {"value": True}}


@pytest.mark.parametrize("id_", ["", "\ud800", None, False, 5, 1.5, [1], {"a": None}])
def test_an_id_comes_back_as_it_came(id_: object) -> None:
    assert answer({**GOOD, "id": id_})["id"] == id_
    assert answer({"id": id_})["id"] == id_


def test_a_line_that_is_no_request() -> None:
    found = json.loads(Responder().answer(b"[]"))
    assert found["id"] is None
    assert found["error"]["kind"] == "invalid"
    assert json.loads(Responder().answer(None))["error"]["kind"] == "too-large"


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"op": "evalute"}, "unknown", "perhaps `evaluate`"),
        ({"op": "xxxxxxxx"}, "unknown", "no operation"),
        ({"op": ["evaluate"]}, "type", "`op` is no text"),
        ({"op": None}, "type", "`op`"),
        ({"extra": 1}, "invalid", "`extra` is no field"),
        ({"valuse": {}}, "invalid", "perhaps `values`"),
        ({"attributes": []}, "type", "`attributes` is a list; expected an object"),
        ({"attributes": None}, "type", "`attributes` is null"),
        ({"attributes": {"a b": {"type": "int"}}}, "invalid", "`a b`"),
        ({"attributes": {"in": {"type": "int"}}}, "invalid", "`in`"),
        ({"attributes": {"a": 5}}, "invalid", "`a`"),
        ({"attributes": {"a": {"type": "integer"}}}, "unknown", "integer"),
        ({"attributes": {"a": {"type": "int", "max": "5"}}}, "invalid", "`5` is no number"),
        ({"attributes": {"a": {"type": "int", "maximum": 5}}}, "unknown", "maximum"),
        ({"expression": 5}, "type", "`expression` is a whole number; expected text"),
        ({"expression": True}, "type", "`true` or `false`"),
        ({"expression": "zome == 1"}, "unknown", "`zome`"),
        ({"expression": "zone =="}, "syntax", "unexpected end"),
        ({"values": "zone"}, "type", "`values` is text"),
        ({"values": {"zone": None}}, "invalid", "`zone`"),
        ({"values": {"level": 1024}}, "invalid", "at most 1023"),
        ({"values": {"level": True}}, "invalid", "`level`"),
        ({"values": {"unit": "c"}}, "invalid", "`unit`"),
        ({"values": {"t": 0.3}}, "invalid", "steps of 0.5"),
        ({"values": {"free": 10**100}}, "unknown", "`free`"),
        ({"seed": []}, "type", "`seed`"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], kind: str, words: str) -> None:
    op = "anonset.match" if "seed" in change else "evaluate"
    found, message = error({"id": "1", "op": op, **SAMPLES[op][0], **change})
    assert found == kind
    assert words in message


@pytest.mark.parametrize("op", sorted(OPERATIONS))
def test_every_field_is_asked_for(op: str) -> None:
    kind, message = error({"id": "1", "op": op})
    assert (kind, message) == ("invalid", f"the field `{OPERATIONS[op].required[0]}` is missing")
    assert op in SAMPLES


@dataclass(frozen=True)
class Broken:
    """An operation that fails."""

    problem: BaseException
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def handler(self) -> Any:
        def fail(_fields: object) -> None:
            raise self.problem

        return fail


@pytest.mark.parametrize(
    ("problem", "kind", "unexpected"),
    [
        (DecodeError("bytes"), "invalid", 0),
        (DecryptionError("it does not open"), "invalid", 0),
        (GateError(("no",)), "invalid", 0),
        (MemoryError(), "too-large", 1),
        (RecursionError(), "too-large", 1),
        (ZeroDivisionError("secret"), "invalid", 1),
    ],
)
def test_whatever_fails_is_answered(problem: BaseException, kind: str, unexpected: int) -> None:
    responder = Responder({"broken": Broken(problem)})  # type: ignore[dict-item]
    found = json.loads(responder.answer(b'{"id": 5, "op": "broken"}'))
    assert (found["id"], found["ok"], found["error"]["kind"]) == (5, False, kind)
    assert "secret" not in found["error"]["message"]
    assert responder.unexpected == unexpected


@pytest.mark.parametrize("op", sorted(SAMPLES))
def test_the_last_line_of_defence_has_nothing_to_do(op: str) -> None:
    rng = random.Random(op)
    responder = Responder()
    for number in range(25):
        question = hostile.spoiled(rng, {"op": op, **rng.choice(SAMPLES[op])})
        line = json.dumps({"id": number, **question}).encode()
        found = json.loads(responder.answer(line))
        assert responder.unexpected == 0, line
        assert found["id"] == number
        assert found["ok"] or found["error"]["kind"] in KINDS


def test_the_samples_are_good() -> None:
    for op, questions in SAMPLES.items():
        for question in questions:
            assert answer({"id": "1", "op": op, **question})["ok"], (op, question)


def test_nothing_of_a_line_stays_for_the_next() -> None:
    responder = Responder()
    for _ in range(2):
        assert json.loads(responder.answer(json.dumps(GOOD).encode()))["ok"]
        assert not json.loads(responder.answer(b"{"))["ok"]
    assert set(VALUES) == set(ATTRIBUTES)
