"""Policies in normal form mean what their text says, roles and joins included."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adminapp.policies.language import Language
from adminapp.roles.mapping import role_attribute
from policyengine.attributes import (
    And,
    AtLeast,
    AttributeType,
    Equal,
    Expression,
    Join,
    Literal,
    Not,
    Or,
    Test,
    Value,
    to_text,
)
from policyengine.errors import InputError
from policyengine.events import AttributeSpec, EventTypes, TypeSpec

TEXT = AttributeType("string")
CARRIERS = AttributeType("enum", values=("AA", "UA"))
ROLES = ("airline", "airport", "press")
LANGUAGE = Language(
    subject={"subject.carrier": CARRIERS, "subject.level": AttributeType("int")},
    roles=ROLES,
    types=EventTypes(
        [
            TypeSpec(
                "Flight",
                None,
                (AttributeSpec("carrier", CARRIERS), AttributeSpec("who", TEXT)),
            ),
            TypeSpec("Departure", "Flight", (AttributeSpec("delay", AttributeType("int")),)),
            TypeSpec("Arrival", "Flight", (AttributeSpec("gate", TEXT),)),
        ]
    ),
)


def holds(
    expression: Expression,
    subject: Mapping[str, Value],
    roles: set[str],
    event: Mapping[str, Value],
) -> bool:
    """The meaning, written down anew: a test on roles holds when one active role satisfies it."""

    def value(name: str) -> Value | None:
        return subject.get(name, event.get(name))

    def test(node: Test) -> bool:
        if node.attribute == "subject.role":
            return {
                "==": lambda: node.value in roles,
                "!=": lambda: bool(roles) and node.value not in roles,
                "in": lambda: bool(roles & set(node.value)),
                "has": lambda: bool(roles),
            }[node.op]()
        actual = value(node.attribute)
        if actual is None:
            return False
        return {
            "==": lambda: actual == node.value,
            "!=": lambda: actual != node.value,
            "<": lambda: actual < node.value,
            ">=": lambda: actual >= node.value,
            "in": lambda: actual in node.value,
            "has": lambda: True,
        }[node.op]()

    def run(node: Expression) -> bool:
        match node:
            case And(terms):
                return all(run(term) for term in terms)
            case Or(terms):
                return any(run(term) for term in terms)
            case Not(term):
                return not run(term)
            case AtLeast(count, terms):
                return sum(run(term) for term in terms) >= count
            case Equal(left, right):
                if "subject.role" in (left, right):
                    other = right if left == "subject.role" else left
                    return value(other) in roles
                return value(left) is not None and value(left) == value(right)
            case _:
                return test(node)

    return run(expression)


def permitted(
    text: str, subject: Mapping[str, Value], roles: set[str], event: Mapping[str, Value]
) -> bool:
    """The same by normal form, as agents go about it: first who, then what."""
    values = {**subject, **{role_attribute(name): True for name in roles}}
    for conjunction in LANGUAGE.conjunctions(text, "Flight"):
        wanted = conjunction.for_subject(values)
        if wanted is not None and all(literal.holds(event) for literal in wanted):
            return True
    return False


_role_tests = st.one_of(
    st.builds(Test, st.just("subject.role"), st.sampled_from(["==", "!="]), st.sampled_from(ROLES)),
    st.builds(
        Test,
        st.just("subject.role"),
        st.just("in"),
        st.lists(st.sampled_from(ROLES), min_size=1, unique=True).map(
            lambda names: tuple(sorted(names))
        ),
    ),
    st.just(Test("subject.role", "has")),
)
_value_tests = st.one_of(
    st.builds(
        Test,
        st.sampled_from(["subject.carrier", "event.carrier"]),
        st.sampled_from(["==", "!="]),
        st.sampled_from(["AA", "UA"]),
    ),
    st.builds(Test, st.just("event.delay"), st.sampled_from(["<", ">="]), st.integers(-1, 2)),
    st.builds(Test, st.sampled_from(["subject.carrier", "event.delay"]), st.just("has")),
)
_leaves = st.one_of(_role_tests, _value_tests)
_trees = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda terms: And(tuple(terms))),
        st.lists(inner, min_size=1, max_size=3).map(lambda terms: Or(tuple(terms))),
        st.lists(inner, min_size=2, max_size=3).map(lambda terms: AtLeast(2, tuple(terms))),
        inner.map(Not),
    ),
    max_leaves=6,
)
_join = st.sampled_from(
    [Equal("subject.carrier", "event.carrier"), Equal("event.carrier", "subject.carrier")]
)
_subjects = st.fixed_dictionaries({}, optional={"subject.carrier": st.sampled_from(["AA", "UA"])})
_events = st.fixed_dictionaries(
    {},
    optional={
        "event.carrier": st.sampled_from(["AA", "UA"]),
        "event.delay": st.integers(-1, 2),
    },
)


@settings(max_examples=200, deadline=None)
@given(_trees, st.booleans(), _join, _subjects, st.sets(st.sampled_from(ROLES)), _events)
def test_the_normal_form_means_the_text(
    tree: Expression,
    joined: bool,
    join: Equal,
    subject: dict[str, Value],
    roles: set[str],
    event: dict[str, Value],
) -> None:
    expression = And((join, tree)) if joined else tree
    wanted = holds(expression, subject, roles, event)
    assert permitted(to_text(expression), subject, roles, event) == wanted


@pytest.mark.parametrize(
    ("text", "granted"),
    [
        ('subject.role == "airline" && subject.role == "press"', {"airline press"}),
        ('subject.role == "airline" && !(subject.role == "press")', {"airline"}),
        ('subject.role == "airline" && subject.role != "press"', {"airline"}),
        ('subject.role != "press"', {"airline"}),
        ('!(subject.role == "press")', {"", "airline"}),
        ('subject.role in ["press", "airport"]', {"press", "airline press"}),
        ('subject.role.startsWith("air")', None),
        ("has(subject.role)", {"airline", "press", "airline press"}),
        ("!has(subject.role)", {""}),
        ('atLeast(2, [subject.role == "airline", subject.role == "press"])', {"airline press"}),
    ],
)
def test_many_roles_at_once(text: str, granted: set[str] | None) -> None:
    if granted is None:
        with pytest.raises(InputError) as failure:
            LANGUAGE.conjunctions(text, "Flight")
        assert failure.value.kind == "type"  # roles are a closed set of names, not open text
        return
    found = {
        roles
        for roles in ("", "airline", "press", "airline press")
        if permitted(text, {}, set(roles.split()), {})
    }
    assert found == granted


def test_the_two_sides_come_apart() -> None:
    (found,) = LANGUAGE.conjunctions(
        'subject.role == "airline" && event.delay > 120 && event.carrier == subject.carrier',
        "Flight",
    )
    assert found.subject == (Literal("subject.role.airline", "==", True),)
    assert found.event == (Literal("event.delay", ">", 120),)
    assert found.joins == (Join("subject.carrier", "event.carrier"),)


def test_a_join_asks_that_both_sides_are_there() -> None:
    text = "event.carrier == subject.carrier"
    for own, other in product((None, "UA"), (None, "UA", "AA")):
        subject = {} if own is None else {"subject.carrier": own}
        event = {} if other is None else {"event.carrier": other}
        wanted = own is not None and own == other
        assert permitted(text, subject, set(), event) == wanted
    # The event says what the subject does not: nothing is granted by that.
    assert not permitted(text, {}, set(), {"event.carrier": "UA"})


@pytest.mark.parametrize(
    ("text", "kind", "at"),
    [
        ("event.carrier == event.who", None, None),
        ('subject.role == "pilot"', "unknown", None),
        ("subject.role < subject.carrier", None, None),
        ('event.speed == "x"', "unknown", 0),
        ("true && subject.name == 1", "unknown", 8),
        ("!(event.carrier == subject.carrier)", "unsupported", None),
    ],
)
def test_what_cannot_be_said(text: str, kind: str | None, at: int | None) -> None:
    with pytest.raises(InputError) as failure:
        LANGUAGE.conjunctions(text, "Flight")
    if kind:
        assert failure.value.kind == kind
    if at is not None:
        assert failure.value.at == at
    (problem,) = LANGUAGE.problems(text, "Flight")
    assert problem.pointer == "/expression"
    assert problem.position == failure.value.at


def test_two_values_of_one_side_are_not_compared() -> None:
    language = Language(
        subject={"subject.a": TEXT, "subject.b": TEXT}, roles=(), types=LANGUAGE.types
    )
    with pytest.raises(InputError, match="compares two values of one side"):
        language.conjunctions("subject.a == subject.b", "Flight")


def test_without_any_role_no_name_is_right() -> None:
    language = Language(subject={}, roles=(), types=LANGUAGE.types)
    with pytest.raises(InputError, match="no known role") as failure:
        language.conjunctions('true && subject.role == "airline"', "Flight")
    assert failure.value.at == 8
    assert language.conjunctions("has(subject.role)", "Flight") == ()


def test_the_whole_sub_tree_and_what_is_above_can_be_named() -> None:
    assert set(LANGUAGE.attribute_names("Flight")) == {"carrier", "who", "delay", "gate"}
    assert set(LANGUAGE.attribute_names("Departure")) == {"carrier", "who", "delay"}
    assert LANGUAGE.problems("event.delay > 1", "Flight") == []
    assert LANGUAGE.problems("event.delay > 1", "Arrival")[0].kind == "unknown"


@pytest.mark.parametrize(
    ("names", "pointers"),
    [
        (None, []),
        ([], []),
        (["carrier", "gate"], []),
        (["carrier", "gat"], ["/attributes/1"]),
        (["carrier", "carrier"], ["/attributes"]),
        ("carrier", ["/attributes"]),
        ([1], ["/attributes"]),
    ],
)
def test_attributes_that_a_policy_is_restricted_to(names: object, pointers: list[str]) -> None:
    found = LANGUAGE.attribute_problems(names, "Flight")
    assert [problem.pointer for problem in found] == pointers
