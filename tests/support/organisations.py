"""Random organisations in a database, and a plain reading of them that shares no code with ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

from hypothesis import strategies as st

from adminapp.catalog.models import Attribute, EventType, SubjectAttribute
from adminapp.identity.models import Domain, Principal
from adminapp.policies.models import Policy
from adminapp.roles.models import Appointment, Role, RoleRule
from policyengine.attributes import (
    And,
    AtLeast,
    AttributeType,
    Equal,
    Expression,
    Not,
    Or,
    Test,
    evaluate,
    to_text,
)

CARRIERS = ("AA", "UA")
STATIONS = ("s1", "s2")
ROLES = ("clerk", "pilot", "chief", "guard")
STANDINGS = ("hired", "trained", "sworn")
TYPES = {"Flight": ("carrier",), "Departure": ("carrier", "delay")}
ROLE = "subject.role"
NOON = datetime(2026, 5, 3, 12, tzinfo=UTC)
MOMENTS = tuple(NOON + timedelta(hours=hours) for hours in (-1, 0, 1))
SCHEMA = {
    "subject.carrier": {"type": "enum", "values": list(CARRIERS)},
    "subject.level": {"type": "int", "min": 0, "max": 3},
    "event.carrier": {"type": "enum", "values": list(CARRIERS)},
    "event.delay": {"type": "int", "min": 0, "max": 2},
}


@dataclass(frozen=True)
class Person:
    """A principal: attributes, and appointments as name, parameters, start and end."""

    name: str
    attributes: Mapping[str, Any]
    appointments: tuple[tuple[str, tuple[str, ...], datetime, datetime | None], ...]
    active: bool = True


@dataclass(frozen=True)
class Rule:
    """A policy."""

    name: str
    action: str
    type: str
    expression: Expression
    attributes: tuple[str, ...] | None = None
    enabled: bool = True
    valid_from: datetime | None = None
    valid_until: datetime | None = None


@dataclass(frozen=True)
class Organisation:
    """Everything that decides who may do what.

    Args:
        roles: rules of each role: prerequisites and appointments; a role needs those before it.
        people: the principals.
        rules: the policies.
    """

    roles: Mapping[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]]
    people: tuple[Person, ...]
    rules: tuple[Rule, ...] = field(default=())


# -- strategies ------------------------------------------------------------------------------

moments = st.sampled_from(MOMENTS)
optional_moments = st.none() | moments


@st.composite
def people(draw: st.DrawFn, number: int) -> Person:
    attributes: dict[str, Any] = {}
    if draw(st.booleans()):
        attributes["carrier"] = draw(st.sampled_from(CARRIERS))
    if draw(st.booleans()):
        attributes["level"] = draw(st.integers(0, 3))
    held = []
    for _ in range(draw(st.integers(0, 4))):
        name = draw(st.sampled_from([*STANDINGS, "badge"]))
        terms = (draw(st.sampled_from(STATIONS)),) if name == "badge" else ()
        starts, ends = draw(moments), draw(optional_moments)
        if ends is None or ends > starts:
            held.append((name, terms, starts, ends))
    return Person(f"P{number}", attributes, tuple(held), draw(st.integers(0, 5)) > 0)


def _tests(event: bool) -> st.SearchStrategy[Expression]:
    role = st.sampled_from(ROLES)
    leaves = [
        st.builds(lambda name: Test(ROLE, "==", name), role),
        st.builds(lambda name: Test(ROLE, "!=", name), role),
        st.builds(lambda names: Test(ROLE, "in", tuple(names)), st.lists(role, min_size=1)),
        st.just(Test(ROLE, "has")),
        st.builds(
            lambda op, value: Test("subject.carrier", op, value),
            st.sampled_from(["==", "!="]),
            st.sampled_from(CARRIERS),
        ),
        st.builds(
            lambda op, value: Test("subject.level", op, value),
            st.sampled_from(["<", ">=", "=="]),
            st.integers(0, 3),
        ),
        st.builds(
            lambda value: Test(f"{ROLE}.officer.station", "==", value), st.sampled_from(STATIONS)
        ),
        st.just(Test("subject.carrier", "has")),
    ]
    if event:
        leaves += [
            st.builds(lambda value: Test("event.carrier", "==", value), st.sampled_from(CARRIERS)),
            st.builds(
                lambda op, value: Test("event.delay", op, value),
                st.sampled_from([">", "<="]),
                st.integers(0, 2),
            ),
        ]
    return st.one_of(leaves)


@st.composite
def _combined(draw: st.DrawFn, inner: st.SearchStrategy[Expression]) -> Expression:
    shape = draw(st.sampled_from(["and", "or", "not", "atLeast"]))
    if shape == "not":
        return Not(draw(inner))
    terms = tuple(draw(st.lists(inner, min_size=1, max_size=3)))
    if shape == "atLeast":
        return AtLeast(draw(st.integers(1, len(terms))), terms)
    return And(terms) if shape == "and" else Or(terms)


@st.composite
def expressions(draw: st.DrawFn, *, event: bool = True) -> Expression:
    """Conditions; a join stands outside of negations, as the language wants it."""
    found = draw(st.recursive(_tests(event), _combined, max_leaves=5))
    if event and draw(st.integers(0, 2)) == 0:
        join = Equal("subject.carrier", "event.carrier")
        return And((found, join)) if draw(st.booleans()) else Or((found, join))
    return found


@st.composite
def rules(draw: st.DrawFn, number: int, *, event: bool = True) -> Rule:
    starts, ends = draw(optional_moments), draw(optional_moments)
    if starts is not None and ends is not None and starts >= ends:
        starts = None
    kind = draw(st.sampled_from(sorted(TYPES)))
    names = draw(st.none() | st.lists(st.sampled_from(TYPES[kind]), unique=True))
    return Rule(
        name=f"rule {number}",
        action=draw(st.sampled_from(["subscribe", "subscribe", "publish"])),
        type=kind,
        expression=draw(expressions(event=event)),
        attributes=None if names is None else tuple(names),
        enabled=draw(st.integers(0, 5)) > 0,
        valid_from=starts,
        valid_until=ends,
    )


@st.composite
def organisations(draw: st.DrawFn, *, event: bool = True) -> Organisation:
    """A few roles, principals and policies, with negations, joins, parameters and dates."""
    roles = {}
    for place, name in enumerate(ROLES):
        below = st.lists(st.sampled_from(ROLES[:place]), max_size=2, unique=True)
        standing = st.lists(st.sampled_from(STANDINGS), max_size=2, unique=True)
        needed = st.tuples(below if place else st.just([]), standing)
        found = draw(st.lists(needed, max_size=2))
        roles[name] = tuple((tuple(above), tuple(held)) for above, held in found)
    return Organisation(
        roles,
        tuple(draw(people(number)) for number in range(draw(st.integers(1, 4)))),
        tuple(draw(rules(number, event=event)) for number in range(draw(st.integers(1, 3)))),
    )


# -- in the database -------------------------------------------------------------------------


def store(found: Organisation) -> Domain:
    """Put an organisation into the database, past all services."""
    domain = Domain.objects.create(name="org", title="Organisation")
    SubjectAttribute.objects.bulk_create(
        SubjectAttribute(domain=domain, name=name.partition(".")[2], type=declared)
        for name, declared in SCHEMA.items()
        if name.startswith("subject.")
    )
    flight = EventType.objects.create(domain=domain, name="Flight")
    departure = EventType.objects.create(domain=domain, name="Departure", parent=flight)
    Attribute.objects.create(event_type=flight, name="carrier", type=SCHEMA["event.carrier"])
    Attribute.objects.create(event_type=departure, name="delay", type=SCHEMA["event.delay"])
    for name, alternatives in found.roles.items():
        role = Role.objects.create(domain=domain, name=name)
        for above, held in alternatives:
            RoleRule.objects.create(role=role, prerequisites=list(above), appointments=list(held))
    officer = Role.objects.create(domain=domain, name="officer", parameters=["station"])
    RoleRule.objects.create(role=officer, arguments=["x"], appointments=["badge(x)"])
    for person in found.people:
        store_person(domain, person)
    store_rules(domain, found.rules)
    return domain


def store_person(domain: Domain, person: Person) -> Principal:
    row = Principal.objects.create(
        domain=domain,
        name=person.name,
        kind="subscriber",
        attributes=dict(person.attributes),
        state="active" if person.active else "revoked",
    )
    store_appointments(row, person)
    return row


def store_appointments(row: Principal, person: Person) -> None:
    Appointment.objects.bulk_create(
        Appointment(
            principal=row,
            name=name,
            parameters=list(terms),
            number=number,
            starts=starts,
            ends=ends,
        )
        for number, (name, terms, starts, ends) in enumerate(person.appointments, start=1)
    )


def store_rules(domain: Domain, found: tuple[Rule, ...]) -> None:
    types = {row.name: row for row in EventType.objects.filter(domain=domain)}
    Policy.objects.bulk_create(
        Policy(
            domain=domain,
            name=rule.name,
            action=rule.action,
            event_type=types[rule.type],
            expression=to_text(rule.expression),
            attributes=None if rule.attributes is None else list(rule.attributes),
            enabled=rule.enabled,
            valid_from=rule.valid_from,
            valid_until=rule.valid_until,
        )
        for rule in found
    )


# -- the plain reading -----------------------------------------------------------------------


def events(kind: str) -> Iterator[dict[str, Any]]:
    """Every event of a type that there can be."""
    choices = []
    for name in TYPES[kind]:
        declared = AttributeType.from_json(SCHEMA[f"event.{name}"])
        values = declared.values if declared.kind == "enum" else range(3)
        choices.append([(name, None), *((name, value) for value in values)])
    for chosen in product(*choices):
        yield {name: value for name, value in chosen if value is not None}


def active_roles(found: Organisation, person: Person, at: datetime) -> set[str]:
    """Roles without parameters, one after the other until none is added."""
    held = {name for name, _ in held_at(person, at)}
    active: set[str] = set()
    while True:
        more = {
            role
            for role, alternatives in found.roles.items()
            if any(set(above) <= active and set(asked) <= held for above, asked in alternatives)
        }
        if more <= active:
            return active
        active |= more


def held_at(person: Person, at: datetime) -> set[tuple[str, tuple[str, ...]]]:
    return {
        (name, terms)
        for name, terms, starts, ends in person.appointments
        if starts <= at and (ends is None or at < ends)
    }


def permitted(
    found: Organisation,
    person: Person,
    asked: tuple[str, str, str | None],
    at: datetime,
    event: Mapping[str, Any],
) -> bool:
    """Whether a principal may do something (action, type, attribute) with one event.

    Every activation of the role with a parameter is tried by itself.
    """
    action, kind, attribute = asked
    if not person.active:
        return False
    roles = active_roles(found, person, at)
    values = {f"subject.{name}": value for name, value in person.attributes.items()}
    values |= {f"event.{name}": value for name, value in event.items()}
    stations = [terms[0] for name, terms in sorted(held_at(person, at)) if name == "badge"]
    variants = [{f"{ROLE}.officer.station": each} for each in stations] or [{}]
    if stations:
        roles = roles | {"officer"}
    for rule in found.rules:
        if not (rule.enabled and rule.action == action and kind in (rule.type, *_below(rule.type))):
            continue
        if (rule.valid_from and rule.valid_from > at) or (
            rule.valid_until and rule.valid_until <= at
        ):
            continue
        if attribute is not None and attribute not in (
            TYPES[kind] if rule.attributes is None else rule.attributes
        ):
            continue
        if any(_holds(rule.expression, {**values, **variant}, roles) for variant in variants):
            return True
    return False


def after(
    found: Organisation, person: Person, steps: Iterable[Any], event: Mapping[str, Any] | None
) -> tuple[Organisation, Person, dict[str, Any] | None]:
    """An organisation, one of its people and an event after some steps were taken."""
    attributes, appointments = dict(person.attributes), list(person.appointments)
    rules = {rule.name: rule for rule in found.rules}
    seen = None if event is None else dict(event)
    for step in steps:
        match step.kind:
            case "appoint":
                appointments.append((step.name, tuple(step.value), MOMENTS[0], None))
            case "end-appointment":
                ended = (step.name, tuple(step.value))
                appointments = [each for each in appointments if each[:2] != ended]
            case "set-attribute":
                attributes[step.name] = step.value
            case "clear-attribute":
                del attributes[step.name]
            case "enable-policy":
                rules[step.name] = replace(rules[step.name], enabled=True)
            case "begin-policy":
                rules[step.name] = replace(rules[step.name], valid_from=None)
            case "extend-policy":
                rules[step.name] = replace(rules[step.name], valid_until=None)
            case "list-attribute":
                rule = rules[step.name]
                rules[step.name] = replace(rule, attributes=(*(rule.attributes or ()), step.value))
            case "event":
                assert seen is not None
                seen[step.name] = step.value
            case _:
                raise AssertionError(step)
    changed = replace(person, attributes=attributes, appointments=tuple(appointments))
    return replace(found, rules=tuple(rules.values())), changed, seen


def _below(kind: str) -> tuple[str, ...]:
    return ("Departure",) if kind == "Flight" else ()


def _holds(node: Expression, values: Mapping[str, Any], roles: set[str]) -> bool:
    match node:
        case Not(term):
            return not _holds(term, values, roles)
        case And(terms):
            return all(_holds(term, values, roles) for term in terms)
        case Or(terms):
            return any(_holds(term, values, roles) for term in terms)
        case AtLeast(count, terms):
            return sum(_holds(term, values, roles) for term in terms) >= count
        case Test(attribute) if attribute == ROLE:
            return _role_holds(node, roles)
        case _:
            return evaluate(node, values)


def _role_holds(node: Test, roles: set[str]) -> bool:
    match node.op:
        case "==":
            return node.value in roles
        case "!=":
            return bool(roles) and node.value not in roles
        case "in":
            return bool(roles & set(node.value))  # type: ignore[arg-type]
        case _:
            return bool(roles)
