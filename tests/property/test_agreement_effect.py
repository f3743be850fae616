"""What an agreement lets through, on the agents' side of the encodings, against brute force.

The rules and tokens that the compiler makes are matched as an agent does (a rule's tokens among
the subject's, its event tokens among the event's). Brute force takes every policy as it was
written and every ceiling by itself: a guest may do what a policy permits somebody with the mapped
roles and passed attributes, of what a ceiling opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from adminapp.agreements import effect
from adminapp.agreements.effect import Opening
from adminapp.agreements.terms import Ceiling, RoleMapping
from adminapp.distribution import foreign
from adminapp.distribution.plan import (
    PlainAgent,
    PlainDomain,
    PlainPolicy,
    PlainSubject,
    plan_agent,
)
from adminapp.policies.language import Language
from policyengine.attributes import AttributeType, Value, predicates_of, tokens_of
from policyengine.events import AttributeSpec, EventTypes, TypeSpec

TEXT = AttributeType("string")
RANK = AttributeType("int", 0, 3)
TYPES = EventTypes(
    [
        TypeSpec("Report", None, (AttributeSpec("place", TEXT), AttributeSpec("level", RANK))),
        TypeSpec("Fire", "Report", (AttributeSpec("smoke", RANK),)),
        TypeSpec("Blaze", "Fire", (AttributeSpec("floors", RANK),)),
        TypeSpec("Theft", "Report", (AttributeSpec("victim", TEXT),)),
        TypeSpec("Parade", None, (AttributeSpec("place", TEXT),)),
    ]
)
SPOKEN = Language(
    subject={"subject.rank": RANK, "subject.station": TEXT},
    roles=("officer", "guard"),
    types=TYPES,
)
THEIRS = ("fireman", "chief", "cook")
EXPRESSIONS = (
    "true",
    "!has(subject.rank)",
    "!has(subject.rank) && !has(subject.station)",
    '!(subject.role == "guard")',
    '!(subject.role == "officer")',
    'subject.role == "officer"',
    'subject.role == "officer" && subject.rank >= 2',
    "subject.rank != 1",
    "subject.rank < 2 || event.level > 1",
    "subject.station == event.place",
    'subject.role == "guard" && subject.station == event.place',
    '!has(subject.rank) && event.place == "N"',
    'subject.station == "N" || !(subject.station == "S")',
    "false",
)
PLACES = ("N", "S", "fireman")
EVER = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
AGENT = PlainAgent(1, "alpha", "a", b"", b"")


@dataclass(frozen=True)
class Person:
    """A principal before anybody looks at it."""

    roles: frozenset[str]
    rank: int | None
    station: str | None

    def values(self) -> dict[str, Value]:
        own = {"subject.rank": self.rank, "subject.station": self.station}
        held: dict[str, Value] = {f"subject.role.{name}": True for name in sorted(self.roles)}
        return {**held, **{name: value for name, value in own.items() if value is not None}}


def people(roles: tuple[str, ...]) -> st.SearchStrategy[Person]:
    return st.builds(
        Person,
        st.frozensets(st.sampled_from(roles)),
        st.none() | st.integers(0, 3),
        st.none() | st.sampled_from(PLACES),
    )


def names_of(event_type: str) -> st.SearchStrategy[tuple[str, ...] | None]:
    tree = (event_type, *TYPES.subtree(event_type))
    known = sorted({spec.name for name in tree for spec in TYPES.attributes(name)})
    return st.none() | st.lists(st.sampled_from(known), unique=True, max_size=3).map(tuple)


@st.composite
def policies(draw: st.DrawFn) -> list[PlainPolicy]:
    found = []
    for number in range(draw(st.integers(1, 5))):
        text = draw(st.sampled_from(EXPRESSIONS))
        # What speaks of an event's level needs a type that has it.
        event_type = draw(st.sampled_from(["Report", "Fire", "Blaze", "Theft"]))
        if "event." not in text:
            event_type = draw(st.sampled_from([event_type, "Parade"]))
        found.append(
            PlainPolicy(
                id=number + 1,
                name=text,
                action=draw(st.sampled_from(["publish", "subscribe"])),
                type=event_type,
                attributes=draw(names_of(event_type)),
                conjunctions=SPOKEN.conjunctions(text, event_type),
            )
        )
    return found


@st.composite
def openings(draw: st.DrawFn) -> list[Opening]:
    found = []
    for number in range(draw(st.integers(0, 3))):
        types = draw(st.lists(st.sampled_from(TYPES.names), min_size=1, max_size=3))
        ceilings = tuple(
            Ceiling(name, draw(st.sampled_from(["publish", "subscribe"])), draw(names_of(name)))
            for name in types
        )
        pairs = st.tuples(st.sampled_from(THEIRS[:2]), st.sampled_from(SPOKEN.roles))
        mapped = draw(st.lists(pairs, min_size=1, max_size=3, unique=True))
        passed = draw(st.lists(st.sampled_from(["rank", "station", "shoe"]), unique=True))
        found.append(
            Opening(
                agreement=number + 1,
                name=f"agreement {number}",
                provider="police",
                consumer="fire",
                roles=tuple(RoleMapping(*pair) for pair in mapped),
                ceilings=ceilings,
                subject_attributes=tuple(passed),
                starts=EVER[0],
                ends=EVER[1],
            )
        )
    return found


@st.composite
def events(draw: st.DrawFn) -> tuple[str, dict[str, Value]]:
    name = draw(st.sampled_from(TYPES.names))
    values: dict[str, Value] = {}
    for spec in TYPES.attributes(name):
        if draw(st.booleans()):
            textual = spec.type.kind == "string"
            drawn: Any = st.sampled_from(PLACES) if textual else st.integers(0, 3)
            values[spec.name] = draw(drawn)
    return name, values


# -- the product ------------------------------------------------------------------------------


def domain_of(
    rules: Iterable[PlainPolicy], people: Mapping[str, tuple[Mapping[str, Value], frozenset[int]]]
) -> PlainDomain:
    subjects = tuple(
        PlainSubject(name, "service", (values,), {"a": "alpha"}, b"", b"", held)
        for name, (values, held) in people.items()
        if values or name.startswith("local")  # a guest of whom nothing is passed on is none
    )
    return PlainDomain(
        id=1,
        name="police",
        revision=1,
        lease_seconds=30,
        types=(),
        families={},
        policies=tuple(rules),
        subjects=subjects,
        agents=(AGENT,),
        wraps=(),
        splits={},
    )


def compiled(
    own: list[PlainPolicy], opened: list[Opening], locals_: list[Person], guests: list[Person]
) -> PlainDomain:
    mark = {effect.LOCAL: True} if opened else {}
    held = frozenset(each.agreement for each in opened)
    inside: dict[str, tuple[Mapping[str, Value], frozenset[int]]] = {
        f"local {n}": ({**each.values(), **mark}, frozenset()) for n, each in enumerate(locals_)
    }
    for n, each in enumerate(guests):
        merged: dict[str, Value] = {}
        for one in opened:
            seen = effect.foreign_values(one, each.values(), SPOKEN.subject)
            merged |= {} if seen is None else effect.enclosed_values(one, seen)
        inside[f"guest {n}"] = (merged, held)
    return domain_of(foreign.policies(own, opened, TYPES), inside)


def enforced(
    domain: PlainDomain, who: str, action: str, event_type: str, values: Mapping[str, Value]
) -> set[str] | None:
    """What an agent permits: names of the event's attributes, None for not even the event."""
    plan = plan_agent(domain, AGENT)
    known = {f"event.{name}": value for name, value in values.items()}
    sides = [each.event for policy in domain.policies for each in policy.conjunctions]
    tagged = set(tokens_of(known, predicates_of(sides, "event.")))
    found: set[str] | None = None
    for rule in plan.rules:
        if rule.action != action or not TYPES.is_a(event_type, rule.type):
            continue
        encodings = plan.subjects.get(who, ())
        if not any(set(rule.subject_tokens) <= set(held) for held in encodings):
            continue
        if set(rule.event_tokens) <= tagged:
            listed = set(values) if rule.attributes is None else set(rule.attributes)
            found = (found or set()) | (listed & set(values))
    return found


