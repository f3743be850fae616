"""The planner: least sets, exact costs, bounds, reasons, limits, and how it stands forks."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pytest

from policyengine.errors import InputError
from policyengine.privacy import (
    Filter,
    Planned,
    minimal_sets,
    plan_of,
    plan_split,
    planner,
    violations,
)
from tests.support.forks import forked

# Seven points in seven lines: no two colours leave every line with both (Fano plane).
FANO = ["abc", "ade", "afg", "bdf", "beg", "cdg", "cef"]
TRIANGLE = ["ab", "bc", "ac"]


def plan(attributes: str, risky: list[Any], c: int, m: int, **given: Any) -> Planned:
    made = plan_split(list(attributes), risky, colluding=c, max_overlays=m, **given)
    assert made.plan.attributes == set(attributes)
    assert violations(made.plan, risky, c) == ()
    assert len(made.plan.overlays) <= m
    assert list(made.plan.overlays) == sorted(made.plan.overlays, key=sorted)
    assert all(made.plan.overlays)
    return made


def test_nothing_risky_travels_together() -> None:
    assert plan("cab", [], 1, 5).plan == plan_of(["abc"])
    nothing = plan("", [], 3, 1)
    assert (nothing.plan, nothing.optimal, nothing.gap) == (plan_of([]), True, 0.0)
    assert plan("a", ["a"], 1, 1).plan == plan_of([], "a")
    assert plan("ab", ["a"], 1, 1).plan == plan_of(["b"], "a")


@pytest.mark.parametrize(
    ("attributes", "risky", "c", "m", "encrypted", "overlays"),
    [
        ("abc", TRIANGLE, 1, 3, 0, 3),
        ("abc", TRIANGLE, 1, 2, 1, 2),
        ("abc", TRIANGLE, 1, 1, 2, 1),
        ("abc", TRIANGLE, 2, 9, 2, 1),
        ("abcdefg", FANO, 1, 2, 1, 2),
        ("abcdefg", FANO, 1, 3, 0, 3),
        ("abcdefg", FANO, 2, 7, 0, 7),
        ("abcdefg", FANO, 10**30, 10**30, 3, 1),
    ],
)
def test_known_answers(
    attributes: str, risky: list[str], c: int, m: int, encrypted: int, overlays: int
) -> None:
    made = plan(attributes, risky, c, m)
    assert (made.optimal, made.gap) == (True, 0.0)
    assert (len(made.plan.encrypted), len(made.plan.overlays)) == (encrypted, overlays)
    assert (made.cost, made.cost_bound, made.overlays_bound) == (encrypted, encrypted, overlays)
    assert len(made.notes) == encrypted


def test_the_cheapest_is_encrypted() -> None:
    costs = {"a": 0.1, "b": 0.3, "c": Fraction(1, 3)}
    made = plan("abc", TRIANGLE, 1, 1, encrypt_cost=costs)
    assert made.plan.encrypted == {"a", "b"}
    assert made.cost == Fraction(2, 5)  # 0.1 and 0.3 as written, not as binary fractions
    one_dear = plan("abcd", ["ab", "ac", "ad"], 1, 1, encrypt_cost={"a": 3.5})
    assert (one_dear.plan.encrypted, one_dear.cost) == (set("bcd"), 3)
    equal = plan("abcd", ["ab", "ac", "ad"], 1, 1, encrypt_cost={"a": 3})
    assert equal.plan.encrypted == {"a"}  # between equals the fewer, here beside as few overlays
    assert equal.optimal


def test_what_costs_nothing_may_save_an_overlay() -> None:
    made = plan("abc", TRIANGLE, 1, 3, encrypt_cost={"b": 0})
    assert (made.cost, made.plan, made.optimal) == (0, plan_of(["a", "c"], "b"), True)
    assert made.notes == ("`b` is encrypted, as that costs nothing",)
    assert plan("ab", [], 1, 3, encrypt_cost={"a": 0, "b": 0}).cost == 0


def test_over_delivery_is_weighed_last() -> None:
    risky = ["ab"]
    near_a = plan("abcd", risky, 1, 2, filters=[Filter(frozenset("acd"), 2.5)])
    assert near_a.plan == plan_of(["acd", "b"])
    assert (near_a.over_delivery, near_a.optimal) == (0, True)
    filters = [Filter(frozenset("ac"), 0.5), Filter(frozenset("bc"), 1), Filter(frozenset("bc"))]
    assert plan("abc", risky, 1, 2, filters=filters).plan == plan_of(["a", "bc"])
    unavoidable = plan("ab", risky, 1, 2, filters=[Filter(frozenset("ab"), 0.5)])
    assert unavoidable.over_delivery == Fraction(1, 2)
    single = plan(
        "ab", risky, 1, 2, filters=[Filter(frozenset("a"), 9), Filter(frozenset("ab"), 0)]
    )
    assert (single.over_delivery, single.optimal) == (0, True)


def test_encryption_is_explained() -> None:
    assert plan("ab", ["a"], 1, 1).notes == ("`a` is encrypted, as it is risky by itself",)
    (few,) = plan("abc", ["ab"], 2, 9).notes
    assert few == (
        "`a` is encrypted, as `a`, `b` are risky together and too few to be spread over 3"
        " overlays, which 2 colluding ones ask for"
    )
    (crowded,) = plan("abc", TRIANGLE, 1, 2).notes
    assert "cannot be spread over 2 of 2 overlays with the rest" in crowded
    names = "abcdefghij"
    (wide,) = plan(names, [names], 1, 1).notes
    assert "`h`, … are risky together" in wide


def test_least_sets() -> None:
    sets = [frozenset(one) for one in ("abc", "ab", "ab", "cd", "acd", "b", "e")]
    assert minimal_sets(sets) == (frozenset("b"), frozenset("e"), frozenset("cd"))
    assert minimal_sets([]) == ()


def test_the_greedy_plan_is_safe_and_knows_its_gap() -> None:
    greedy = plan("abcdefg", FANO, 1, 2, time_limit=0)
    assert not greedy.optimal
    assert (greedy.cost, greedy.cost_bound, greedy.gap) == (1, 0, 1.0)
    forced = plan("abcd", ["ab", "cd", "ac"], 1, 1, time_limit=0)
    assert (forced.cost, forced.cost_bound, forced.optimal) == (2, 2, True)
    unsure = plan("abcdef", ["ab", "bc", "cd", "de", "ae", "f"], 1, 6, time_limit=0)
    assert (unsure.cost, unsure.cost_bound, unsure.optimal) == (1, 1, False)
    assert 0 < unsure.gap < 1  # the number of overlays is not proven


def test_no_time_leaves_the_greedy_plan() -> None:
    instant = plan("abcdefg", FANO, 1, 2, time_limit=1e-9)
    assert not instant.optimal
    assert instant.cost == 1


def test_what_is_too_large_for_the_solver_is_planned_greedily(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planner, "MAX_CELLS", 3)
    assert not plan("abcdefg", FANO, 1, 2).optimal


@pytest.mark.parametrize(
    ("change", "kind", "where", "suggestion"),
    [
        ({"risky": [["nmae"]]}, "unknown", "risky", "name"),
        ({"encrypt_cost": {"agge": 1}}, "unknown", "encrypt_cost", "age"),
        ({"filters": [Filter(frozenset({"tonw"}))]}, "unknown", "filters", "town"),
        ({"risky": [[]]}, "invalid", "risky", None),
        ({"attributes": ["a", "a"]}, "invalid", "attributes", None),
        ({"attributes": [""]}, "invalid", "attributes", None),
        ({"colluding": -1}, "invalid", "colluding", None),
        ({"max_overlays": 0}, "invalid", "max_overlays", None),
        ({"encrypt_cost": {"age": -1}}, "invalid", "encrypt_cost", None),
        ({"encrypt_cost": {"age": float("nan")}}, "invalid", "encrypt_cost", None),
        ({"encrypt_cost": {"age": float("inf")}}, "invalid", "encrypt_cost", None),
        ({"encrypt_cost": {"age": 10**400}}, "too-large", "encrypt_cost", None),
        ({"encrypt_cost": {"age": 1e-300}}, "too-large", "encrypt_cost", None),
        ({"filters": [Filter(frozenset({"age"}), -1)]}, "invalid", "filters", None),
        ({"time_limit": float("nan")}, "invalid", "time_limit", None),
        ({"time_limit": -1}, "invalid", "time_limit", None),
        ({"time_limit": 1e9}, "too-large", "time_limit", None),
        ({"attributes": [f"a{n}" for n in range(257)]}, "too-large", "attributes", None),
        ({"risky": [["age"]] * 10_001}, "too-large", "risky", None),
        ({"filters": [Filter(frozenset({"age"}))] * 1_001}, "too-large", "filters", None),
    ],
)
def test_questions_are_checked(
    change: dict[str, Any], kind: str, where: str, suggestion: str | None
) -> None:
    asked: dict[str, Any] = {
        "attributes": ["name", "age", "town"],
        "risky": [],
        "colluding": 1,
        "max_overlays": 2,
    }
    with pytest.raises(InputError) as caught:
        plan_split(**(asked | change))
    problem = caught.value
    assert (problem.kind, problem.where, problem.suggestion) == (kind, where, suggestion)


def test_one_question_has_one_answer() -> None:
    risky = ["abc", "ade", "bdf", "cef", "ag", "bg", "cg", "hi", "ai"]
    filters = [Filter(frozenset("ab")), Filter(frozenset("ghi"), 2)]
    first = plan("abcdefghi", risky, 1, 4, filters=filters)
    assert all(
        plan("abcdefghi", risky[::step], 1, 4, filters=filters) == first for step in (1, -1, 1)
    )


def test_the_solver_stands_forks_and_threads() -> None:
    expected = plan("abcdefg", FANO, 1, 2)  # the parent has run it before it forks
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: plan("abcdefg", FANO, 1, 2), range(4)))
    assert made == [expected] * 4

    def solve() -> bytes:
        return plan("abcdefg", FANO, 1, 2).plan.encode()

    assert [forked(solve) for _ in range(2)] == [expected.plan.encode()] * 2


def test_the_solver_is_loaded_by_the_first_plan_that_needs_it() -> None:
    code = (
        "import sys; from policyengine.privacy import plan_split as p;"
        "p(list('ab'), ['ab'], colluding=1, max_overlays=2);"
        "assert 'ortools' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_collusion_nothing_is_spread_or_encrypted() -> None:
    planned = plan("abc", ["ab", "abc", "c"], 0, 3)
    assert planned.optimal
    assert planned.plan.overlays == (frozenset("abc"),)
    assert planned.plan.encrypted == frozenset()
