"""Policies as JSON, and what is found in them."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.errors import InputError
from policyengine.roles import (
    MAX_CONDITIONS,
    MAX_RULES,
    MAX_TOTAL,
    Atom,
    Credential,
    Finding,
    RolePolicy,
    Variable,
    findings,
    read_constraint,
    read_rule,
)

HOURS = "env.hour >= 9 && env.hour < 17"
OFFICER: dict[str, Any] = {
    "role": "officer(x)",
    "prerequisites": ["employee(x)"],
    "appointments": ["sworn(x)"],
    "constraints": [HOURS],
    "membership": ["employee(x)", "sworn(x)", HOURS],
}


def policy(*rules: dict[str, Any], **more: Any) -> RolePolicy:
    return RolePolicy.from_json({"rules": list(rules), **more})


def test_the_shape_of_conformance() -> None:
    found = policy(OFFICER)
    rule = found.rules[0]
    x = Variable("x")
    assert rule.role == Atom("officer", (x,))
    assert rule.conditions == (
        Credential("role", Atom("employee", (x,))),
        Credential("appointment", Atom("sworn", (x,))),
        read_constraint(HOURS),
    )
    assert rule.membership == rule.conditions
    assert not rule.initial
    assert found.to_json() == {"rules": [OFFICER]}
    assert found.rules_for(("officer", 1)) == ((1, rule),)
    assert found.rules_for(("officer", 2)) == ()
    assert found.roles == {("officer", 1)}
    assert RolePolicy.from_json({}) == RolePolicy()
    assert policy({"role": "a", "membership": None}).rules[0].initial


def test_privileges() -> None:
    privilege = {
        "privilege": "publish(BurglaryEvent)", "role": "duty-officer(x)", "constraints": [HOURS],
    }  # fmt: skip
    found = policy({"role": "duty-officer(x)"}, privileges=[privilege])
    assert found.to_json()["privileges"] == [privilege]
    assert RolePolicy.from_json(found.to_json()) == found
    assert found.privileges_for(("publish", 1))[0][0] == 1
    assert found.privileges_for(("publish", 0)) == ()


def test_a_membership_condition_names_one_of_the_conditions_or_a_further_one() -> None:
    rule = read_rule(
        "a(x)",
        prerequisites=["b(x)", "both(x)"],
        appointments=["both( x )"],
        constraints=["env.on", " true "],
        membership=["both(x)", "true", "c(x)", "d(x)", "env.late == x", "!(env.off)", "has(env.z)"],
        roles={("c", 1)},
    )
    x = (Variable("x"),)
    assert [each for each in rule.membership if isinstance(each, Credential)] == [
        Credential("role", Atom("both", x)),
        Credential("appointment", Atom("both", x)),
        Credential("role", Atom("c", x)),
        Credential("appointment", Atom("d", x)),
    ]
    assert [each.text for each in rule.constraints] == [
        "env.on", "true", "env.late == x", "!(env.off)", "has(env.z)",
    ]  # fmt: skip
    assert set(rule.membership) <= set(rule.conditions)  # all are asked for at activation


@pytest.mark.parametrize(
    ("rule", "kind", "where", "at"),
    [
        ({"role": "a(x"}, "syntax", "rules[0].role", 3),
        ({"role": 7}, "type", "rules[0].role", None),
        ({}, "invalid", "rules[0].role", None),
        ({"role": "a", "rolls": []}, "invalid", "rules[0].rolls", None),
        ({"role": "a", "prerequisites": "b"}, "type", "rules[0].prerequisites", None),
        ({"role": "a", "prerequisites": ["b", 7]}, "type", "rules[0].prerequisites[1]", None),
        ({"role": "a", "prerequisites": ["!c"]}, "unsupported", "rules[0].prerequisites[0]", 0),
        ({"role": "a", "appointments": ["not c(x)"]}, "unsupported", "rules[0].appointments[0]", 0),
        ({"role": "!a"}, "unsupported", "rules[0].role", 0),
        ({"role": "a", "membership": ["!c(x)"]}, "unsupported", "rules[0].membership[0]", 0),
        ({"role": "a", "membership": ["!(env.c"]}, "syntax", "rules[0].membership[0]", 7),
        ({"role": "a", "prerequisites": ["env.on"]}, "invalid", "rules[0].prerequisites[0]", 0),
        ({"role": "a", "constraints": ["env.a == y"]}, "unknown", "rules[0].constraints[0]", 9),
        ({"role": "a", "constraints": ["hour > 1"]}, "unknown", "rules[0].constraints[0]", 0),
        ({"role": "a", "constraints": [""]}, "syntax", "rules[0].constraints[0]", 0),
        ({"role": "a", "appointments": ["b"] * 65}, "too-large", "rules[0].appointments", None),
        (
            {"role": "a", "appointments": ["b"] * 40, "prerequisites": ["b"] * 40},
            "too-large", "rules[0].conditions", None,
        ),
    ],
)  # fmt: skip
def test_rules_that_cannot_be_read(rule: Any, kind: str, where: str, at: int | None) -> None:
    with pytest.raises(InputError) as caught:
        policy(rule)
    assert (caught.value.kind, caught.value.where, caught.value.at) == (kind, where, at)
    assert MAX_CONDITIONS < 65


@pytest.mark.parametrize(
    ("obj", "kind", "where"),
    [
        (None, "type", "policy"),
        ([], "type", "policy"),
        ({"rule": []}, "invalid", "policy.rule"),
        ({"rules": {}}, "type", "policy.rules"),
        ({"rules": ["a"]}, "type", "rules[0]"),
        ({"rules": [{"role": "a"}] * (MAX_RULES + 1)}, "too-large", "policy"),
        ({"privileges": [1] * (MAX_RULES + 1)}, "too-large", "policy"),
        ({"rules": [7, {"membership": ["b"] * (MAX_TOTAL + 1)}]}, "too-large", "policy"),
        ({"privileges": [{"privilege": "p(", "role": "a"}]}, "syntax", "privileges[0].privilege"),
        ({"privileges": [{"privilege": "p", "role": "!a"}]}, "unsupported", "privileges[0].role"),
        (
            {"privileges": [{"privilege": "p", "role": "a", "constraints": ["x"]}]},
            "unknown", "privileges[0].constraints[0]",
        ),
    ],
)  # fmt: skip
def test_policies_that_cannot_be_read(obj: Any, kind: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        RolePolicy.from_json(obj)
    assert (caught.value.kind, caught.value.where) == (kind, where)


def test_a_policy_without_flaws_has_no_findings() -> None:
    employee = {"role": "employee(x)", "appointments": ["hired(x)"]}
    contractor = {"role": "employee(x)", "appointments": ["contracted(x)"]}
    both = {"role": "chief(x)", "prerequisites": ["employee(x)", "officer(x)"]}
    assert findings(policy(both, employee, contractor, OFFICER)) == ()


def test_findings() -> None:
    found = findings(
        policy(
            {"role": "employee(x)"},
            {"role": "officer(x)", "prerequisites": ["employe(x)"]},
            {"role": "chief(x)", "prerequisites": ["employee(x, x)"]},
            {"role": "egg", "prerequisites": ["hen"]},
            {"role": "hen", "prerequisites": ["egg"]},
            {"role": "egg", "prerequisites": ["hen"]},
            {"role": "old", "appointments": ["old", "old"]},
            {"role": "boss", "prerequisites": ["old"], "constraints": ["env.on", "env.on"]},
            privileges=[{"privilege": "publish(z)", "role": "nobody"}],
        )
    )
    assert [(each.kind, each.where) for each in found] == [
        ("unbound", "rules[0]"),
        ("undeclared", "rules[1]"),
        ("unreachable", "rules[1]"),
        ("undeclared", "rules[2]"),
        ("unreachable", "rules[2]"),
        ("unreachable", "rules[3]"),
        ("unreachable", "rules[4]"),
        ("duplicate", "rules[5]"),
        ("unreachable", "rules[5]"),
        ("duplicate", "rules[6]"),
        ("ambiguous", "rules[6]"),
        ("duplicate", "rules[7]"),
        ("undeclared", "privileges[0]"),
    ]
    assert found[1] == Finding("undeclared", "rules[1]", "no rule activates `employe`", "employee")
    assert "with 2 parameters, only with 1" in found[3].message
    assert found[7].message == "the rule says what rules[3] says"
    assert found[0].message == "whoever activates `employee` chooses `x`: no condition names it"
