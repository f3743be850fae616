"""What policies permit, taken apart into grants, is what their text says: random small domains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adminapp.catalog.models import EventType
from adminapp.policies import valuerules
from adminapp.policies.grants import advertising, all_grants
from adminapp.policies.language import Language
from adminapp.policies.models import Policy
from policyengine.attributes import AttributeType, Value, evaluate
from policyengine.events import AttributeSpec, EventTypes, TypeSpec

NUMBER = AttributeType("int", 0, 2)
TYPES = EventTypes(
    [
        TypeSpec("A", None, (AttributeSpec("a", NUMBER), AttributeSpec("b", NUMBER))),
        TypeSpec("B", "A", (AttributeSpec("c", NUMBER),)),
        TypeSpec("C", "A", ()),
        TypeSpec("D", "B", (AttributeSpec("d", NUMBER),)),
        TypeSpec("E", "B", ()),
    ]
)
ROLES = ("x", "y", "z")
LANGUAGE = Language(
    subject={"subject.n": NUMBER},
    roles=ROLES,
    types=TYPES,
    environment={"env.on": AttributeType("bool"), "env.level": NUMBER},
    values={"env.level": 1},
)
WHO = [
    'subject.role == "x"',
    'subject.role == "y"',
    'subject.role == "z" || subject.n > 1',
    "subject.n == env.level",
    "env.on",
    "!env.on",
    "true",
]
WHAT = [
    "event.a == 1",
    "event.a == subject.n",
    "event.b in [0, 2]",
    "has(event.c)",
    "!(event.b > 0)",
]
WHEN = [
    "event.a == 1",
    "event.a == subject.n",
    "event.b == 0",
    'subject.role == "x"',
    "env.level > 0",
]


def policy(number: int, action: str, kind: str, expression: str, **more: Any) -> Policy:
    row = Policy(
        name=f"p{number}",
        action=action,
        event_type=EventType(name=kind),
        expression=expression,
        attributes=more.get("attributes"),
    )
    row.rules = valuerules.canonical(more.get("rules", []), action)
    return row


def rules() -> st.SearchStrategy[list[dict[str, Any]]]:
    about = st.fixed_dictionaries(
        {
            "attribute": st.sampled_from(["a", "b"]),
            "when": st.sampled_from(WHEN),
            "otherwise": st.sampled_from(["drop", "suppress", "withhold"]),
        }
    )
    whole = st.fixed_dictionaries({"attribute": st.none(), "when": st.sampled_from(WHEN)})
    return st.lists(st.one_of(about, whole), max_size=3)


@st.composite
def domains(draw: st.DrawFn) -> list[Policy]:
    rows = []
    for number in range(draw(st.integers(1, 4))):
        action = draw(st.sampled_from(["advertise", "publish", "subscribe"]))
        kind = draw(st.sampled_from(TYPES.names))
        said = draw(st.sampled_from(WHO))
        if action == "advertise":
            rows.append(policy(number, action, kind, said))
            continue
        known = [text for text in WHAT if kind != "C" or "event.c" not in text]
        said = f"({said}) && ({draw(st.sampled_from([*known, 'true']))})"
        listed = draw(st.none() | st.lists(st.sampled_from(["a", "b"]), unique=True))
        rows.append(policy(number, action, kind, said, attributes=listed, rules=draw(rules())))
    return rows


def subjects() -> st.SearchStrategy[dict[str, Value]]:
    roles = {f"subject.role.{name}": st.just(True) for name in ROLES}
    return st.fixed_dictionaries({}, optional={"subject.n": st.integers(0, 2), **roles})


def events() -> st.SearchStrategy[tuple[str, dict[str, Value]]]:
    def of(kind: str) -> st.SearchStrategy[tuple[str, dict[str, Value]]]:
        names = [spec.name for spec in TYPES.attributes(kind)]
        values = st.fixed_dictionaries({}, optional={name: st.integers(0, 2) for name in names})
        return values.map(lambda found: (kind, found))

    return st.sampled_from(TYPES.names).flatmap(of)


def above(kind: str) -> tuple[str, ...]:
    return (kind, *TYPES.ancestors(kind))


def holds(text: str, kind: str, subject: Mapping[str, Value], event: Mapping[str, Value]) -> bool:
    """The text itself, evaluated."""
    expression = LANGUAGE.by_role(LANGUAGE.parse(text, kind))
    named = {f"event.{name}": value for name, value in event.items()}
    return evaluate(expression, {**subject, **named, **LANGUAGE.values})


def may_publish(rows: list[Policy], kind: str, subject: Mapping[str, Value]) -> bool:
    """Whether a subject meets what is asked for of every type that a type promises."""
    for each in {kind, *TYPES.subtree(kind)}:
        asked = [
            row for row in rows if row.action == "advertise" and row.event_type.name in above(each)
        ]
        if asked and not any(
            holds(row.expression, row.event_type.name, subject, {}) for row in asked
        ):
            return False
    return True


def wanted(
    rows: list[Policy], action: str, kind: str, event: dict[str, Value], subject: dict[str, Value]
) -> set[str] | None:
    """What is permitted, None where nothing is: policy by policy, by the engine's own rules."""
    found: set[str] | None = None
    for row in rows:
        if row.action != action or row.event_type.name not in above(kind):
            continue
        if not holds(row.expression, row.event_type.name, subject, event):
            continue
        if action == "publish" and not may_publish(rows, kind, subject):
            continue
        ruled = valuerules.read(row)
        engine = valuerules.engine_policy(row.event_type.name, ruled, LANGUAGE)
        decide = engine.publication if action == "publish" else engine.delivery
        listed = set(row.attributes or ()) | {rule.attribute for rule in ruled if rule.attribute}
        facts = {
            name: value
            for name, value in subject.items()
            if name in LANGUAGE.subject
            or any(f'"{name[-1]}"' in rule.when for rule in ruled if rule.when)
        }
        outcome = decide([valuerules.HOLDER], kind, event, subject=facts)
        if not outcome.withheld:
            left = set(outcome.values)
            found = (found or set()) | (left if row.attributes is None else left & listed)
    return found


