"""Restriction never adds: no value, no type below, no key."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.attributes import AttributeType, evaluate
from policyengine.events import AttributePolicy, AttributeRule, ValuePolicy, protect
from policyengine.primitives import SeededRandom
from tests.unit.engine_events.city_types import city

TYPES = city()
POLICE = ["PoliceEvent", "BurglaryEvent", "SilentAlarm"]
ROLES = ["a", "b", "c"]
SUBJECT = {"subject.location": AttributeType("string")}
CONDITIONS = ["severity < 5", "location == subject.location", "has(zone)", "true", "false"]
ALL = ["location", "severity", "zone", "isDrill", "premises", "polCode"]
VALUES: dict[str, list[Any]] = {
    "location": ["West", "East"], "severity": [1, 7], "zone": ["z"], "isDrill": [True],
    "premises": ["p"], "polCode": [1, 9],
}  # fmt: skip


@st.composite
def events(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    name = draw(st.sampled_from(POLICE))
    own = {spec.name: st.sampled_from(VALUES[spec.name]) for spec in TYPES.attributes(name)}
    return name, draw(st.fixed_dictionaries({}, optional=own))


def entries() -> st.SearchStrategy[dict[str, dict[str, list[str]]]]:
    listed = st.lists(st.sampled_from(ALL), unique=True)
    of_role = st.dictionaries(st.sampled_from(POLICE[:2]), listed, max_size=2)
    return st.dictionaries(st.sampled_from(ROLES), of_role, max_size=2)


@st.composite
def rules(draw: st.DrawFn) -> AttributeRule:
    direction: Any = draw(st.sampled_from(["read", "write"]))
    type_name = draw(st.sampled_from(POLICE))
    attribute = draw(st.sampled_from([None, *TYPES.schema(type_name)]))
    actions = ["withhold"] if attribute is None else ["suppress", "drop", "withhold"]
    actions += ["super-type"] * 2 if direction == "write" else []
    return AttributeRule(
        direction, draw(st.sampled_from(ROLES)), type_name, draw(st.sampled_from(CONDITIONS)),
        draw(st.sampled_from(actions)), attribute,  # type: ignore[arg-type]
    )  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(
    events(), entries(), entries(), st.lists(rules(), max_size=6),
    st.lists(st.sampled_from(ROLES), max_size=2), st.sampled_from(["West", "East", None]),
    st.none() | st.lists(st.sampled_from(POLICE), max_size=3),
)  # fmt: skip
def test_restriction_never_adds(
    event: tuple[str, dict[str, Any]],
    read: dict[str, dict[str, list[str]]],
    write: dict[str, dict[str, list[str]]],
    conditions: list[AttributeRule],
    roles: list[str],
    where: str | None,
    advertised: list[str] | None,
) -> None:
    name, values = event
    attributes = AttributePolicy(TYPES, read=_declared(read), write=_declared(write))
    policy = ValuePolicy(attributes, conditions, subject=SUBJECT)
    facts = {} if where is None else {"subject.location": where}
    sent = policy.publication(roles, name, values, subject=facts, advertised=advertised)
    seen = policy.delivery(roles, name, values, subject=facts)
    plain = {
        "write": attributes.restrict("write", roles, name, list(values)),
        "read": attributes.restrict("read", roles, name, list(values)),
    }
    for outcome, direction in ((sent, "write"), (seen, "read")):
        assert all(values[one] == value for one, value in outcome.values.items())
        assert TYPES.is_a(name, outcome.type)
        assert set(outcome.values) <= set(TYPES.schema(outcome.type))
        if outcome.type == name:
            assert set(outcome.values) <= set(plain[direction].kept)
        assert [spec.name for spec in outcome.specs] == list(outcome.values)
        for spec in outcome.specs:
            assert spec == TYPES.attribute(name, spec.name)
        if not outcome.withheld:
            gone = [one.attribute for one in (*outcome.removed, *outcome.suppressed)]
            assert sorted([*outcome.values, *gone]) == sorted(values)
            assert all(one.detail for one in (*outcome.removed, *outcome.suppressed))
        else:
            assert not outcome.values
    assert advertised is None or sent.withheld or sent.type in advertised
    if not seen.withheld:
        assert evaluate(policy.predicate(roles, name), {**values, **facts})
    keys = {"police": (1, bytes(32)), "fire": (1, bytes(32)), "policeTraining": (1, bytes(32))}
    travelling = protect(sent.values, sent.specs, keys, aad=b"", random=SeededRandom(b"s"))
    for one, under in travelling.sealed.items():
        assert set(under) <= set(TYPES.attribute(name, one).keys)
    for restricted in plain.values():
        removed = [one.attribute for one in restricted.removed]
        assert [one for one in values if one in restricted.kept] == list(restricted.kept)
        assert [one for one in values if one in removed] == removed
        assert len(restricted.kept) + len(removed) == len(values)


def _declared(entries: dict[str, dict[str, list[str]]]) -> dict[str, dict[str, list[str]]]:
    """Leave out what the police's types do not have anywhere below the entry's type."""
    return {
        role: {
            name: [one for one in listed if one in TYPES.schema("BurglaryEvent")]
            for name, listed in of_role.items()
        }
        for role, of_role in entries.items()
    }
