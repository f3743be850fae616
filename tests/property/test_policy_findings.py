"""Findings on random small domains, against trying every subject and every event."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adminapp.catalog.models import EventType
from adminapp.policies import comparing, findings, valuerules, widening
from adminapp.policies.language import Language
from adminapp.policies.models import Policy
from adminapp.policies.scene import Scene
from adminapp.policies.widening import Above
from policyengine.attributes import AttributeType, Value, evaluate
from policyengine.events import AttributeSpec, EventTypes, TypeSpec

BIT = AttributeType("int", 0, 1)
TYPES = EventTypes(
    [
        TypeSpec("A", None, (AttributeSpec("a", BIT), AttributeSpec("b", BIT))),
        TypeSpec("B", "A", ()),
    ]
)
LANGUAGE = Language(
    subject={"subject.n": BIT}, roles=("x", "y"), types=TYPES, environment={}, values={}
)
SUBJECTS = [
    {
        **({} if number is None else {"subject.n": number}),
        **{f"subject.role.{name}": True for name in held},
    }
    for number, held in product([None, 0, 1], ["", "x", "y", "xy"])
]
EVENTS = [
    {name: value for name, value in (("a", a), ("b", b)) if value is not None}
    for a, b in product([None, 0, 1], repeat=2)
]
TERMS = [
    'subject.role == "x"',
    'subject.role == "y"',
    "subject.n == 1",
    "subject.n in [0, 1]",
    "event.a == 1",
    "event.a < 1",
    "event.b == 0",
    "has(event.b)",
    "!(event.a == 1)",
    "event.a == subject.n",
    "true",
]
WHEN = [
    "event.a == 1",
    "event.b == 0",
    "event.a == subject.n",
    'subject.role == "x"',
    "has(event.b)",
]


@cache
def holds(text: str, subject: int, event: int) -> bool:
    expression = LANGUAGE.by_role(LANGUAGE.parse(text, "A"))
    named = {f"event.{name}": value for name, value in EVENTS[event].items()}
    values: dict[str, Value] = {**SUBJECTS[subject], **named}
    return evaluate(expression, values)


def places() -> Iterable[tuple[int, int]]:
    return product(range(len(SUBJECTS)), range(len(EVENTS)))


def met(text: str) -> set[tuple[int, int]]:
    return {place for place in places() if holds(text, *place)}


def permitted(row: Policy) -> set[tuple[str, int, int, str]]:
    """Everything that a policy permits: type, subject, event and attribute ("" the event)."""
    found = set()
    for kind in ("A", "B") if row.event_type.name == "A" else ("B",):
        for subject, event in met(row.expression):
            lost = set()
            for rule in valuerules.read(row):
                assert rule.when is not None
                if not holds(rule.when, subject, event):
                    if rule.attribute is None or rule.otherwise == "withhold":
                        lost |= (
                            {"", "a", "b"} if rule.attribute in (None, *EVENTS[event]) else set()
                        )
                    else:
                        lost.add(rule.attribute)
            listed = (
                {"a", "b"}
                if row.attributes is None
                else {
                    *row.attributes,
                    *(rule.attribute for rule in valuerules.read(row) if rule.attribute),
                }
            )
            found |= {(kind, subject, event, name) for name in ({"", *listed} - lost)}
    return found


def policy(draw: Any, name: str, *, ruled: bool) -> Policy:
    parts = st.lists(st.sampled_from(TERMS), min_size=1, max_size=2).map(" && ".join)
    said = " || ".join(draw(st.lists(parts, min_size=1, max_size=2)))
    row = Policy(
        name=name,
        action="subscribe",
        event_type=EventType(name=draw(st.sampled_from(["A", "B"]))),
        expression=said,
        attributes=draw(st.none() | st.lists(st.sampled_from(["a", "b"]), unique=True)),
    )
    rule = st.fixed_dictionaries(
        {
            "attribute": st.sampled_from(["a", "b", None]),
            "when": st.sampled_from(WHEN),
        }
    )
    row.rules = valuerules.canonical(draw(st.lists(rule, max_size=1)) if ruled else [], "subscribe")
    return row


@st.composite
def domains(draw: st.DrawFn, letter: str = "p", *, ruled: bool = True) -> Scene:
    from datetime import UTC, datetime

    count = draw(st.integers(1, 3))
    rows = tuple(policy(draw, f"{letter}{number}", ruled=ruled) for number in range(count))
    return Scene(rows, LANGUAGE, datetime(2026, 1, 1, tzinfo=UTC))


def by_name(scene: Scene) -> dict[str, Policy]:
    return {row.name: row for row in scene.rows}


@settings(max_examples=120, deadline=None)
@given(domains())
def test_doubles_permit_nothing_more(scene: Scene) -> None:
    rows = by_name(scene)
    for finding in comparing.compared(scene, None):
        if finding.kind == "redundant":
            (other,) = finding.related
            assert permitted(rows[finding.policy]) <= permitted(rows[other])


@settings(max_examples=120, deadline=None)
@given(domains())
def test_void_rules_are_opened_by_somebody_else(scene: Scene) -> None:
    rows = by_name(scene)
    said = {
        (finding.policy, other)
        for finding in comparing.compared(scene, None)
        if finding.kind == "conflict"
        for other in finding.related
    }
    for one, other in product(rows.values(), repeat=2):
        if one is other:
            continue
        opened = False
        for rule in valuerules.read(one):
            what = rule.attribute if rule.otherwise == "drop" else ""
            opened = opened or any(
                (subject, event) in met(one.expression)
                and not holds(str(rule.when), subject, event)
                and (not what or name == what)
                for _, subject, event, name in permitted(other)
            )
        joins = any(
            "event.a == subject.n" in str((row.expression, row.rules)) for row in (one, other)
        )
        if (one.name, other.name) in said:
            assert opened
        elif opened and not joins:
            raise AssertionError((one.name, other.name))


@settings(max_examples=120, deadline=None)
@given(domains(ruled=False))
def test_what_is_unreachable_is(scene: Scene) -> None:
    for row in scene.rows:
        terms = [text for text, _ in LANGUAGE.alternatives(row.expression, row.event_type.name)]
        never = {text for text in terms if not met(text)}
        said = [each.message for each in findings._never(scene, row)]
        if not met(row.expression):
            assert said == ["its condition can never be met"]
        else:
            assert {message.split("`")[1] for message in said} == never
        for finding in findings._adds_nothing(scene, row):
            text = finding.message.split("`")[1]
            others = [each for each in terms if each != text] + (
                [text] if terms.count(text) > 1 else []
            )
            assert met(text) <= set().union(*map(met, others))


@settings(max_examples=120, deadline=None)
@given(domains(), domains("q"))
def test_wider_is_what_nobody_above_permits(scene: Scene, parent: Scene) -> None:
    granted = set().union(*(permitted(row) for row in parent.rows))
    for row in scene.rows:
        said = [each.severity for each in widening.wider(scene, Above("above", parent), row)]
        beyond = permitted(row) - granted
        if said == ["warning"]:
            assert beyond
        elif not said:
            assert not beyond
        else:
            assert said == ["unknown"]
