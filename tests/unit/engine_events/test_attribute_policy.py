"""Restriction by attribute: inherited entries, several roles, reasons."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.errors import InputError
from policyengine.events import (
    NOT_PERMITTED,
    AttributePolicy,
    Entry,
    covers_json,
    restrict_json,
    types_from_json,
)
from tests.unit.engine_events.city_types import CITY, asked, city

TYPES = city()
READ = {
    "officer": {
        "PoliceEvent": ["location", "severity", "premises"],
        "SilentAlarm": ["polCode"],
    },
    "press": {"PoliceEvent": ["severity"]},
    "trainee": {"BurglaryEvent": []},
}
POLICY = AttributePolicy(TYPES, read=READ, write={"desk": {"BurglaryEvent": ["location"]}})


def kept(roles: list[str], type_name: str, *names: str) -> tuple[str, ...]:
    return POLICY.restrict("read", roles, type_name, names).kept


def test_an_entry_holds_for_sub_types_and_a_nearer_one_wins() -> None:
    every = ("premises", "severity", "polCode", "location")
    assert kept(["officer"], "BurglaryEvent", *every) == ("premises", "severity", "location")
    assert kept(["officer"], "SilentAlarm", *every) == ("polCode",)
    assert kept(["officer"], "PoliceEvent", "severity", "zone") == ("severity",)
    assert kept(["trainee"], "PoliceEvent", "severity") == ("severity",)
    assert kept(["trainee"], "SilentAlarm", "severity") == ()


def test_several_roles_add_up_each_by_its_nearest_entry() -> None:
    every = ("severity", "polCode", "location")
    assert kept(["officer", "press"], "SilentAlarm", *every) == ("severity", "polCode")
    assert kept(["trainee", "press", "trainee"], "BurglaryEvent", *every) == ("severity",)
    assert POLICY.entries("read", ["press", "officer", "nobody"], "SilentAlarm") == {
        "press": Entry("PoliceEvent", frozenset({"severity"})),
        "officer": Entry("SilentAlarm", frozenset({"polCode"})),
    }


def test_where_no_entry_speaks_everything_is_kept() -> None:
    assert kept([], "PoliceEvent", "zone", "location") == ("zone", "location")
    assert kept(["clerk"], "PoliceEvent", "zone") == ("zone",)
    assert kept(["officer"], "FireEvent", "location") == ("location",)
    assert POLICY.allowed("write", ["officer"], "PoliceEvent") is None
    assert POLICY.allowed("write", ["desk"], "PoliceEvent") is None
    assert POLICY.allowed("write", ["desk", "officer"], "SilentAlarm") == {"location"}
    # a role without an entry adds nothing where another one has one
    assert kept(["press", "clerk"], "PoliceEvent", "zone", "severity") == ("severity",)


def test_the_reason_names_who_was_asked_and_what_decided() -> None:
    found = POLICY.restrict("read", ["officer", "clerk"], "SilentAlarm", ["zone", "polCode"])
    (removed,) = found.removed
    assert (removed.attribute, removed.reason) == ("zone", NOT_PERMITTED)
    assert removed.detail == (
        "no role lets it be read: the entry of `officer` at `SilentAlarm` does not name it;"
        " `clerk` has no entry"
    )
    written = POLICY.restrict("write", ["desk"], "SilentAlarm", ["zone"]).removed[0].detail
    assert written == (
        "no role lets it be written: the entry of `desk` at `BurglaryEvent` does not name it"
    )


def test_names_that_do_not_exist_are_refused() -> None:
    for names in (["nothing"], ["polCode"]):
        with pytest.raises(InputError) as caught:
            POLICY.restrict("read", [], "PoliceEvent", names)
        assert caught.value.kind == "unknown"
    with pytest.raises(InputError):
        POLICY.restrict("read", [], "Nothing", [])


@pytest.mark.parametrize(
    ("obj", "kind", "where"),
    [
        ([], "invalid", "policy"),
        ({"reads": {}}, "unknown", "policy.reads"),
        ({"read": []}, "invalid", "policy.read"),
        ({"read": {"officer": 1}}, "invalid", "policy.read.officer"),
        ({"read": {"officer": {"PoliceEvent": "zone"}}}, "invalid",
         "policy.read.officer.PoliceEvent"),
        ({"read": {"officer": {"PoliceEvent": [1]}}}, "invalid",
         "policy.read.officer.PoliceEvent[0]"),
        ({"read": {"officer": {"Nothing": []}}}, "unknown", "read.officer.Nothing"),
        ({"write": {"officer": {"PoliceEvent": ["pol"]}}}, "unknown", "write.officer.PoliceEvent"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_policy_has_a_place(obj: object, kind: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        AttributePolicy.from_json(obj, TYPES)
    assert (caught.value.kind, caught.value.where) == (kind, where)


JSON: dict[str, Any] = {
    "read": {"officer": {"BurglaryEvent": ["location"]}},
    "write": {"desk": {"PoliceEvent": ["severity"]}},
}


def test_restriction_in_json() -> None:
    found = restrict_json(
        CITY, JSON, ["officer"],
        subscription={"type": "BurglaryEvent", "attributes": ["premises", "location"]},
    )  # fmt: skip
    assert found["kept"] == ["location"]
    assert found["removed"] == [
        {
            "attribute": "premises",
            "reason": "no role lets it be read: the entry of `officer` at `BurglaryEvent` does"
            " not name it",
        }
    ]
    values = {"zone": "campus", "severity": 3}
    event = {"type": "PoliceEvent", "values": values}
    written = restrict_json(CITY, JSON, ["desk"], publication=event)
    assert written["kept"] == ["severity"]
    assert restrict_json(CITY, {}, ["desk"], publication=event) == {
        "kept": ["zone", "severity"], "removed": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "kind", "where"),
    [
        ({"types": []}, "invalid", "types"),
        ({"policy": None}, "invalid", "policy"),
        ({"roles": "officer"}, "invalid", "roles"),
        ({"roles": [1]}, "invalid", "roles[0]"),
        ({"publication": None}, "invalid", "publication"),
        ({"subscription": {"type": "PoliceEvent", "attributes": []}}, "invalid", "publication"),
        ({"publication": {"type": "PoliceEvent"}}, "invalid", "publication.values"),
        ({"publication": {"type": "Police", "values": {}}}, "unknown", "publication.type"),
        ({"publication": {"type": "PoliceEvent", "values": []}}, "invalid", "publication.values"),
        ({"publication": {"type": "PoliceEvent", "values": {"zone": 3}}}, "invalid",
         "publication.values"),
        ({"publication": {"type": "PoliceEvent", "values": {"zones": ""}}}, "unknown",
         "publication.values"),
        ({"publication": None, "subscription": {"type": "PoliceEvent", "attributes": ["x"]}},
         "unknown", "subscription.attributes"),
        ({"publication": None, "subscription": {"type": "PoliceEvent", "attributes": [[]]}},
         "invalid", "subscription.attributes"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_question_has_a_place(
    change: dict[str, Any], kind: str, where: str
) -> None:
    good: dict[str, Any] = {
        "types": CITY, "policy": JSON, "roles": [],
        "publication": {"type": "PoliceEvent", "values": {}},
    }  # fmt: skip
    restrict_json(**good)
    with pytest.raises(InputError) as caught:
        restrict_json(**{**good, **change})
    assert (caught.value.kind, caught.value.where) == (kind, where)


@pytest.mark.parametrize(
    ("obj", "kind", "where"),
    [
        ({"A": {"parent": 1}}, "invalid", "types.A.parent"),
        ({"A": {"parent": "B"}}, "unknown", "types.A"),
        ({"A": {"parents": None}}, "unknown", "types.A.parents"),
        ({"A": {"attributes": []}}, "invalid", "types.A.attributes"),
        ({"A": {"attributes": {"x": {"type": "text"}}}}, "unknown", "types.A.attributes.x"),
        ({"A": {"attributes": {"x": {"type": "int", "keys": "a"}}}}, "invalid",
         "types.A.attributes.x.keys"),
        ({"A": {"attributes": {"in": {"type": "int"}}}}, "invalid", "types.in"),
        ({"A": {"parent": "A"}}, "invalid", "types.A"),
        ({f"T{number}": {} for number in range(1025)}, "too-large", "types"),
        ({"A": {"attributes": {f"a{number}": {"type": "int"} for number in range(4000)}},
          "B": {"attributes": {f"a{number}": {"type": "int"} for number in range(97)}}},
         "too-large", "types.B.attributes"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_types_has_a_place(obj: object, kind: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        types_from_json(obj)
    assert (caught.value.kind, caught.value.where) == (kind, where)


def test_coverage_in_json() -> None:
    general = asked("PoliceEvent", ("severity > 2", []))
    assert covers_json(CITY, general, asked("BurglaryEvent", ("severity > 3", [])))
    assert not covers_json(CITY, general, asked("BurglaryEvent", ("severity > 3", ["police"])))
    with pytest.raises(InputError) as caught:
        covers_json(CITY, general, asked("BurglaryEvent", ("severity >", [])))
    assert caught.value.kind == "syntax"
    assert caught.value.where == "second.filters[0].expression"
