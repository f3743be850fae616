"""Sessions: activation, reasons, cascades."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from policyengine.errors import InputError
from policyengine.roles import RolePolicy, Session, read_rule
from policyengine.roles import session as session_module

HOURS = "env.hour >= 9 && env.hour < 17"
HOSPITAL = RolePolicy.from_json(
    {
        "rules": [
            {"role": "doctor(d)", "appointments": ["qualified(d)"], "membership": ["qualified(d)"]},
            {"role": "on-ward(d, w)", "prerequisites": ["doctor(d)"],
             "appointments": ["rota(d, w)"], "membership": ["doctor(d)", "rota(d, w)"]},
            {"role": "treating-doctor(d, p)", "prerequisites": ["on-ward(d, w)"],
             "appointments": ["admitted(p, w)"], "constraints": ["d != 13"],
             "membership": ["on-ward(d, w)", "admitted(p, w)"]},
            {"role": "treating-doctor(d, p)", "prerequisites": ["doctor(d)"],
             "constraints": ["env.emergency"], "membership": ["doctor(d)", "env.emergency"]},
            {"role": "reads(p)", "prerequisites": ["treating-doctor(d, p)"],
             "membership": ["treating-doctor(d, p)"]},
        ]
    }
)  # fmt: skip


def hospital() -> Session:
    session = Session(HOSPITAL)
    for text in (
        "qualified(7)",
        "rota(7, A)",
        "rota(7, B)",
        "admitted(anna, A)",
        "admitted(anna, B)",
    ):
        assert session.appoint(text).ok
    for text in ("doctor(7)", "on-ward(7, A)", "on-ward(7, B)", "treating-doctor(7, anna)"):
        assert session.activate(text).ok
    return session


def test_a_role_says_why_it_is_active() -> None:
    session = hospital()
    why = session.explain("treating-doctor(7, anna)")
    assert why.ok
    assert why.reason == (
        "`treating-doctor(7, anna)` is active by rule 3: role `on-ward(7, A)`, appointment"
        " `admitted(anna, A)` and constraint `d != 13`, where d = 7, p = anna and w = A"
    )
    assert why.activation is not None
    assert why.activation.bindings == (("d", 7), ("p", "anna"), ("w", "A"))
    assert [each.role.text for each in session.activations] == [
        "doctor(7)", "on-ward(7, A)", "on-ward(7, B)", "treating-doctor(7, anna)",
    ]  # fmt: skip


def test_a_role_that_asks_for_nothing_starts_a_session() -> None:
    session = Session(RolePolicy((read_rule("guest"), read_rule("named(x)"))))
    assert (
        session.activate("guest()").reason == "`guest` is active by rule 1, which asks for nothing"
    )
    assert session.activate("named(7)").ok
    assert session.active == ("guest", "named(7)")


@pytest.mark.parametrize(
    ("role", "number", "reason"),
    [
        ("doctor(8)", 1, "by rule 1, the only one, appointment `qualified(8)` is not held"),
        ("on-ward(7, C)", 2, "by rule 2, the only one, appointment `rota(7, C)` is not held"),
        (
            "treating-doctor(7, bob)", 3,
            "by rule 3, the nearest of them, appointment `admitted(bob, A)` is not held",
        ),
        (
            "treating-doctor(8, bob)",
            3,
            (
                "by rule 3, the nearest of them, role `on-ward(8, w)` is not active and appointment"
                " `admitted(bob, w)` is not held"
            ),
        ),
        ("doctor", None, "no rule is for `doctor` with 0 parameters"),
        ("nurse(7)", None, "no rule is for `nurse` with 1 parameter"),
    ],
)  # fmt: skip
def test_a_role_says_why_it_is_not_active(role: str, number: int | None, reason: str) -> None:
    session = hospital()
    before = session.activations
    outcome = session.activate(role)
    assert not outcome.ok
    assert outcome.denial is not None
    assert outcome.denial.rule == number
    assert outcome.reason == outcome.denial.reason == f"`{role}` is not active: {reason}"
    assert session.explain(role) == outcome
    assert session.activations == before


def test_reasons_of_many_conditions_are_shortened() -> None:
    session = Session(RolePolicy((read_rule("a", appointments=[f"b{n}" for n in range(9)]),)))
    assert "`b3` is not held (and 5 more)" in session.activate("a").reason


def test_rules_for_other_parameters() -> None:
    session = Session(
        RolePolicy((read_rule("ward(1)"), read_rule("ward(2)"), read_rule("p(x, x)")))
    )
    assert session.activate("ward(2)").ok
    outcome = session.activate("ward(3)")
    assert (
        outcome.reason == "`ward(3)` is not active: the rules for `ward` are for other parameters"
    )
    assert not session.activate("p(1, 2)").ok


def test_a_constraint_whose_variable_is_not_known() -> None:
    rule = read_rule("a", appointments=["b(y)"], constraints=["y != 1"])
    session = Session(RolePolicy((rule,)))
    assert session.activate("a").reason == (
        "`a` is not active: by rule 1, the only one, appointment `b(y)` is not held and"
        " constraint `y != 1` cannot be told before its variables are known"
    )
    session.appoint("b(1)")
    assert not session.activate("a").ok
    session.appoint("b(2)")
    assert session.activate("a").ok


def test_membership_rests_on_the_values_of_the_activation() -> None:
    session = hospital()
    session.activate("reads(anna)")
    outcome = session.revoke("rota(7, A)")  # ward B would do as well, and does after a new try
    assert outcome.ok
    assert [each.role.text for each in outcome.fallen] == [
        "on-ward(7, A)", "treating-doctor(7, anna)", "reads(anna)",
    ]  # fmt: skip
    assert outcome.fallen[-1].chain == (
        "`on-ward(7, A)` ended because appointment `rota(7, A)` was revoked",
        "`treating-doctor(7, anna)` ended because role `on-ward(7, A)` ended",
        "`reads(anna)` ended because role `treating-doctor(7, anna)` ended",
    )
    assert outcome.reason == "; ".join(
        ("appointment `rota(7, A)` was revoked", *outcome.fallen[-1].chain)
    )
    assert session.active == ("doctor(7)", "on-ward(7, B)")
    assert session.activate("treating-doctor(7, anna)").ok


def test_deactivation_cascades() -> None:
    session = hospital()
    outcome = session.deactivate("doctor(7)")
    assert session.active == ()
    assert (
        outcome.fallen[0].reason == "`on-ward(7, A)` ended because role `doctor(7)` was deactivated"
    )
    again = session.deactivate("doctor(7)")
    assert (again.ok, again.reason, again.fallen) == (False, "`doctor(7)` is not active", ())


def test_conditions_that_are_not_watched_may_go() -> None:
    rules = (read_rule("a"), read_rule("b", prerequisites=["a"], constraints=["env.on"]))
    session = Session(RolePolicy(rules))
    session.set({"on": True})
    session.activate("a")
    session.activate("b")
    assert session.deactivate("a").fallen == ()
    assert session.set({"on": False}).fallen == ()
    assert session.active == ("b",)


def test_the_environment() -> None:
    rule = read_rule("officer", constraints=[HOURS], membership=[HOURS])
    session = Session(RolePolicy((rule,)))
    assert not session.activate("officer").ok
    assert (
        session.set({"hour": 10, "env.site": "north"}).reason
        == '`env.hour` is `10`, `env.site` is `"north"`'
    )
    assert session.environment == {"env.hour": 10, "env.site": "north"}
    assert session.activate("officer").ok
    assert session.set({"env.hour": 16.5}).fallen == ()
    outcome = session.set({"hour": 17})
    assert [each.reason for each in outcome.fallen] == [
        f"`officer` ended because constraint `{HOURS}` is not met: `env.hour` is `17`"
    ]
    session.set({"hour": 10})
    assert session.active == ()  # nothing becomes active by itself
    session.activate("officer")
    outcome = session.set({"hour": None})
    assert outcome.reason.startswith("`env.hour` is no longer set; `officer` ended")
    assert session.set({}).reason == "nothing was to be set"
    session.set({"hour": 10})
    session.activate("officer")
    assert len(session.set({"hour": "ten"}).fallen) == 1  # what cannot be told is not met


def test_a_truth_value_is_not_the_number_that_it_equals() -> None:
    session = Session(RolePolicy((read_rule("a", membership=["env.n >= 1"]),)))
    session.set({"n": 1})
    assert session.activate("a").ok
    assert len(session.set({"n": True}).fallen) == 1


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        ({"hour": [1]}, "type"),
        ({"hour": float("nan")}, "invalid"),
        ({"hour": "\ud800"}, "invalid"),
        ({"hour": 10**100}, "too-large"),
        ({"ho ur": 1}, "invalid"),
        ({"hour": 1, "env.hour": 2}, "invalid"),
    ],
)
def test_what_cannot_be_set_changes_nothing(environment: Any, kind: str) -> None:
    session = Session(RolePolicy())
    with pytest.raises(InputError) as caught:
        session.set({"first": 1, **environment})
    assert caught.value.kind == kind
    assert session.environment == {}


def test_several_failures_at_once_name_the_first_condition() -> None:
    rules = (
        read_rule("a", membership=["env.x == 1", "env.y == 1"]),
        read_rule("b", prerequisites=["a"], membership=["env.y == 1", "a"], roles={("a", 0)}),
    )
    session = Session(RolePolicy(rules))
    session.set({"x": 1, "y": 1})
    session.activate("a")
    session.activate("b")
    outcome = session.set({"x": 2, "y": 2})
    assert [(each.role.text, each.cause) for each in outcome.fallen] == [("a", None), ("b", None)]
    assert "`env.x == 1`" in outcome.fallen[0].why


def test_a_role_that_needs_itself_cannot_start() -> None:
    circle = (read_rule("a", prerequisites=["b"]), read_rule("b", prerequisites=["a"]))
    session = Session(RolePolicy((*circle, read_rule("c(x)", prerequisites=["c(y)"]))))
    for role in ("a", "b", "c(7)"):
        assert not session.activate(role).ok


def test_renewing_never_closes_a_circle() -> None:
    rules = (
        read_rule("a", appointments=["start"], membership=["start"]),
        read_rule("b", prerequisites=["a"], membership=["a"]),
        read_rule("a", prerequisites=["b"], membership=["b"]),
        read_rule("a", appointments=["other"], membership=["other"]),
    )
    session = Session(RolePolicy(rules))
    session.appoint("start")
    session.activate("a")
    session.activate("b")
    session.appoint("start", expires=10)  # renewed by its issuer: it is held until then
    session.advance(9)
    assert session.active == ("a", "b")
    session.appoint("other")
    first = session.activations[0]
    assert session.activate("a").ok  # by rule 1 still: rules are tried in order
    assert session.activations[0] == first
    outcome = session.advance(10)
    assert [each.role.text for each in outcome.fallen] == ["a", "b"]


def test_renewing_takes_new_reasons_and_keeps_what_rests_on_it() -> None:
    rules = (
        read_rule("a", appointments=["one"], membership=["one"]),
        read_rule("a", appointments=["two"], membership=["two"]),
        read_rule("b", prerequisites=["a"], membership=["a"]),
        read_rule("gone", constraints=["env.on"]),
        read_rule("a", prerequisites=["b"]),
    )
    session = Session(RolePolicy(rules), now=5)
    session.appoint("one")
    session.appoint("two")
    session.activate("a")
    session.activate("b")
    session.set({"on": True})
    session.activate("gone")
    session.set({"on": False})
    assert session.revoke("one").fallen[0].role.text == "a"
    assert session.active == ("gone",)
    assert session.activate("a").activation is not None
    session.activate("b")
    assert session.activations[1].role.text == "a"
    session.advance(7)
    session.appoint("one")
    assert session.activate("a").ok
    assert session.activations[1].since == 5
    assert session.revoke("two").fallen == ()
    assert session.active == ("a", "b", "gone")
    refused = session.activate("gone")
    assert not refused.ok
    assert refused.reason.endswith("it stays active as before")
    assert session.active == ("a", "b", "gone")


def test_privileges_are_granted_by_roles() -> None:
    policy = RolePolicy.from_json(
        {
            "rules": [{"role": "officer(x)"}],
            "privileges": [
                {
                    "privilege": "subscribe(BurglaryEvent)",
                    "role": "officer(x)",
                    "constraints": ["env.on"],
                },
                {"privilege": "file(x)", "role": "officer(x)"},
            ],
        }
    )
    session = Session(policy)
    assert session.permits("subscribe(BurglaryEvent)").reason == (
        "`subscribe(BurglaryEvent)` is not permitted: by rule 1, the only one, role `officer(x)` is"
        " not active and constraint `env.on` is not met: `env.on` was never set"
    )
    session.activate("officer(7)")
    session.set({"on": True})
    assert session.permits("subscribe(BurglaryEvent)").reason == (
        "`subscribe(BurglaryEvent)` is permitted by rule 1: role `officer(7)` and constraint"
        " `env.on`, where x = 7"
    )
    assert session.permits("file(7)").ok
    assert not session.permits("file(8)").ok
    assert not session.permits("define(BurglaryEvent)").ok
    assert session.active == ("officer(7)",)


def test_too_many_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MAX_ACTIVE", 2)
    session = Session(RolePolicy((read_rule("a(x)"),)))
    session.activate("a(1)")
    session.activate("a(2)")
    with pytest.raises(InputError) as caught:
        session.activate("a(3)")
    assert caught.value.kind == "too-large"
    assert session.activate("a(2)").ok  # active already
    assert session.active == ("a(1)", "a(2)")


def test_a_policy_is_shared_by_threads() -> None:
    def run(number: int) -> tuple[str, ...]:
        session = Session(HOSPITAL)
        session.appoint(f"qualified({number})")
        session.set({"emergency": True})
        session.activate(f"doctor({number})")
        session.activate(f"treating-doctor({number}, anna)")
        return session.active

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(40)))
    assert results == [(f"doctor({n})", f"treating-doctor({n}, anna)") for n in range(40)]
