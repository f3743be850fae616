"""The command against an evaluator that knows nothing of the engine."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.conformance import Responder
from tests.unit.engine_conformance import hostile, naive
from tests.unit.engine_conformance.samples import SAMPLES

REFUSED = {"granted": False, "conjunction": None, "matched": []}
CHANCE = st.randoms(use_true_random=False)


def ask(op: str, **fields: Any) -> Any:
    """Return the result of one question, which must be a good one."""
    responder = Responder()
    found = json.loads(responder.answer(json.dumps({"id": 0, "op": op, **fields}).encode()))
    assert found["ok"], found
    return found["result"]


def case(rng: random.Random, depth: int = 3) -> tuple[dict[str, Any], tuple[Any, ...], str]:
    """Return a declaration, an expression and its text."""
    names = rng.sample(sorted(naive.SCHEMA), rng.randint(1, 5))
    schema = {name: naive.SCHEMA[name] for name in names}
    node = naive.make(rng, schema, rng.randint(0, depth))
    return schema, node, naive.write(rng, node)


@given(CHANCE)
@settings(max_examples=150, deadline=None)
def test_evaluate(rng: random.Random) -> None:
    schema, node, text = case(rng, depth=5)
    given_values = naive.values(rng, schema)
    found = ask("evaluate", attributes=schema, expression=text, values=given_values)
    assert found == {"value": naive.holds(node, given_values)}, (text, given_values)


@given(CHANCE)
@settings(max_examples=100, deadline=None)
def test_the_normal_form_says_the_same(rng: random.Random) -> None:
    schema, node, text = case(rng)
    dnf = ask("normalise", attributes=schema, expression=text)["dnf"]
    for state in naive.states(node, schema, rng):
        holds = naive.first_conjunction(dnf, state) is not None
        assert holds == naive.holds(node, state), (text, state)


@given(CHANCE, st.sampled_from(["bloom", "tokens"]))
@settings(max_examples=100, deadline=None)
def test_anonymous_sets_grant_what_the_policy_says(rng: random.Random, encoding: str) -> None:
    schema, node, text = case(rng)
    subject = [naive.values(rng, schema) for _ in range(rng.randint(0, 3))]
    dnf = ask("normalise", attributes=schema, expression=text)["dnf"]
    expected = REFUSED
    for number, held in enumerate(subject):
        if naive.holds(node, held):
            matched = {entry["attribute"] for entry in naive.first_conjunction(dnf, held)}
            expected = {"granted": True, "conjunction": number, "matched": sorted(matched)}
            break
    found = ask("anonset.match", encoding=encoding, attributes=schema, policy=text, subject=subject)
    assert found == expected, (text, subject)


ENCRYPTED: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    "sde.match": ("filter", "event", [{"group": "curve"}]),
    "kpabe.open": ("filter", "event", [{"mode": "hash"}, {"mode": "polynomial"}]),
    "cpabe.open": ("policy", "subject", [{}]),
}


@pytest.mark.parametrize("op", sorted(ENCRYPTED))
@given(CHANCE)
@settings(max_examples=15, deadline=None)
def test_encryption_changes_no_meaning(op: str, rng: random.Random) -> None:
    asked, held, variants = ENCRYPTED[op]
    variant = rng.choice(variants)
    schema, node, text = case(rng, depth=2)
    state = naive.values(rng, schema)
    question = {"attributes": schema, asked: text, held: state, **variant}
    if op != "sde.match":
        question["payload"] = "geheim é"
    found = json.loads(Responder().answer(json.dumps({"id": 0, "op": op, **question}).encode()))
    if not found["ok"]:
        assert found["error"]["kind"] == "unsupported"
        assert op == "cpabe.open" or variant == {"mode": "polynomial"}
        assert naive.negates_open_text(node, schema)
        return
    holds = naive.holds(node, state)
    opened = {"opened": True, "payload": "geheim é"} if holds else {"opened": False}
    assert found["result"] == ({"matched": holds} if op == "sde.match" else opened), text


@given(CHANCE, st.sampled_from(["sbm1", "sbm2", "plain"]))
@settings(max_examples=40, deadline=None)
def test_order_preserving_codes_change_no_meaning(rng: random.Random, scheme: str) -> None:
    names = rng.sample(sorted(naive.SCHEMA), rng.randint(1, 4))
    schema = {name: naive.SCHEMA[name] for name in names}
    asked = {
        f"s{number}": [naive.make(rng, schema, 0) for _ in range(rng.randint(1, 3))]
        for number in range(rng.randint(0, 12))
    }
    texts = {
        name: " && ".join(naive.write(rng, test) for test in tests) for name, tests in asked.items()
    }
    events = [naive.values(rng, schema) for _ in range(3)]
    fields = {"attributes": schema, "subscriptions": texts, "events": events}
    assert ask("ope.match", scheme=scheme, **fields) == {
        "matches": [
            sorted(name for name, tests in asked.items() if naive.holds(("and", tests), event))
            for event in events
        ]
    }


@given(CHANCE, st.integers(8, 300), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_small_filters_never_refuse_by_mistake(rng: random.Random, m: int, k: int) -> None:
    schema, node, text = case(rng)
    subject = [naive.values(rng, schema) for _ in range(2)]
    sizes = {"m": m, "k": k}
    fields = {"attributes": schema, "policy": text, "subject": subject, **sizes}
    found = ask("anonset.match", encoding="bloom", **fields)
    holds = [number for number, held in enumerate(subject) if naive.holds(node, held)]
    if holds:
        assert found["granted"]
        assert found["conjunction"] <= holds[0]
    assert set(found["matched"]) <= set(schema)


@given(CHANCE)
@settings(max_examples=60, deadline=None)
def test_bundles_are_applied_by_the_rules(rng: random.Random) -> None:
    steps: list[dict[str, Any]] = []
    expected: list[tuple[str | None, int]] = []
    held = 0
    for _ in range(rng.randint(1, 6)):
        agent, previous = rng.choice(["a", "a", "a", "b"]), rng.choice(["right", "right", "wrong"])
        revision, expires, at = rng.randint(1, 6), rng.randint(5, 9), rng.choice([4, 5, 6.5, 9])
        mutate = rng.choice([None, None, None, "strip_signature", "foreign_key", "truncate"])
        reason = (
            "malformed" if mutate == "truncate"
            else "audience" if agent == "b"
            else "signature" if mutate
            else "replay" if revision == held
            else "rollback" if revision < held
            else "expired" if expires <= at
            else "previous" if previous == "wrong"
            else None
        )  # fmt: skip
        held = held if reason else revision
        bundle = {"agent": agent, "revision": revision, "expires": expires, "previous": previous}
        steps.append({"at": at, "bundle": bundle, "mutate": mutate})
        expected.append((reason, held))
    found = ask("bundle.apply", agent="a", steps=steps)["steps"]
    assert [(came["reason"], came["revision"]) for came in found] == expected


@given(st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-8", "replace")))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_answered(line: bytes) -> None:
    responder = Responder()
    found = json.loads(responder.answer(line.replace(b"\n", b"")).decode("ascii"))
    assert set(found) == {"id", "ok", "error"}
    assert responder.unexpected == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(CHANCE, JSON)
@settings(max_examples=150, deadline=None)
def test_any_field_may_hold_anything(rng: random.Random, odd: Any) -> None:
    op = rng.choice(sorted(SAMPLES))
    question = {"id": 0, "op": op, **rng.choice(SAMPLES[op])}
    *above, last = rng.choice([path for path in hostile.places(question) if path[0] != "id"])
    question = json.loads(json.dumps(question))
    holder: Any = question
    for key in above:
        holder = holder[key]
    holder[last] = odd
    responder = Responder()
    found = json.loads(responder.answer(json.dumps(question).encode()).decode("ascii"))
    assert responder.unexpected == 0, question
    assert found["id"] in (0, None)
