"""What policies of a domain may say, and their normal form, split into its sides.

A policy speaks of `subject.*` (who), `event.*` (what) and `env.*` (when). Agents check the first by
anonymous sets and the second by routing tags; the third is settled here, in the control plane. So
the normal form comes apart: literals of the subject, of the event and of the environment, and
joins, which tie an attribute of one side to an attribute of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from adminapp.catalog.mapping import EVENT, SUBJECT
from adminapp.core.errors import Problem
from adminapp.roles.mapping import ROLE, role_attribute
from policyengine.attributes import (
    And,
    AtLeast,
    AttributeType,
    Conjunction,
    Equal,
    Expression,
    Join,
    Literal,
    Not,
    Or,
    Schema,
    Test,
    Value,
    bind_joins,
    names,
    normalise,
    parse,
    to_text,
    unknown,
)
from policyengine.attributes.syntax import walk
from policyengine.errors import InputError
from policyengine.events import EventTypes

ENVIRONMENT = "env."
"""How the names of the environment's values begin."""

_ACTIVE = AttributeType("bool")
_SIDES = (SUBJECT, ENVIRONMENT, EVENT)


@dataclass(frozen=True)
class PolicyConjunction:
    """One way to satisfy a policy.

    Args:
        subject: literals on `subject.*`, to be encoded as an anonymous set.
        event: literals on `event.*`, to become routing tags.
        joins: equalities, each from `subject.*` (left) to `event.*` (right).
        environment: literals on `env.*`; none once they are settled.
        ties: equalities between `env.*` and another side; none once they are settled.
    """

    subject: tuple[Literal, ...]
    event: tuple[Literal, ...]
    joins: tuple[Join, ...]
    environment: tuple[Literal, ...] = ()
    ties: tuple[Join, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The attributes that it speaks of."""
        literals = (*self.subject, *self.event, *self.environment)
        joined = (side for join in (*self.joins, *self.ties) for side in (join.left, join.right))
        return frozenset([*(literal.attribute for literal in literals), *joined])

    def settled(self, values: Mapping[str, Value]) -> PolicyConjunction | None:
        """What it asks for while the environment has these values; None when it cannot hold.

        Args:
            values: the environment's values by full name.
        """
        if not all(literal.holds(values) for literal in self.environment):
            return None
        bound: dict[str, list[Literal]] = {SUBJECT: [], EVENT: []}
        for tie in self.ties:
            known, other = sorted(
                (tie.left, tie.right), key=lambda n: not n.startswith(ENVIRONMENT)
            )
            if known not in values:
                return None
            side = SUBJECT if other.startswith(SUBJECT) else EVENT
            bound[side].append(Literal(other, "==", values[known]))
        return PolicyConjunction(
            tuple(dict.fromkeys((*self.subject, *bound[SUBJECT]))),
            tuple(dict.fromkeys((*self.event, *bound[EVENT]))),
            self.joins,
        )

    def both(self, other: PolicyConjunction) -> PolicyConjunction:
        """What holds where this one and another hold."""
        return PolicyConjunction(
            tuple(dict.fromkeys((*self.subject, *other.subject))),
            tuple(dict.fromkeys((*self.event, *other.event))),
            tuple(dict.fromkeys((*self.joins, *other.joins))),
            tuple(dict.fromkeys((*self.environment, *other.environment))),
            tuple(dict.fromkeys((*self.ties, *other.ties))),
        )

    def for_subject(self, values: Mapping[str, Value]) -> tuple[Literal, ...] | None:
        """What must hold of an event for this subject; None when the subject does not fit.

        Args:
            values: the subject's values by full name.
        """
        if not all(literal.holds(values) for literal in self.subject):
            return None
        bound = bind_joins(self.joins, values)
        if bound is None or any(join.left not in values for join in self.joins):
            return None
        wanted = [literal for literal in bound if isinstance(literal, Literal)]
        return tuple(dict.fromkeys((*self.event, *wanted)))


@dataclass(frozen=True)
class Language:
    """Everything that expressions of one domain may name.

    Args:
        subject: types of `subject.*`, roles left out.
        roles: names of the domain's roles.
        types: the domain's event types.
        environment: types of `env.*`.
        values: what the environment says at the moment that the language was built for.
        protections: event type -> attribute -> the kind of its protection.
        settles: whether `conjunctions` takes the environment's values for given.
    """

    subject: Schema
    roles: tuple[str, ...]
    types: EventTypes
    environment: Schema = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    protections: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    settles: bool = True
    _schemas: dict[str, Schema] = field(default_factory=dict, compare=False, repr=False)
    _ways: dict[tuple[str, str], tuple[PolicyConjunction, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def schema(self, event_type: str) -> Schema:
        """What a policy that hangs on a type may name: attributes of the type, of those above it
        and of those below it. An event that lacks an attribute makes its tests false.
        """
        if event_type not in self._schemas:
            self._schemas[event_type] = {
                **self.subject,
                ROLE: _role_type(self.roles),
                **self.environment,
                **self._event_schema(event_type),
            }
        return self._schemas[event_type]

    def attribute_names(self, event_type: str) -> tuple[str, ...]:
        """Attributes that a policy on this type may be restricted to."""
        return tuple(name.removeprefix(EVENT) for name in self._event_schema(event_type))

    def parse(self, text: str, event_type: str) -> Expression:
        """Read a policy's expression.

        Raises:
            InputError: with the position.
        """
        expression = parse(text, self.schema(event_type), joins=True)
        _check_roles(expression, self.roles)
        return expression

    def conjunctions(self, text: str, event_type: str) -> tuple[PolicyConjunction, ...]:
        """The normal form of a policy's expression as the environment now is.

        Raises:
            InputError: it cannot be read, or not be encoded.
        """
        if not self.settles:
            return self.ways(text, event_type)
        found = (way.settled(self.values) for way in self.ways(text, event_type))
        return tuple(dict.fromkeys(way for way in found if way is not None))

    def ways(self, text: str, event_type: str) -> tuple[PolicyConjunction, ...]:
        """The normal form of an expression whatever the environment says, split into its sides.

        Raises:
            InputError: it cannot be read, or not be encoded.
        """
        place = (text, event_type)
        if place not in self._ways:
            self._ways[place] = self.normal(self.parse(text, event_type), event_type)
        return self._ways[place]

    def alternatives(
        self, text: str, event_type: str
    ) -> tuple[tuple[str, tuple[PolicyConjunction, ...]], ...]:
        """The alternatives that an expression was written as, each with its normal form.

        Raises:
            InputError: it cannot be read, or not be encoded.
        """
        expression = self.parse(text, event_type)
        terms = expression.terms if isinstance(expression, Or) else (expression,)
        return tuple((to_text(term), self.normal(term, event_type)) for term in terms)

    def normal(self, expression: Expression, event_type: str) -> tuple[PolicyConjunction, ...]:
        """The normal form of an expression that was read, split into its sides.

        Raises:
            InputError: it cannot be encoded.
        """
        expression = self.by_role(expression)
        # Only the roles it speaks of: a domain may have ten thousand.
        schema = {**self.roles_of(expression), **self.schema(event_type)}
        return tuple(_split(conjunction) for conjunction in normalise(expression, schema))

    def tests(self, text: str, event_type: str) -> list[Literal]:
        """The tests of `env.*` in an expression; none where it no longer fits the model."""
        try:
            expression = self.parse(text, event_type)
        except InputError:
            return []
        return [
            Literal(node.attribute, node.op, node.value)
            for node in walk(expression)
            if isinstance(node, Test) and node.attribute.startswith(ENVIRONMENT)
        ]

    def timeless(self) -> Language:
        """The same language, for what policies say whatever the environment is."""
        return replace(self, settles=False)

    def known(self, ways: Iterable[PolicyConjunction], event_type: str) -> Schema:
        """Types of everything that normal forms of policies on a type may name."""
        named = {literal.attribute for way in ways for literal in way.subject}
        roles = {name: _ACTIVE for name in named if name not in self.schema(event_type)}
        return {**roles, **self.schema(event_type)}

    def by_role(self, expression: Expression) -> Expression:
        """An expression with every test on `subject.role` said by the single roles."""
        return _without_roles(expression, self.roles)

    def roles_of(self, expression: Expression) -> Schema:
        """The attributes of single roles that an expression names, with their type."""
        return {name: _ACTIVE for name in names(expression) if name.startswith(f"{ROLE}.")}

    def problems(self, text: str, event_type: str) -> list[Problem]:
        """What is wrong with an expression; empty when agents can enforce it."""
        try:
            self.ways(text, event_type)
        except InputError as error:
            return [Problem.from_input_error(error, "/expression")]
        return []

    def attribute_problems(self, names: object, event_type: str) -> list[Problem]:
        """What is wrong with the list of attributes that a policy is restricted to."""
        if names is None:
            return []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return [Problem("/attributes", "this is a list of names, or null for all")]
        known = self.attribute_names(event_type)
        problems = [
            Problem.from_input_error(unknown("attribute", name, known), f"/attributes/{index}")
            for index, name in enumerate(names)
            if name not in known
        ]
        if len(set(names)) != len(names):
            problems.append(Problem("/attributes", "an attribute is listed twice"))
        return problems

    def _event_schema(self, event_type: str) -> dict[str, AttributeType]:
        below = [name for name in self.types.subtree(event_type) if name != event_type]
        schema: dict[str, AttributeType] = {}
        for name in (event_type, *below):
            for spec in self.types.attributes(name):
                schema.setdefault(f"{EVENT}{spec.name}", spec.type)
        return schema


def _role_type(roles: tuple[str, ...]) -> AttributeType:
    # A closed set: a misspelt role is an error with a suggestion, not a rule that never holds.
    return AttributeType("enum", values=tuple(roles)) if roles else AttributeType("string")


def _check_roles(expression: Expression, roles: tuple[str, ...]) -> None:
    """Without a single role there is no closed set to check against, and still no name is right."""
    for node in walk(expression):
        if isinstance(node, Test) and node.attribute == ROLE and node.op in ("==", "!=", "in"):
            values = node.value if isinstance(node.value, tuple) else (node.value,)
            for value in values:
                if value not in roles:
                    raise unknown("role", str(value), roles, at=node.at)


def _split(conjunction: Conjunction) -> PolicyConjunction:
    sides: dict[str, list[Literal]] = {side: [] for side in _SIDES}
    joins: list[Join] = []
    ties: list[Join] = []
    for literal in conjunction:
        if isinstance(literal, Join):
            joined = _directed(literal)
            tied = any(name.startswith(ENVIRONMENT) for name in (joined.left, joined.right))
            (ties if tied else joins).append(joined)
        else:
            sides[_side(literal.attribute)].append(literal)
    return PolicyConjunction(
        tuple(sides[SUBJECT]),
        tuple(sides[EVENT]),
        tuple(joins),
        tuple(sides[ENVIRONMENT]),
        tuple(ties),
    )


def _side(name: str) -> str:
    return next(side for side in _SIDES if name.startswith(side))


def _directed(join: Join) -> Join:
    sides = sorted((join.left, join.right), key=lambda name: _SIDES.index(_side(name)))
    if _side(sides[0]) == _side(sides[1]):
        raise InputError(
            "unsupported",
            f"`{join.left} == {join.right}` compares two values of one side; "
            "a comparison of attributes ties `subject.`, `event.` and `env.` to one another",
            where=join.left,
        )
    return Join(sides[0], sides[1])


def _without_roles(expression: Expression, roles: tuple[str, ...]) -> Expression:
    """Say every test on `subject.role` by the attributes of the single roles.

    A principal has several roles at once, and the normal form would otherwise treat
    `subject.role == "a" && subject.role == "b"` as a contradiction.
    """
    match expression:
        case Not(term):
            return Not(_without_roles(term, roles))
        case And(terms):
            return And(tuple(_without_roles(term, roles) for term in terms))
        case Or(terms):
            return Or(tuple(_without_roles(term, roles) for term in terms))
        case AtLeast(count, terms):
            return AtLeast(count, tuple(_without_roles(term, roles) for term in terms))
        case Test(attribute) if attribute == ROLE:
            return _role_test(expression, roles)
        case Equal(left, right) if ROLE in (left, right):
            other = right if left == ROLE else left
            return Or(tuple(And((_active(name), Test(other, "==", name))) for name in roles))
        case _:
            return expression


def _role_test(test: Test, roles: tuple[str, ...]) -> Expression:
    match test.op:
        case "==":
            return _any([str(test.value)], roles)
        case "in":
            return _any([str(value) for value in test.value], roles)  # type: ignore[union-attr]
        case "!=":
            # Some role is active, and this one is not.
            return And((_any(roles, roles), Not(_any([str(test.value)], roles))))
        case "startsWith":
            return _any([name for name in roles if name.startswith(str(test.value))], roles)
        case "endsWith":
            return _any([name for name in roles if name.endswith(str(test.value))], roles)
        case "has":
            return _any(roles, roles)
        case _:
            raise InputError("type", "roles have no order", at=test.at, where=ROLE)


def _any(names: list[str] | tuple[str, ...], roles: tuple[str, ...]) -> Expression:
    return Or(tuple(_active(name) for name in names if name in roles))


def _active(name: str) -> Test:
    return Test(role_attribute(name), "==", True)
