"""Bundles on their way to an agent, whole and damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from policyengine.conformance import Responder


def step(revision: int = 1, at: float = 10, mutate: Any = None, **bundle: Any) -> dict[str, Any]:
    members = {"agent": "alpha", "revision": revision, "expires": 100, "previous": "right"}
    return {"at": at, "bundle": {**members, **bundle}, "mutate": mutate}


def ask(*steps: Any, agent: Any = "alpha", **fields: Any) -> Any:
    question = {"id": 1, "op": "bundle.apply", "agent": agent, "steps": list(steps), **fields}
    responder = Responder()
    found = json.loads(responder.answer(json.dumps(question).encode()))
    assert responder.unexpected == 0
    return found["result"]["steps"] if found["ok"] else found["error"]["kind"]


def reasons(*steps: Any) -> list[Any]:
    found = ask(*steps)
    assert all(came["accepted"] == (came["reason"] is None) for came in found)
    return [(came["reason"], came["revision"]) for came in found]


def test_revisions_go_on_and_never_back() -> None:
    assert reasons(
        step(3), step(3), step(2), step(4), step(9), step(9, previous="wrong"), step(8), step(10)
    ) == [
        (None, 3), ("replay", 3), ("rollback", 3), (None, 4), (None, 9), ("replay", 9),
        ("rollback", 9), (None, 10),
    ]  # fmt: skip


def test_expiry() -> None:
    assert reasons(
        step(1, at=100), step(1, at=101), step(1, at=99.9), step(2, at=100), step(1, at=500)
    ) == [("expired", 0), ("expired", 0), (None, 1), ("expired", 1), ("replay", 1)]
    assert reasons(step(1, at=-5), step(2, at=10**30, expires=2**63 - 1)) == [
        (None, 1), ("expired", 1),
    ]  # fmt: skip


def test_others_bundles_and_other_predecessors() -> None:
    assert reasons(
        step(1, agent="beta"), step(1, previous="wrong"), step(1), step(2, previous="wrong"),
        step(2, agent="alpha2"), step(2, at=100, previous="wrong"),
    ) == [
        ("audience", 0), ("previous", 0), (None, 1), ("previous", 1), ("audience", 1),
        ("expired", 1),
    ]  # fmt: skip


def test_damage() -> None:
    assert reasons(
        step(1, mutate="strip_signature"), step(1, mutate="foreign_key"),
        step(1, mutate="truncate"), step(1, agent="beta", mutate="foreign_key"),
        step(1, agent="beta", mutate="truncate"), step(1, previous="wrong", mutate="foreign_key"),
        step(1), step(1, mutate="strip_signature"),
    ) == [
        ("signature", 0), ("signature", 0), ("malformed", 0), ("audience", 0), ("malformed", 0),
        ("signature", 0), (None, 1), ("signature", 1),
    ]  # fmt: skip


def test_no_flipped_bit_passes() -> None:
    flipped = [step(1, mutate={"flip_bit": bit}) for bit in range(0, 12_000, 7)]
    found = ask(*flipped, step(1))
    assert found.pop() == {"accepted": True, "reason": None, "revision": 1}
    assert {(came["accepted"], came["revision"]) for came in found} == {(False, 0)}
    assert {came["reason"] for came in found} == {"malformed", "audience"}


def test_bits_are_counted_round_and_round() -> None:
    odd = [-1, 10**30, 2**64, -(10**50), 0]
    found = reasons(*(step(1, mutate={"flip_bit": bit}) for bit in odd))
    assert all(reason in ("malformed", "audience") for reason, _ in found)


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        (step(0), "invalid"),
        (step(2**63), "invalid"),
        (step(1, expires=-1), "invalid"),
        (step(1, agent="Alpha"), "invalid"),
        (step(1, agent=""), "invalid"),
        (step(1, agent=1), "type"),
        (step("1"), "type"),  # type: ignore[arg-type]
        (step(1.0), "type"),  # type: ignore[arg-type]
        (step(True), "type"),
        (step(1, at="1"), "type"),  # type: ignore[arg-type]
        (step(1, at=False), "type"),
        (step(1, previous="left"), "unknown"),
        (step(1, previous=None), "type"),
        (step(1, extra=1), "invalid"),
        (step(1, mutate="flip"), "unknown"),
        (step(1, mutate=5), "type"),
        (step(1, mutate=["truncate"]), "type"),
        (step(1, mutate={}), "invalid"),
        (step(1, mutate={"flip_bit": 1.5}), "type"),
        (step(1, mutate={"flip_bit": 1, "more": 1}), "invalid"),
        ({"at": 1}, "invalid"),
        ({"at": 1, "bundle": None}, "type"),
        (None, "type"),
        (5, "type"),
    ],
)
def test_steps_that_cannot_be(changed: Any, kind: str) -> None:
    assert ask(changed) == kind
    assert ask(step(1), changed) == kind


def test_no_steps_and_no_agent() -> None:
    assert ask() == []
    assert ask(agent="Alpha") == "invalid"
    assert ask(agent=None) == "type"
    assert ask({"at": 1, "bundle": step(1)["bundle"]}, seed="s") == [
        {"accepted": True, "reason": None, "revision": 1}
    ]
