"""Restriction by value: the two officers of paper 002, section 5, and super-types."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.attributes import And, AttributeType, evaluate
from policyengine.errors import InputError
from policyengine.events import (
    CONDITION,
    NOT_PERMITTED,
    SUPER_TYPE,
    AttributePolicy,
    AttributeRule,
    Outcome,
    ValuePolicy,
    covers,
    lower,
    types_from_json,
    views,
)
from tests.unit.engine_events.city_types import city, subscription

TYPES = city()
SUBJECT = {"subject.location": AttributeType("string"), "subject.rank": AttributeType("int")}
BURGLARY: dict[str, Any] = {
    "location": "West Cambridge",
    "premises": "William Gates Building",
    "polCode": 3,
    "zone": "university",
}
HERE = "location == subject.location"


def policy(*rules: AttributeRule, read: Any = None, write: Any = None) -> ValuePolicy:
    return ValuePolicy(
        AttributePolicy(TYPES, read=read or {}, write=write or {}), rules, subject=SUBJECT
    )


def names(found: Outcome, reason: str) -> list[str]:
    return [one.attribute for one in found.removed if one.reason == reason]


def test_the_probationary_officer_of_the_case_study() -> None:
    # step 1: granted, but restricted to where the officer is
    rules = policy(AttributeRule("read", "probationer", "BurglaryEvent", HERE, "withhold"))
    predicate = rules.predicate(["probationer"], "BurglaryEvent")
    west, east = {"subject.location": "West Cambridge"}, {"subject.location": "East"}
    assert evaluate(predicate, {**BURGLARY, **west})
    assert not evaluate(predicate, {**BURGLARY, **east})
    # step 8: checked at delivery, and again when the officer has moved
    there = rules.delivery(["probationer"], "BurglaryEvent", BURGLARY, subject=west)
    assert (there.values, there.withheld) == (BURGLARY, "")
    elsewhere = rules.delivery(["probationer"], "BurglaryEvent", BURGLARY, subject=east)
    assert (elsewhere.values, elsewhere.specs) == ({}, ())
    assert "`probationer` has it only where" in elsewhere.withheld
    # nobody knows where the officer is, or the broker cannot open the location: withheld
    assert rules.delivery(["probationer"], "BurglaryEvent", BURGLARY).withheld
    closed = {"zone": "university"}  # what broker b2 sees
    assert rules.delivery(["probationer"], "BurglaryEvent", closed, subject=west).withheld
    # officer 2, and an officer with both roles, are not restricted by the other's rule
    assert rules.predicate(["officer"], "BurglaryEvent") == And(())
    assert rules.delivery(["officer"], "BurglaryEvent", BURGLARY).values == BURGLARY
    assert rules.predicate(["probationer"], "PoliceEvent") == And(())


def test_routing_in_the_case_study() -> None:
    mine = subscription("BurglaryEvent", ('location == "West Cambridge"', ["police"]))
    other = subscription("BurglaryEvent", ("polCode < 4", ["police"]))
    event = views(TYPES, "BurglaryEvent", BURGLARY)
    assert mine.matches(TYPES, "BurglaryEvent", event)
    assert other.matches(TYPES, "BurglaryEvent", event)
    assert not covers(TYPES, mine, other)
    # step 7: without the key, the event appears with its zone alone
    assert event[None] == {"zone": "university"}


def test_values_are_dropped_or_kept_empty() -> None:
    rules = policy(
        AttributeRule("read", "press", "PoliceEvent", "severity < 5", "drop", "location"),
        AttributeRule("read", "press", "PoliceEvent", "severity < 3", "suppress", "zone"),
    )
    event = {"location": "West", "zone": "z", "severity": 4}
    found = rules.delivery(["press"], "PoliceEvent", event)
    assert found.values == {"location": "West", "severity": 4}
    assert [one.attribute for one in found.suppressed] == ["zone"]
    assert found.suppressed[0].detail == (
        "`press` has it only where `severity < 3`, by the rule at `PoliceEvent`"
    )
    worse = rules.delivery(["press"], "PoliceEvent", {**event, "severity": 9})
    assert names(worse, CONDITION) == ["location"]
    assert worse.values == {"severity": 9}
    assert rules.delivery(["press"], "PoliceEvent", {**event, "severity": 1}).values["zone"] == "z"


def test_nearer_rules_replace_those_above() -> None:
    rules = policy(
        AttributeRule("read", "press", "PoliceEvent", "false", "drop", "zone"),
        AttributeRule("read", "press", "BurglaryEvent", 'zone != "secret"', "drop", "zone"),
        AttributeRule("read", "press", "BurglaryEvent", 'zone != "hidden"', "suppress", "zone"),
    )
    for name in ("BurglaryEvent", "SilentAlarm"):
        assert rules.delivery(["press"], name, {"zone": "open"}).values == {"zone": "open"}
        assert rules.delivery(["press"], name, {"zone": "hidden"}).suppressed
        assert names(rules.delivery(["press"], name, {"zone": "secret"}), CONDITION) == ["zone"]
    assert not rules.delivery(["press"], "PoliceEvent", {"zone": "open"}).values


def test_roles_add_up_and_the_mildest_refusal_counts() -> None:
    rules = policy(
        AttributeRule("read", "press", "PoliceEvent", "severity < 5", "withhold", "zone"),
        AttributeRule("read", "press", "PoliceEvent", "severity < 3", "drop", "zone"),
        AttributeRule("read", "radio", "PoliceEvent", "severity < 4", "suppress", "zone"),
        read={"press": {"PoliceEvent": ["zone", "severity"]},
              "radio": {"PoliceEvent": ["zone", "severity"]},
              "police": {"PoliceEvent": ["zone"]},
              "clerk": {"PoliceEvent": ["severity"]}},
    )  # fmt: skip
    event = {"zone": "z", "severity": 3}
    assert rules.delivery(["press", "radio"], "PoliceEvent", event).values == event
    assert names(rules.delivery(["press"], "PoliceEvent", event), CONDITION) == ["zone"]
    high = {"zone": "z", "severity": 9}
    assert rules.delivery(["press"], "PoliceEvent", high).withheld
    assert rules.delivery(["press", "radio"], "PoliceEvent", high).suppressed
    # an entry without a condition is enough; one that does not name it says nothing
    assert rules.delivery(["press", "police"], "PoliceEvent", high).values == high
    assert rules.delivery(["press", "clerk"], "PoliceEvent", high).withheld
    assert names(rules.delivery(["clerk"], "PoliceEvent", high), NOT_PERMITTED) == ["zone"]


def test_a_publication_becomes_one_of_a_super_type() -> None:
    found = policy().publication(["desk"], "BurglaryEvent", BURGLARY, advertised=["PoliceEvent"])
    assert found.type == "PoliceEvent"
    assert found.values == {"location": "West Cambridge", "zone": "university"}
    assert names(found, SUPER_TYPE) == ["premises", "polCode"]
    # PoliceEvent would encrypt the location under `fire` too; what is given stays narrower
    assert {spec.name: spec.keys for spec in found.specs} == {"location": ("police",), "zone": ()}
    nothing = policy().publication(["desk"], "BurglaryEvent", BURGLARY, advertised=["FireEvent"])
    assert (nothing.values, nothing.type) == ({}, "BurglaryEvent")
    assert nothing.withheld == "neither `BurglaryEvent` nor a type above it may be published"
    same = policy().publication(["desk"], "BurglaryEvent", BURGLARY)
    assert (same.type, same.values, same.removed) == ("BurglaryEvent", BURGLARY, ())
    assert lower(TYPES, "SilentAlarm", ["PoliceEvent", "BurglaryEvent"]) == "BurglaryEvent"


def test_a_value_that_may_not_be_written_lowers_the_type() -> None:
    rules = policy(
        AttributeRule("write", "desk", "BurglaryEvent", "polCode < 4", "super-type", "polCode"),
        AttributeRule("write", "desk", "BurglaryEvent", 'zone == "x"', "suppress", "zone"),
        AttributeRule("write", "desk", "BurglaryEvent", 'zone == "x"', "suppress", "premises"),
        write={"desk": {"BurglaryEvent": ["polCode", "premises", "zone", "location"],
                        "PoliceEvent": ["zone", "severity"]}},
    )  # fmt: skip
    both = ["BurglaryEvent", "PoliceEvent"]
    event = {**BURGLARY, "severity": 1}
    low = rules.publication(["desk"], "BurglaryEvent", event, advertised=both)
    assert low.type == "BurglaryEvent"
    assert names(low, NOT_PERMITTED) == ["severity"]
    high = rules.publication(["desk"], "BurglaryEvent", {**event, "polCode": 9}, advertised=both)
    assert high.type == "PoliceEvent"
    assert high.values == {}
    # what the nearer entry took away does not come back with the entry above
    assert names(high, NOT_PERMITTED) == ["severity", "location"]
    assert names(high, SUPER_TYPE) == ["polCode", "premises"]
    assert [one.attribute for one in high.suppressed] == ["zone"]
    assert "has it only where `polCode < 4`" in high.removed[1].detail
    # where no type without the attribute may be published, the attribute is left out
    alone = rules.publication(["desk"], "BurglaryEvent", {**event, "polCode": 9})
    assert alone.type == "BurglaryEvent"
    assert names(alone, CONDITION) == ["polCode"]


def test_an_event_as_a_whole_is_lowered_or_withheld() -> None:
    rules = policy(
        AttributeRule("write", "desk", "SilentAlarm", "subject.rank > 2", "super-type"),
        AttributeRule("write", "desk", "PoliceEvent", "severity < 9", "withhold"),
    )
    rank = {"subject.rank": 1}
    event = {"severity": 1, "zone": "z"}
    every = list(TYPES.names)
    found = rules.publication(["desk"], "SilentAlarm", event, subject=rank, advertised=every)
    assert (found.type, found.values) == ("BurglaryEvent", event)
    senior = {"subject.rank": 3}
    high = rules.publication(["desk"], "SilentAlarm", event, subject=senior, advertised=every)
    assert high.type == "SilentAlarm"
    kept_back = rules.publication(["desk"], "SilentAlarm", event, subject=rank)
    assert kept_back.withheld.startswith("`desk` has it only where `subject.rank > 2`")
    urgent = {"severity": 9}
    worst = rules.publication(["desk"], "SilentAlarm", urgent, subject=rank, advertised=every)
    assert (worst.values, worst.type) == ({}, "BurglaryEvent")
    assert "`severity < 9`" in worst.withheld


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (AttributeRule("read", "a", "Nothing", "true", "drop", "zone"), "unknown"),
        (AttributeRule("read", "a", "PoliceEvent", "true", "drop", "polCode"), "unknown"),
        (AttributeRule("read", "a", "PoliceEvent", "polCode < 3", "drop", "zone"), "unknown"),
        (AttributeRule("read", "a", "PoliceEvent", "zone <", "drop", "zone"), "syntax"),
        (AttributeRule("read", "a", "PoliceEvent", "true", "drop"), "invalid"),
        (AttributeRule("read", "a", "PoliceEvent", "true", "suppress"), "invalid"),
        (AttributeRule("read", "a", "PoliceEvent", "true", "super-type", "zone"), "invalid"),
        (AttributeRule("read", "a", "PoliceEvent", "true", "burn", "zone"), "unknown"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_with_a_rule(rule: AttributeRule, kind: str) -> None:
    good = AttributeRule("write", "a", "PoliceEvent", "true", "super-type")
    with pytest.raises(InputError) as caught:
        policy(good, rule)
    assert (caught.value.kind, caught.value.where) == (kind, "rules[1]")


def test_what_is_wrong_with_the_facts() -> None:
    attributes = AttributePolicy(TYPES)
    with pytest.raises(InputError, match="does not begin with"):
        ValuePolicy(attributes, subject={"rank": AttributeType("int")})
    clashing = types_from_json({"T": {"attributes": {"subject.zone": {"type": "string"}}}})
    rule = AttributeRule("read", "a", "T", "true", "withhold")
    zone = {"subject.zone": AttributeType("string")}
    with pytest.raises(InputError, match="too"):
        ValuePolicy(AttributePolicy(clashing), [rule], subject=zone)
    for subject in ({"subject.rank": "high"}, {"subject.age": 3}):
        with pytest.raises(InputError):
            policy().delivery([], "PoliceEvent", {}, subject=subject)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        policy().publication([], "PoliceEvent", {"severity": 99})


# -- rules in JSON ---------------------------------------------------------------------------


@pytest.mark.parametrize("attribute", ["location", None])
def test_a_rule_reads_back_what_it_wrote(attribute: str | None) -> None:
    rule = AttributeRule("read", "probationer", "BurglaryEvent", HERE, "withhold", attribute)
    assert AttributeRule.from_json(rule.to_json()) == rule


def test_a_rule_about_the_event_needs_no_attribute() -> None:
    written = AttributeRule("write", "clerk", "PoliceEvent", "polCode < 4", "super-type").to_json()
    del written["attribute"]
    assert AttributeRule.from_json(written).attribute is None


@pytest.mark.parametrize(
    ("change", "kind", "where", "suggestion"),
    [
        ({"direction": "raed"}, "unknown", "rule.direction", "read"),
        ({"action": "dorp"}, "unknown", "rule.action", "drop"),
        ({"condition": 1}, "invalid", "rule.condition", None),
        ({"attribute": ["location"]}, "invalid", "rule.attribute", None),
        ({"roles": "clerk"}, "unknown", "rule.roles", "role"),
    ],
)
def test_what_is_no_rule_says_where(
    change: dict[str, Any], kind: str, where: str, suggestion: str | None
) -> None:
    written = AttributeRule("read", "clerk", "PoliceEvent", "polCode < 4", "drop").to_json()
    with pytest.raises(InputError) as failure:
        AttributeRule.from_json({**written, **change})
    found = failure.value
    assert (found.kind, found.where, found.suggestion) == (kind, where, suggestion)


def test_what_is_no_object_or_lacks_a_field_is_no_rule() -> None:
    with pytest.raises(InputError, match="is an object"):
        AttributeRule.from_json(["read"])
    with pytest.raises(InputError, match="has no `role`") as failure:
        AttributeRule.from_json({"direction": "read"}, where="rules[3]")
    assert failure.value.where == "rules[3].role"
