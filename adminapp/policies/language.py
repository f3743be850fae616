"""What policies of a domain may say, and their normal form, split into its sides.

A policy speaks of `subject.*` (who), `event.*` (what) and `env.*` (when). Agents check the first by
anonymous sets and the second by routing tags; the third is settled here, in the control plane. So
the normal form comes apart: literals of the subject, of the event and of the environment, and
joins, which tie an attribute of one side to an attribute of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from adminapp.catalog.mapping import EVENT, SUBJECT
from adminapp.core.clock import FACTS
from adminapp.core.errors import Problem
from adminapp.policies.rolewords import check_roles, role_type, without_roles
from adminapp.roles.environment import every_value
from adminapp.roles.mapping import ROLE
from policyengine.attributes import (
    AttributeType,
    Conjunction,
    Equal,
    Expression,
    Join,
    Literal,
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
from policyengine.primitives.hashing import digest

ENVIRONMENT = "env."
"""How the names of the environment's values begin."""

_ACTIVE = AttributeType("bool")
_KEPT = 20_000

# Normal forms by text and by what its names mean. They are pure, and dear: a domain with thousands
# of policies would otherwise read all of them again for every change of one.
_normal_forms: dict[tuple[str, str], tuple[PolicyConjunction, ...]] = {}
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
    _parsed: dict[tuple[str, str], Expression] = field(
        default_factory=dict, compare=False, repr=False
    )
    _fingerprints: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def schema(self, event_type: str) -> Schema:
        """What a policy that hangs on a type may name: attributes of the type, of those above it
        and of those below it. An event that lacks an attribute makes its tests false.
        """
        if event_type not in self._schemas:
            self._schemas[event_type] = {
                **self.subject,
                ROLE: role_type(self.roles),
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
        place = (text, event_type)
        if place not in self._parsed:
            expression = parse(text, self.schema(event_type), joins=True)
            check_roles(expression, self.roles)
            self._parsed[place] = expression
        return self._parsed[place]

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
        place = (text, self._fingerprint(event_type))
        found = _normal_forms.get(place)
        if found is None:
            found = self.normal(self.parse(text, event_type), event_type)
            if len(_normal_forms) >= _KEPT:
                _normal_forms.clear()
            _normal_forms[place] = found
        return found

    def _fingerprint(self, event_type: str) -> str:
        """Tells whether an expression means the same in another language of the same domain."""
        if event_type not in self._fingerprints:
            schema = sorted(self._event_schema(event_type).items())
            text = repr((self._common, [(name, kind.to_json()) for name, kind in schema]))
            self._fingerprints[event_type] = digest(text.encode())
        return self._fingerprints[event_type]

    @cached_property
    def _common(self) -> str:
        """The same for what is named on every type."""
        named = sorted({**self.subject, **self.environment}.items())
        text = repr((self.roles, [(name, kind.to_json()) for name, kind in named]))
        return digest(text.encode())

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
        """What an expression asks the environment; nothing where it no longer fits the model."""
        try:
            expression = self.parse(text, event_type)
        except InputError:
            return []
        found: list[Literal] = []
        for node in walk(expression):
            if isinstance(node, Test) and node.attribute.startswith(ENVIRONMENT):
                found.append(Literal(node.attribute, node.op, node.value))
            elif isinstance(node, Equal):
                tied = (name for name in (node.left, node.right) if name in FACTS)
                found += [literal for name in tied for literal in every_value(name)]
        return found

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
        return without_roles(expression, self.roles)

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
