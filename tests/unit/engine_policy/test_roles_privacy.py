"""Activation of roles, the gate, splitting and the bounds of reassembly."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.errors import GateError, InputError
from policyengine.privacy import CLASSES, Reassembler, gate, split
from policyengine.roles import RoleRule, active_roles

RULES = [
    RoleRule("officer", ("employee",), ("sworn",), "env.hour >= 9 && env.hour < 17"),
    RoleRule("employee", (), ("hired",)),
    RoleRule("officer", ("employee",), ("on-call",)),
    RoleRule("guest", (), (), "!(env.closed)"),
    RoleRule("north", (), (), "env.site == 'north' && env.open"),
]


@pytest.mark.parametrize(
    ("appointments", "environment", "expected"),
    [
        ((), {}, set()),
        (("hired",), {}, {"employee"}),
        (("hired", "sworn"), {}, {"employee"}),
        (("hired", "sworn"), {"hour": 10}, {"employee", "officer"}),
        (("hired", "sworn"), {"env.hour": 8.5}, {"employee"}),
        (("hired", "on-call"), {"hour": 3}, {"employee", "officer"}),
        (("sworn",), {"hour": 10}, set()),
        ((), {"closed": False}, {"guest"}),
        ((), {"closed": True}, set()),
        ((), {"site": "north", "open": True}, {"north"}),
        ((), {"site": "north"}, set()),
    ],
)
def test_active_roles(appointments: Any, environment: Any, expected: set[str]) -> None:
    assert active_roles(RULES, appointments, environment) == expected


def test_roles_that_need_one_another_are_refused() -> None:
    with pytest.raises(InputError, match="cycle") as caught:
        active_roles([RoleRule("a", ("b",)), RoleRule("b", ("a",))], (), {})
    assert caught.value.kind == "invalid"
    with pytest.raises(InputError, match="cycle"):
        active_roles([RoleRule("a", ("a",))], (), {})


def test_a_prerequisite_without_a_rule_is_never_active() -> None:
    assert active_roles([RoleRule("a", ("nobody",))], (), {}) == frozenset()


@pytest.mark.parametrize(
    ("constraint", "kind"), [("env.hour >=", "syntax"), ("env.hour == 'x'", "type")]
)
def test_constraints_that_cannot_be_read_name_the_role(constraint: str, kind: str) -> None:
    with pytest.raises(InputError) as caught:
        active_roles([RoleRule("late", (), (), constraint)], (), {"hour": 1})
    assert (caught.value.kind, caught.value.where) == (kind, "late")
    assert caught.value.at is not None


@pytest.mark.parametrize("pia", CLASSES)
def test_a_key_satisfies_the_gate(pia: str) -> None:
    gate(pia, has_keys=True, overlays=["a", "b"])


@pytest.mark.parametrize(
    ("pia", "overlays", "refused"),
    [
        ("identifying", [], True),
        ("confidential", ["a"], True),
        ("quasi-identifying", ["a"], False),
        ("quasi-identifying", [], False),
        ("quasi-identifying", ["a", "a"], False),
        ("quasi-identifying", ["a", "b"], True),
        ("non-confidential", ["a", "b"], False),
    ],
)
def test_the_gate_without_a_key(pia: str, overlays: list[str], refused: bool) -> None:
    if not refused:
        gate(pia, has_keys=False, overlays=overlays)
        return
    with pytest.raises(GateError) as caught:
        gate(pia, has_keys=False, overlays=overlays)
    assert len(caught.value.reasons) == 1
    assert pia in caught.value.reasons[0]


def test_a_class_that_does_not_exist_comes_with_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        gate("confidental", has_keys=True, overlays=[])
    assert (caught.value.kind, caught.value.suggestion) == ("unknown", "confidential")


def test_split_follows_the_plan() -> None:
    values: dict[str, Any] = {"a": 1, "b": 2, "c": 3}
    assert split(values, []) == [values]
    assert split(values, [["a"], ["b", "z"]]) == [{"a": 1, "c": 3}, {"b": 2}]
    assert split({}, [["a"], ["b"], []]) == [{}, {}, {}]
    with pytest.raises(InputError) as caught:
        split(values, [["a"], ["b", "a"]])
    assert (caught.value.kind, caught.value.where) == ("invalid", "a")
    assert split(values, [["a", "a"], []]) == [values, {}]


def test_reassembly_is_bounded() -> None:
    reassembler = Reassembler(window=2)
    for name in ("p1", "p2", "p3"):
        assert reassembler.add(name, 0, 2, {"a": 1}) is None
    assert len(reassembler) == 2
    assert reassembler.missing("p1") == ()
    assert reassembler.missing("p3") == (1,)
    assert reassembler.add("p1", 1, 2, {"b": 1}) is None  # its first part was given up
    for number in range(10):
        whole = reassembler.add(f"w{number}", 0, 1, {"a": number})
        assert whole is not None
        assert whole.values == {"a": number}
    assert reassembler.add("w9", 0, 1, {"a": 0}) is None
    assert reassembler.add("w0", 0, 1, {"a": 0}) is not None  # too long ago to be remembered
    with pytest.raises(InputError):
        Reassembler(window=0)


def test_publications_expire() -> None:
    reassembler = Reassembler(window=10)
    reassembler.add("timed", 0, 2, {}, now=100.0)
    reassembler.add("untimed", 0, 2, {})
    assert reassembler.expire(105.0, max_age=10) == ()
    assert reassembler.expire(111.0, max_age=10) == ("timed",)
    assert reassembler.missing("timed") == ()
    assert reassembler.expire(116.0, max_age=10) == ("untimed",)
    assert len(reassembler) == 0


def test_the_first_copy_of_a_part_counts() -> None:
    reassembler = Reassembler(window=10)
    reassembler.add("p", 1, 2, {"b": 1}, meta="first")
    reassembler.add("p", 1, 2, {"b": 9}, meta="second")
    whole = reassembler.add("p", 0, 2, {"a": 1})
    assert whole is not None
    assert (whole.publication, whole.values, whole.meta) == ("p", {"a": 1, "b": 1}, (None, "first"))


@pytest.mark.parametrize(("part", "parts"), [(-1, 2), (2, 2), (0, 0), (0, 10**9)])
def test_parts_that_cannot_be(part: int, parts: int) -> None:
    with pytest.raises(InputError) as caught:
        Reassembler(window=1).add("p", part, parts, {})
    assert caught.value.kind == "invalid"


def test_parts_that_disagree_about_their_number() -> None:
    reassembler = Reassembler(window=1)
    reassembler.add("p", 0, 2, {})
    with pytest.raises(InputError) as caught:
        reassembler.add("p", 1, 3, {})
    assert caught.value.where == "parts"