# -- brute force --------------------------------------------------------------------------------


def permitted(
    own: Iterable[PlainPolicy],
    seen: Mapping[str, Value],
    action: str,
    event_type: str,
    values: Mapping[str, Value],
) -> set[str] | None:
    """What the policies as written permit somebody with these values."""
    known = {f"event.{name}": value for name, value in values.items()}
    found: set[str] | None = None
    for policy in own:
        if policy.action != action or not TYPES.is_a(event_type, policy.type):
            continue
        wanted = [each.for_subject(seen) for each in policy.conjunctions]
        if any(
            event is not None and all(literal.holds(known) for literal in event) for event in wanted
        ):
            listed = set(values) if policy.attributes is None else set(policy.attributes)
            found = (found or set()) | (listed & set(values))
    return found


def brute_force(
    own: list[PlainPolicy],
    opened: list[Opening],
    guest: Person,
    action: str,
    event_type: str,
    values: Mapping[str, Value],
) -> set[str] | None:
    total: set[str] | None = None
    for one in opened:
        held = {m.known_as for m in one.roles if m.role in guest.roles}
        if not held:
            continue
        seen: dict[str, Value] = {f"subject.role.{name}": True for name in held}
        if guest.rank is not None and "rank" in one.subject_attributes:
            seen["subject.rank"] = guest.rank
        if guest.station is not None and "station" in one.subject_attributes:
            seen["subject.station"] = guest.station
        by_policy = permitted(own, seen, action, event_type, values)
        by_ceiling: set[str] | None = None
        for ceiling in one.ceilings:
            if ceiling.action == action and TYPES.is_a(event_type, ceiling.type):
                listed = set(values) if ceiling.attributes is None else set(ceiling.attributes)
                by_ceiling = (by_ceiling or set()) | (listed & set(values))
        if by_policy is not None and by_ceiling is not None:
            total = (total or set()) | (by_policy & by_ceiling)
    return total


