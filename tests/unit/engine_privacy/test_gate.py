"""The gate: what each class asks of a protection, and what a written acceptance changes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from policyengine.attributes import AttributeType
from policyengine.errors import DecodeError, GateError, InputError
from policyengine.events import AttributeSpec
from policyengine.primitives import dumps, loads
from policyengine.privacy import (
    CLASSES,
    KINDS,
    PROFILES,
    Protection,
    RiskAcceptance,
    check_protection,
    gate,
    preset,
)

NOW = 1_000.0
ACCEPTED = RiskAcceptance(
    "Visit.name", "identifying", "order-preserving", "dana", "a pilot of two weeks", 2_000
)


def check(pia: str, kind: Any, *, sealed: bool = False, **given: Any) -> tuple[str, ...]:
    asked = {"has_keys": False, "overlays": (), "now": NOW} | given
    return check_protection("Visit.name", pia, Protection(kind, sealed), **asked)


def refusal(pia: str, kind: Any, **given: Any) -> tuple[str, ...]:
    with pytest.raises(GateError) as caught:
        check(pia, kind, **given)
    return caught.value.reasons


# The whole table: class, kind, sealed, keys, several overlays -> refused, pointed out.
def expected(pia: str, kind: str, sealed: bool, keys: bool, several: bool) -> tuple[bool, bool]:
    sensitive = pia in ("identifying", "confidential")
    if kind == "clear":
        return sensitive or (pia == "quasi-identifying" and several), False
    if kind == "attribute key":
        return not keys, False
    uncarried = pia != "non-confidential" and not sealed and not keys
    if kind == "searchable":
        return uncarried, False
    return uncarried or sensitive, pia == "quasi-identifying"


@pytest.mark.parametrize("pia", CLASSES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_table(pia: str, kind: Any) -> None:
    for sealed, keys, several in itertools.product((False, True), repeat=3):
        if kind == "clear" and sealed:
            continue
        refused, noted = expected(pia, kind, sealed, keys, several)
        overlays = ["north", "south"] if several else ["north", "north"]
        given = {"sealed": sealed, "has_keys": keys, "overlays": overlays}
        if refused:
            assert all(reason == reason.strip() for reason in refusal(pia, kind, **given))
        else:
            assert bool(check(pia, kind, **given)) == noted


def test_reasons_are_plain() -> None:
    assert refusal("identifying", "clear") == (
        (
            "an identifying attribute must be encrypted under an attribute key, or searchable and"
            " sealed"
        ),
    )
    assert refusal("quasi-identifying", "clear", overlays=["south", "north"]) == (
        (
            "a quasi-identifying attribute may travel in clear on one overlay, not on `north` and"
            " `south`"
        ),
    )
    assert refusal("confidential", "searchable") == (
        (
            "a searchable ciphertext is only matched on; the value of a confidential attribute must"
            " travel beside it sealed or under a key"
        ),
    )
    assert refusal("confidential", "attribute key") == (
        "the attribute names no attribute key to be encrypted under",
    )
    both = refusal("confidential", "order-preserving")
    assert len(both) == 2
    assert both[0].startswith("an order-preserving ciphertext is only matched on")
    assert "its rank in the order is its plaintext" in both[1]
    assert "in writing" in both[1]


def test_an_acceptance_of_risk_lets_order_through_until_it_expires() -> None:
    def ordered(now: float, *acceptances: RiskAcceptance) -> tuple[str, ...]:
        return check(
            "identifying", "order-preserving", sealed=True, now=now, acceptances=acceptances
        )

    (note,) = ordered(1_999.9, ACCEPTED)
    assert note.startswith("`dana` accepts the risk: `a pilot of two weeks`; until then")
    with pytest.raises(GateError, match="the acceptance of `dana` has expired"):
        ordered(2_000, ACCEPTED)
    longer = RiskAcceptance("Visit.name", "identifying", "order-preserving", "eve", "x", 3_000)
    assert ordered(2_000, ACCEPTED, longer)[0].startswith("`eve`")
    assert ordered(NOW, longer, ACCEPTED)[0].startswith("`eve`")


@pytest.mark.parametrize(
    ("field", "value"),
    [("attribute", "Visit.age"), ("pia", "confidential"), ("kind", "clear")],
)
def test_an_acceptance_of_another_thing_changes_nothing(field: str, value: str) -> None:
    other = RiskAcceptance.from_json(ACCEPTED.to_json() | {field: value})
    reasons = refusal("identifying", "order-preserving", sealed=True, acceptances=[other])
    assert "expired" not in reasons[0]


def test_no_acceptance_makes_up_for_a_value_in_clear() -> None:
    for kind in ("clear", "searchable", "attribute key"):
        accepted = RiskAcceptance.from_json(ACCEPTED.to_json() | {"kind": kind})
        assert refusal("identifying", kind, acceptances=[accepted])
    uncarried = refusal("identifying", "order-preserving", acceptances=[ACCEPTED])
    assert len(uncarried) == 1
    assert "only matched on" in uncarried[0]


def test_a_class_or_kind_that_does_not_exist() -> None:
    for call in (lambda: check("identifing", "clear"), lambda: check("identifying", "claer")):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.kind == "unknown"
        assert caught.value.suggestion in ("identifying", "clear")
    with pytest.raises(InputError) as caught:
        Protection("clear", sealed=True)
    assert (caught.value.kind, caught.value.where) == ("invalid", "sealed")


def test_the_gate_of_attribute_keys_is_the_same_gate() -> None:
    for pia, keys, several in itertools.product(CLASSES, (False, True), (False, True)):
        overlays = ["a", "b"] if several else ["a"]
        kind = "attribute key" if keys else "clear"
        refused, _ = expected(pia, kind, False, keys, several)
        if refused:
            with pytest.raises(GateError):
                gate(pia, has_keys=keys, overlays=overlays)
            assert refusal(pia, kind, has_keys=keys, overlays=overlays)
        else:
            gate(pia, has_keys=keys, overlays=overlays)


def test_protections_and_acceptances_are_read_strictly() -> None:
    protection = Protection("searchable", sealed=True)
    assert Protection.from_json(loads(dumps(protection.to_json()))) == protection
    assert RiskAcceptance.from_json(loads(dumps(ACCEPTED.to_json()))) == ACCEPTED
    good = protection.to_json()
    for bad in (None, {}, good | {"x": 1}, good | {"kind": 1}, good | {"sealed": 1}):
        with pytest.raises(DecodeError):
            Protection.from_json(bad)
    with pytest.raises(DecodeError):
        Protection.from_json({"kind": "clear", "sealed": True})
    good = ACCEPTED.to_json()
    for bad in (None, {}, good | {"x": 1}, good | {"until": True}, good | {"until": 1.5}):
        with pytest.raises(DecodeError):
            RiskAcceptance.from_json(bad)
    for field, value in [
        ("who", None),
        ("who", " "),
        ("why", ""),
        ("why", "x" * 10_001),
        ("who", "x" * 401),
        ("attribute", ""),
        ("until", -1),
        ("pia", "secret"),
        ("kind", "none"),
    ]:
        with pytest.raises(DecodeError):
            RiskAcceptance.from_json(good | {field: value})


TYPES = {
    "string": AttributeType("string"),
    "int": AttributeType("int", 0, 9),
    "float": AttributeType("float"),
    "enum": AttributeType("enum", values=("a", "b")),
    "bool": AttributeType("bool"),
}
EVERY = [
    AttributeSpec(f"a{number}", TYPES[kind], keys, pia)
    for number, (kind, keys, pia) in enumerate(itertools.product(TYPES, ((), ("police",)), CLASSES))
]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("several", [False, True])
def test_every_profile_passes_the_gate(profile: str, several: bool) -> None:
    travels = {spec.name: ("north", "south") if several else ("north",) for spec in EVERY}
    made = preset(profile, EVERY, overlays=travels)
    assert list(made) == [spec.name for spec in EVERY]
    for spec in EVERY:
        check_protection(
            spec.name,
            spec.pia,
            made[spec.name],
            has_keys=bool(spec.keys),
            overlays=travels[spec.name],
            now=NOW,
        )


@pytest.mark.parametrize(
    ("profile", "expected"),
    [  # identifying with a key, quasi without, quasi number with a key, public, public truth value
        ("open", ["attribute key", "clear", "clear", "clear", "clear"]),
        ("trusted brokers", ["attribute key", "clear", "attribute key", "clear", "clear"]),
        ("blind brokers", ["searchable+"] * 5),
        (
            "blind ranges",
            [
                "searchable+",
                "order-preserving+",
                "order-preserving+",
                "order-preserving+",
                "searchable+",
            ],
        ),
        ("split", ["searchable+", "clear", "clear", "clear", "clear"]),
    ],
)
def test_profiles_preset_by_class(profile: str, expected: list[str]) -> None:
    specs = [
        AttributeSpec("name", TYPES["string"], ("k",), "identifying"),
        AttributeSpec("town", TYPES["string"], (), "quasi-identifying"),
        AttributeSpec("age", TYPES["int"], ("k",), "quasi-identifying"),
        AttributeSpec("beach", TYPES["string"]),
        AttributeSpec("open", TYPES["bool"]),
    ]
    made = preset(profile, specs).values()
    assert [one.kind + "+" * one.sealed for one in made] == expected
    hidden = preset(profile, specs, encrypted=["town"])["town"]
    assert hidden == Protection("searchable", sealed=True)


def test_a_profile_that_does_not_exist() -> None:
    with pytest.raises(InputError) as caught:
        preset("blind broker", EVERY)
    assert (caught.value.kind, caught.value.suggestion) == ("unknown", "blind brokers")
    with pytest.raises(InputError):
        preset("open", [AttributeSpec("a", TYPES["int"], (), "secret")])