def granted(
    rows: list[Policy], action: str, kind: str, event: dict[str, Value], subject: dict[str, Value]
) -> set[str] | None:
    """What the grants permit, as agents add them up."""
    found: set[str] | None = None
    seen = {f"event.{name}": value for name, value in event.items()}
    for grant in all_grants(rows, LANGUAGE, advertising(rows, LANGUAGE, rows)):
        if grant.policy.action != action or grant.root not in above(kind):
            continue
        bound = [each.for_subject(subject) for each in grant.conjunctions]
        if any(way is not None and all(part.holds(seen) for part in way) for way in bound):
            names = set(event) if grant.attributes is None else set(event) & set(grant.attributes)
            found = (found or set()) | names
    return found


@settings(max_examples=150, deadline=None)
@given(domains(), events(), subjects(), st.sampled_from(["publish", "subscribe"]))
def test_grants_say_what_the_policies_say(
    rows: list[Policy], event: tuple[str, dict[str, Value]], subject: dict[str, Value], action: str
) -> None:
    kind, values = event
    assert granted(rows, action, kind, values, subject) == wanted(
        rows, action, kind, values, subject
    )


@settings(max_examples=100, deadline=None)
@given(domains(), subjects())
def test_the_types_that_a_grant_decides_are_each_decided_once(
    rows: list[Policy], subject: dict[str, Value]
) -> None:
    """What pages show by single types is what agents do by sub-trees."""
    found = all_grants(rows, LANGUAGE, advertising(rows, LANGUAGE, rows))
    for row in rows:
        own = [grant for grant in found if grant.policy is row]
        numbers = [grant.first + n for grant in own for n in range(len(grant.conjunctions))]
        assert numbers == list(range(len(numbers)))
        below = {row.event_type.name, *TYPES.subtree(row.event_type.name)}
        assert {name for grant in own for name in grant.types} == below
        for kind in below:
            deciding = {grant.root for grant in own if kind in grant.types}
            assert len(deciding) == 1

            def met(grants: list[Any]) -> bool:
                return any(
                    way.for_subject(subject) is not None
                    for grant in grants
                    for way in grant.conjunctions
                )

            exact = met([grant for grant in own if kind in grant.types])
            assert exact == met([grant for grant in own if grant.root in above(kind)])
