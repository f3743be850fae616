"""The search: right on joins, bounded on what is hard on purpose."""

from __future__ import annotations

import itertools

import pytest

from policyengine.errors import InputError
from policyengine.roles import SEARCH_LIMIT, RolePolicy, Rule, Session, ground_atom, read_rule
from policyengine.roles.facts import Facts


def session_of(rule: Rule, *appointments: str) -> Session:
    session = Session(RolePolicy((rule,)))
    for text in appointments:
        session.appoint(text)
    return session


def test_joins_are_followed() -> None:
    path = read_rule("near(x, y)", appointments=["road(x, a)", "road(a, b)", "road(b, y)"])
    session = session_of(path, "road(1, 2)", "road(2, 3)", "road(2, 4)", "road(4, 5)", "road(9, 5)")
    outcome = session.activate("near(1, 5)")
    assert outcome.activation is not None
    assert outcome.activation.bindings == (("a", 2), ("b", 4), ("x", 1), ("y", 5))
    assert not session.activate("near(1, 3)").ok


def test_a_choice_is_taken_back() -> None:
    rule = read_rule("r", appointments=["p(a)", "q(a, b)", "s(b)"], constraints=["a != 1"])
    session = session_of(rule, "p(1)", "p(2)", "q(1, 1)", "q(2, 1)", "q(2, 2)", "s(1)", "s(3)")
    outcome = session.activate("r")
    assert outcome.activation is not None
    assert outcome.activation.bindings == (("a", 2), ("b", 1))


def test_what_is_found_does_not_hang_on_the_order_of_issue() -> None:
    rule = read_rule("r", appointments=["p(a)", "q(b)"])
    texts = ["p(10)", "p(9)", "p(z1)", "q(2)", "q(1)"]
    reasons = {
        session_of(rule, *order).activate("r").reason for order in itertools.permutations(texts)
    }
    assert reasons == {
        "`r` is active by rule 1: appointment `p(9)` and appointment `q(1)`, where a = 9 and b = 1"
    }


def test_conditions_that_share_nothing_do_not_multiply() -> None:
    letters = "abcdefgh"
    rule = read_rule("r", appointments=[*(f"p({each})" for each in letters), "q(y, y)"])
    session = session_of(rule, *(f"p({number})" for number in range(100)), "q(1, 2)")
    outcome = session.activate("r")
    assert outcome.reason.endswith("appointment `q(y, y)` is not held")
    assert session.work < 20_000


def test_a_search_that_is_hard_on_purpose_is_given_up() -> None:
    # A clique of ten among many that have only nine: the classic hard case.
    letters = "abcdefghij"
    pairs = [f"e({one}, {other})" for one, other in itertools.combinations(letters, 2)]
    session = session_of(read_rule("clique", appointments=pairs))
    for one, other in itertools.permutations(range(45), 2):
        if one % 9 != other % 9:
            session.appoint(f"e({one}, {other})")
    with pytest.raises(InputError) as caught:
        session.activate("clique")
    assert caught.value.kind == "too-large"
    assert str(SEARCH_LIMIT) in caught.value.message
    assert session.active == ()


def test_the_nearest_rule_is_found_within_bounds() -> None:
    rules = tuple(read_rule("r", appointments=["p(a)", "p(b)", f"q{n}(a, b)"]) for n in range(100))
    session = Session(RolePolicy(rules))
    for number in range(100):
        session.appoint(f"p({number})")
    outcome = session.activate("r")
    assert outcome.denial is not None
    assert [each.why for each in outcome.denial.missing] == ["appointment `q0(0, 0)` is not held"]


def test_facts_forget() -> None:
    facts = Facts()
    one, two = ground_atom("a(1, 2)"), ground_atom("a(1, 3)")
    facts.add(one)
    facts.add(two)
    assert set(facts) == {one, two}
    facts.discard(one)
    facts.discard(one)
    assert set(facts) == {two}
    assert one not in facts
    facts.discard(two)
    assert list(facts) == []