@settings(max_examples=300, deadline=None)
@given(
    policies(),
    openings(),
    st.lists(people(THEIRS), min_size=1, max_size=3),
    st.lists(people(SPOKEN.roles), max_size=3),
    events(),
    st.sampled_from(["publish", "subscribe"]),
)
def test_guests_get_what_policy_and_ceiling_permit(
    own: list[PlainPolicy],
    opened: list[Opening],
    guests: list[Person],
    locals_: list[Person],
    event: tuple[str, dict[str, Value]],
    action: str,
) -> None:
    domain = compiled(own, opened, locals_, guests)
    for number, guest in enumerate(guests):
        expected = brute_force(own, opened, guest, action, *event)
        assert enforced(domain, f"guest {number}", action, *event) == expected


@settings(max_examples=200, deadline=None)
@given(
    policies(),
    openings(),
    st.lists(people(THEIRS), max_size=3),
    st.lists(people(SPOKEN.roles), min_size=1, max_size=3),
    events(),
    st.sampled_from(["publish", "subscribe"]),
)
def test_agreements_change_nothing_for_locals(
    own: list[PlainPolicy],
    opened: list[Opening],
    guests: list[Person],
    locals_: list[Person],
    event: tuple[str, dict[str, Value]],
    action: str,
) -> None:
    domain = compiled(own, opened, locals_, guests)
    for number, person in enumerate(locals_):
        expected = permitted(own, person.values(), action, *event)
        assert enforced(domain, f"local {number}", action, *event) == expected


@settings(max_examples=100, deadline=None)
@given(policies(), openings(), st.lists(people(THEIRS), min_size=1, max_size=3))
def test_each_agreement_stands_alone(
    own: list[PlainPolicy], opened: list[Opening], guests: list[Person]
) -> None:
    """Withdrawing one leaves exactly what the others give; withdrawing all leaves nothing."""
    whole = {policy.id: policy for policy in foreign.policies(own, opened, TYPES)}
    for one in opened:
        left = [each for each in opened if each is not one]
        rest = foreign.policies(own, left, TYPES)
        assert all(policy.agreement != one.agreement for policy in rest)
        if left:
            assert all(whole[policy.id] == policy for policy in rest)
        else:
            assert rest == tuple(own)
    for guest in guests:
        nobody = replace(guest, roles=guest.roles - set(THEIRS[:2]))
        for one in opened:
            assert effect.foreign_values(one, nobody.values(), SPOKEN.subject) is None
