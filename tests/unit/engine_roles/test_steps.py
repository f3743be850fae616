"""Sessions as JSON steps."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.errors import InputError
from policyengine.roles import MAX_STEPS, run_session
from policyengine.roles import steps as steps_module

HOURS = "env.hour >= 9 && env.hour < 17"
POLICY: dict[str, Any] = {
    "rules": [
        {"role": "employee(x)", "appointments": ["hired(x)"], "membership": ["hired(x)"]},
        {
            "role": "officer(x)",
            "prerequisites": ["employee(x)"],
            "appointments": ["sworn(x)"],
            "constraints": [HOURS],
            "membership": ["employee(x)", "sworn(x)", HOURS],
        },
    ],
    "privileges": [{"privilege": "publish(BurglaryEvent)", "role": "officer(x)"}],
}


def played(*steps: dict[str, Any]) -> list[tuple[bool, list[str]]]:
    results: Any = run_session(POLICY, list(steps))
    assert all(set(each) == {"ok", "active", "reason"} and each["reason"] for each in results)
    return [(each["ok"], each["active"]) for each in results]


def appoint(text: str, **more: Any) -> dict[str, Any]:
    return {"do": "appoint", "appointment": text, **more}


def activate(text: str, **more: Any) -> dict[str, Any]:
    return {"do": "activate", "role": text, **more}


def test_the_example_of_the_command() -> None:
    assert played(
        activate("employee(7)"),
        appoint("hired(7)"),
        activate("employee(7)"),
        appoint("sworn(7)"),
        activate("officer(7)"),
        {"do": "set", "env": {"hour": 10}},
        activate("officer(7)"),
        activate("officer(8)"),
        {"do": "permits", "privilege": "publish(BurglaryEvent)"},
        {"do": "set", "env": {"hour": 20}},
        {"do": "set", "env": {"hour": 10}},
        activate("officer(7)"),
        {"do": "revoke", "appointment": "hired(7)"},
        {"do": "revoke", "appointment": "hired(7)"},
        {"do": "deactivate", "role": "officer(7)"},
        activate("stranger"),
    ) == [
        (False, []),
        (True, []),
        (True, ["employee(7)"]),
        (True, ["employee(7)"]),
        (False, ["employee(7)"]),
        (True, ["employee(7)"]),
        (True, ["employee(7)", "officer(7)"]),
        (False, ["employee(7)", "officer(7)"]),
        (True, ["employee(7)", "officer(7)"]),
        (True, ["employee(7)"]),
        (True, ["employee(7)"]),
        (True, ["employee(7)", "officer(7)"]),
        (True, []),
        (False, []),
        (False, []),
        (False, []),
    ]


def test_the_active_roles_are_sorted_as_texts() -> None:
    steps = [appoint(f"hired({badge})") for badge in (9, 10, "anna")]
    steps += [activate(f"employee({badge})") for badge in (9, 10, "anna")]
    assert played(*steps)[-1] == (True, ["employee(10)", "employee(9)", "employee(anna)"])


def test_time_passes_where_a_step_says_so() -> None:
    results: Any = run_session(
        POLICY,
        [
            appoint("hired(7)", at=100, issuer="city", expires=200),
            appoint("hired(8)", starts=150),
            activate("employee(7)"),
            activate("employee(8)", at=199),
            {"do": "wait", "at": 200},
            {"do": "revoke", "appointment": "hired(8)", "issuer": "city"},
            {"do": "wait"},
        ],
    )
    assert [each["active"] for each in results] == [
        [], [], ["employee(7)"], ["employee(7)", "employee(8)"],
        ["employee(8)"], ["employee(8)"], ["employee(8)"],
    ]  # fmt: skip
    assert [each["ok"] for each in results] == [True, True, True, True, True, False, True]
    assert results[4]["reason"] == (
        "`employee(7)` ended because appointment `hired(7)` lapsed at 200; it is 200"
    )


def test_many_ends_are_summed_up() -> None:
    steps = [appoint("start")]
    rules = [
        {"role": f"r{n}", "appointments": ["start"], "membership": ["start"]} for n in range(20)
    ]
    steps += [activate(f"r{n}") for n in range(20)]
    result: Any = run_session({"rules": rules}, [*steps, {"do": "revoke", "appointment": "start"}])[
        -1
    ]
    assert result["active"] == []
    assert result["reason"].endswith("; and 9 more")


@pytest.mark.parametrize(
    ("step", "kind", "where", "at"),
    [
        ("activate", "type", "steps[0]", None),
        ({}, "invalid", "steps[0].do", None),
        ({"do": 7}, "type", "steps[0].do", None),
        ({"do": "actviate", "role": "a"}, "unknown", "steps[0].do", None),
        ({"do": "activate"}, "invalid", "steps[0].role", None),
        ({"do": "activate", "role": "a", "env": {}}, "invalid", "steps[0].env", None),
        ({"do": "activate", "role": "a", "rolle": "b"}, "invalid", "steps[0].rolle", None),
        (activate("a("), "syntax", "steps[0].role", 2),
        (activate("a(x)"), "invalid", "steps[0].role", None),
        ({"do": "deactivate", "role": "!a"}, "unsupported", "steps[0].role", 0),
        (appoint("a(x"), "syntax", "steps[0].appointment", 3),
        (appoint("a", issuer=7), "type", "steps[0].issuer", None),
        (appoint("a", expires="soon"), "type", "steps[0].expires", None),
        (appoint("a", starts=True), "type", "steps[0].starts", None),
        (appoint("a", starts=5, expires=5), "invalid", "steps[0].appointment", None),
        ({"do": "revoke", "appointment": 7}, "type", "steps[0].appointment", None),
        ({"do": "set", "env": []}, "type", "steps[0].env", None),
        ({"do": "set", "env": {7: 1}}, "type", "steps[0].env", None),
        ({"do": "set", "env": {"hour": []}}, "type", "steps[0].env", None),
        ({"do": "permits", "privilege": "a("}, "syntax", "steps[0].privilege", 2),
        ({"do": "wait", "at": -1}, "invalid", "steps[0].at", None),
    ],
)
def test_steps_that_cannot_be_done(step: Any, kind: str, where: str, at: int | None) -> None:
    with pytest.raises(InputError) as caught:
        run_session(POLICY, [step])
    assert (caught.value.kind, caught.value.where, caught.value.at) == (kind, where, at)


@pytest.mark.parametrize("steps", [None, "activate", {"do": "wait"}, 7])
def test_steps_are_a_list(steps: Any) -> None:
    with pytest.raises(InputError) as caught:
        run_session(POLICY, steps)
    assert (caught.value.kind, caught.value.where) == ("type", "steps")


def test_a_run_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError) as caught:
        run_session(POLICY, [{"do": "wait"}] * (MAX_STEPS + 1))
    assert caught.value.kind == "too-large"
    monkeypatch.setattr(steps_module, "WORK_LIMIT", 100)
    steps = [appoint("hired(7)"), activate("employee(7)"), *[{"do": "wait"}] * 200]
    with pytest.raises(InputError) as caught:
        run_session(POLICY, steps)
    assert caught.value.kind == "too-large"
    assert caught.value.where is not None


def test_active_roles_are_spelled_as_their_steps_spell_them() -> None:
    results: Any = run_session(
        {"rules": [{"role": "pair(x, y)"}]},
        [
            {"do": "activate", "role": "pair(1,2)"},
            {"do": "activate", "role": " pair( 3, 4 ) "},
            {"do": "deactivate", "role": "pair(1, 2)"},
        ],
    )
    assert [result["active"] for result in results] == [
        ["pair(1,2)"],
        ["pair( 3, 4 )", "pair(1,2)"],
        ["pair( 3, 4 )"],
    ]
