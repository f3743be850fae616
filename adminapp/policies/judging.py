"""Does one way to satisfy a policy imply others? Yes, no, or it cannot be told: pure.

The engine decides implications over tests of single attributes (`policyengine.events.implies`).
Joins, which tie two attributes together, are brought under it: those of the premise by giving the
two attributes one name, those left in the conclusion as facts of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf
from typing import TypeAlias, cast

from adminapp.policies.language import PolicyConjunction
from policyengine.attributes import (
    And,
    AttributeType,
    Expression,
    Join,
    Literal,
    Not,
    Or,
    Schema,
    Test,
)
from policyengine.attributes.syntax import TestOp
from policyengine.events.implication import Search, TooMuchWork

Answer: TypeAlias = OneOf["yes", "no", "unknown"]
WORK = 200_000
"""Steps of one search before it cannot be told."""

_NEGATED = {"!in": "in", "!startsWith": "startsWith", "!endsWith": "endsWith"}
_BOOL = AttributeType("bool")


def implied(
    premise: PolicyConjunction,
    conclusions: Iterable[PolicyConjunction],
    schema: Schema,
    *,
    work: int = WORK,
) -> Answer:
    """Whether one of the conclusions holds wherever the premise holds.

    Args:
        schema: every attribute that they name.
        work: bound of the search.
    """
    names = _Names.of(premise, schema)
    given = names.conjunction(premise)
    ways = [_without_certain(names.conjunction(way), given) for way in conclusions]
    left = {join for way in ways for join in way.joins}
    known = dict(names.schema) | {_fact(join): _BOOL for join in left}
    search = Search(known, work)
    try:
        if _follows(search, given, ways):
            return "yes"
        if names.exact and (
            _free(given, ways, left)
            # Where not even all of them holding would do, they need not be looked at.
            or not _follows(search, given, [_Flat(way.literals, ()) for way in ways])
        ):
            return "no"
    except TooMuchWork:
        pass
    return "unknown"


def _follows(search: Search, given: _Flat, ways: Iterable[_Flat]) -> bool:
    return search.implies([_expression(given)], Or(tuple(_expression(way) for way in ways)))


def contradict(first: PolicyConjunction, second: PolicyConjunction, schema: Schema) -> bool:
    """Whether two ways can never be met together; False where it cannot be told."""
    return implied(first.both(second), (), schema) == "yes"


@dataclass(frozen=True)
class _Names:
    """Attributes that a premise ties together, under one name each.

    Args:
        of: the name that stands for another.
        schema: types, also of the names that stand for several.
        exact: whether those that are tied together are of the same type.
    """

    names: Mapping[str, str]
    schema: Schema
    exact: bool = field(default=True)

    @classmethod
    def of(cls, premise: PolicyConjunction, schema: Schema) -> _Names:
        names: dict[str, str] = {}
        types = dict(schema)
        exact = True
        for join in (*premise.joins, *premise.ties):
            one, other = (_root(names, side) for side in (join.left, join.right))
            if one != other:
                names[other] = one
                exact = exact and types[one] == types[other]
                types[one] = _hull(types[one], types[other])
        return cls({name: _root(names, name) for name in names}, types, exact)

    def conjunction(self, way: PolicyConjunction) -> _Flat:
        """A way with these names; joins of attributes that are one say that there is a value."""
        literals = (*way.subject, *way.event, *way.environment)
        found = [replace(each, attribute=self._name(each.attribute)) for each in literals]
        joins = []
        for join in (*way.joins, *way.ties):
            sides = sorted((self._name(join.left), self._name(join.right)))
            if sides[0] == sides[1]:
                found.append(Literal(sides[0], "has"))
            else:
                joins.append(Join(*sides))
        return _Flat(tuple(dict.fromkeys(found)), tuple(dict.fromkeys(joins)))

    def _name(self, name: str) -> str:
        return self.names.get(name, name)


@dataclass(frozen=True)
class _Flat:
    """A conjunction whose sides do not matter any more."""

    literals: tuple[Literal, ...]
    joins: tuple[Join, ...]


def _without_certain(way: _Flat, given: _Flat) -> _Flat:
    """A conclusion without joins of attributes that the premise says the value of, one for both."""
    pinned = {each.attribute: each.value for each in given.literals if each.op == "=="}
    joins = [
        join
        for join in way.joins
        if join.left not in pinned or pinned[join.left] != pinned.get(join.right)
    ]
    return _Flat(way.literals, tuple(joins))


def _root(names: Mapping[str, str], name: str) -> str:
    while name in names:
        name = names[name]
    return name


def _hull(one: AttributeType, other: AttributeType) -> AttributeType:
    """A type with every value of both: what holds for all of them holds for those they share."""
    if one == other:
        return one
    if one.kind == other.kind == "enum":
        return AttributeType("enum", values=tuple(dict.fromkeys((*one.values, *other.values))))
    if {one.kind, other.kind} <= {"int", "float"}:
        low, high = (one.minimum, other.minimum), (one.maximum, other.maximum)
        return AttributeType(
            "int" if one.kind == other.kind == "int" else "float",
            minimum=None if None in low else min(cast("tuple[float, float]", low)),
            maximum=None if None in high else max(cast("tuple[float, float]", high)),
        )
    return AttributeType("string") if "string" in (one.kind, other.kind) else one


def _expression(way: _Flat) -> Expression:
    terms: list[Expression] = [_term(literal) for literal in way.literals]
    terms += [Test(_fact(join), "==", True) for join in way.joins]
    terms += [Test(name, "has") for join in way.joins for name in (join.left, join.right)]
    return And(tuple(terms))


def _term(literal: Literal) -> Expression:
    if literal.op == "!has":
        return Not(Test(literal.attribute, "has"))
    if literal.op in _NEGATED:
        asked = Test(literal.attribute, cast(TestOp, _NEGATED[literal.op]), literal.value)
        return And((Test(literal.attribute, "has"), Not(asked)))
    return Test(literal.attribute, cast(TestOp, literal.op), literal.value)


def _fact(join: Join) -> str:
    return f"{join.left} == {join.right}"


def _free(given: _Flat, ways: Sequence[_Flat], joins: Iterable[Join]) -> bool:
    """Whether the joins of the conclusions can all fail, whatever else is so.

    They can where each has a side that nothing else speaks of: it may be absent.
    """
    literals = [literal for flat in (given, *ways) for literal in flat.literals]
    said = {literal.attribute for literal in literals}
    return all(
        any(
            name not in said
            and not any(name in (other.left, other.right) for other in joins if other != join)
            for name in (join.left, join.right)
        )
        for join in joins
    )
