"""Disjunctive normal form: the shape that every encoding works on.

Conjunctions are bit masks over a table of literals while they are combined, so
that absorption (`a || a && b` is `a`) is one machine operation a pair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from policyengine.attributes.feasible import feasible
from policyengine.attributes.literals import OPPOSITE, Conjunction, Join, Literal, Op
from policyengine.attributes.problems import unknown
from policyengine.attributes.syntax import (
    And,
    AtLeast,
    Equal,
    Expression,
    Not,
    Or,
    Test,
    walk,
)
from policyengine.attributes.types import AttributeType, Schema, Value
from policyengine.errors import InputError

LIMIT: Final = 1024
"""Most conjunctions of a normal form, unless the caller says otherwise."""
_WORK: Final = 4_000_000  # pairs compared before an expression counts as too large
_BLOWUP: Final = 4  # conjunctions before absorption, as a multiple of the limit

_Term: TypeAlias = tuple[int, int]  # literals, literals that contradict them
_Dnf: TypeAlias = list[_Term]


def normalise(
    expression: Expression, schema: Schema, *, limit: int = LIMIT
) -> tuple[Conjunction, ...]:
    """Bring an expression to disjunctive normal form.

    `!(a == 1)` becomes `!has(a)` or `a != 1`: what is negated must also hold
    where the attribute is absent. Conjunctions that can never hold are left out
    where that is easy to see, as are those that another one absorbs.

    Args:
        expression: a typed expression.
        schema: the attributes it names.
        limit: most conjunctions of the result.

    Returns:
        Conjunctions, in the order in which the text first asks for them. None:
        the expression never holds. An empty one: it always does.

    Raises:
        InputError: `too-large` beyond the limit, `unsupported` for a negated
            join, `unknown` for an attribute that is not declared.
    """
    for node in walk(expression):
        _check_declared(node, schema)
    builder = _Builder(schema, limit)
    return builder.finish(builder.build(expression, negated=False))


def _check_declared(node: Expression, schema: Schema) -> None:
    named = (
        (node.attribute,)
        if isinstance(node, Test)
        else (node.left, node.right)
        if isinstance(node, Equal)
        else ()
    )
    for name in named:
        if name not in schema:
            raise unknown("attribute", name, schema)


class _Builder:
    """Builds one normal form; holds the table of its literals."""

    def __init__(self, schema: Schema, limit: int) -> None:
        self._schema = schema
        self._limit = limit
        self._work = 0
        self._literals: list[Literal | Join] = []
        self._index: dict[Literal | Join, _Term | None] = {}
        self._of_attribute: defaultdict[str, list[int]] = defaultdict(list)

    def build(self, expression: Expression, *, negated: bool) -> _Dnf:
        match expression:
            case Not(term):
                return self.build(term, negated=not negated)
            case And(terms) | Or(terms):
                parts = [self.build(term, negated=negated) for term in terms]
                return self._all(parts) if self._is_and(expression, negated) else self._any(parts)
            case AtLeast(count, terms):
                parts = [self.build(term, negated=negated) for term in terms]
                # not (k of n) is (n - k + 1 of n) of the negated terms
                return self._at_least(len(terms) - count + 1 if negated else count, parts)
            case Equal(left, right):
                if negated:
                    raise InputError(
                        "unsupported", "the equality of two attributes cannot be negated",
                        at=expression.at, where=right,
                    )  # fmt: skip
                return self._one(Join(left, right))
            case _:
                return self._test(expression, negated)

    def finish(self, dnf: _Dnf) -> tuple[Conjunction, ...]:
        """Drop what cannot hold and what is said twice, and write literals out."""
        slim = [self._slim(mask) for mask, _ in dnf if self._can_hold(mask)]
        kept = self._absorb([(mask, 0) for mask in slim])
        return tuple(tuple(self._of(mask)) for mask, _ in kept)

    @staticmethod
    def _is_and(expression: And | Or, negated: bool) -> bool:
        return isinstance(expression, And) != negated

    def _test(self, test: Test, negated: bool) -> _Dnf:
        declared = self._schema[test.attribute]
        literal = _literal(test.attribute, test.op, test.value, declared)
        if not negated:
            return self._one(literal)
        absent = Literal(test.attribute, "!has")
        if test.op == "has":
            return self._one(absent)
        opposite = _literal(test.attribute, OPPOSITE[literal.op], literal.value, declared)
        return self._any([self._one(absent), self._one(opposite)])

    def _one(self, literal: Literal | Join) -> _Dnf:
        if literal not in self._index:
            self._index[literal] = self._enter(literal)
        term = self._index[literal]
        if term is None:
            return []
        # contradictions with literals that came later are found from their side
        return [term]

    def _enter(self, literal: Literal | Join) -> _Term | None:
        """Give a literal its bit, or None when it can never hold."""
        conflicts = 0
        if isinstance(literal, Literal):
            declared = self._schema[literal.attribute]
            if not feasible([literal], declared):
                return None
            for other in self._of_attribute[literal.attribute]:
                earlier = self._literals[other]
                assert isinstance(earlier, Literal)
                self._spend(1)
                if not feasible([earlier, literal], declared):
                    conflicts |= 1 << other
            self._of_attribute[literal.attribute].append(len(self._literals))
        self._literals.append(literal)
        return 1 << (len(self._literals) - 1), conflicts

    def _any(self, parts: Iterable[_Dnf]) -> _Dnf:
        return self._absorb([term for part in parts for term in part])

    def _all(self, parts: Iterable[_Dnf]) -> _Dnf:
        product: _Dnf = [(0, 0)]
        for part in parts:
            product = self._cross(product, part)
        return product

    def _cross(self, first: _Dnf, second: _Dnf) -> _Dnf:
        self._spend(len(first) * len(second))
        return self._absorb(
            [
                (mask | other, conflicts | others)
                for mask, conflicts in first
                for other, others in second
                if not (mask & others or other & conflicts)
            ]
        )

    def _at_least(self, count: int, parts: Sequence[_Dnf]) -> _Dnf:
        # ways[i]: at least i of the parts seen so far, counted from the right; only
        # the i that the parts on the left can still complete are kept.
        ways: dict[int, _Dnf] = {0: [(0, 0)]}
        for seen, part in enumerate(reversed(parts), start=1):
            least = max(0, count - (len(parts) - seen))
            ways = {
                need: self._any(
                    [
                        self._cross(part, ways[need - 1]) if need - 1 in ways else [],
                        ways.get(need, []),
                    ]
                )
                if need
                else [(0, 0)]
                for need in range(least, min(count, seen) + 1)
            }
        return ways[count]

    def _absorb(self, terms: _Dnf) -> _Dnf:
        """Keep the terms of which no other term asks less, in order."""
        unique = dict(terms)
        if len(unique) > self._limit * _BLOWUP:
            raise self._too_large()
        kept: list[int] = []
        for mask in sorted(unique, key=int.bit_count):
            self._spend(len(kept))
            if not any(mask & other == other for other in kept):
                kept.append(mask)
        if len(kept) > self._limit:
            raise self._too_large()
        chosen = set(kept)
        return [(mask, conflicts) for mask, conflicts in unique.items() if mask in chosen]

    def _can_hold(self, mask: int) -> bool:
        grouped: defaultdict[str, list[Literal]] = defaultdict(list)
        for literal in self._of(mask):
            if isinstance(literal, Literal):
                grouped[literal.attribute].append(literal)
        return all(feasible(group, self._schema[name]) for name, group in grouped.items())

    def _slim(self, mask: int) -> int:
        """Leave out `has(a)` where another test of a says so already."""
        literals = list(self._of(mask))
        named = {
            name
            for literal in literals
            for name in (
                (literal.left, literal.right)
                if isinstance(literal, Join)
                else (literal.attribute,)
                if literal.op != "has"
                else ()
            )
        }
        for literal in literals:
            if isinstance(literal, Literal) and literal.op == "has" and literal.attribute in named:
                term = self._index[literal]
                assert term is not None
                mask &= ~term[0]
        return mask

    def _of(self, mask: int) -> Iterable[Literal | Join]:
        while mask:
            low = mask & -mask
            yield self._literals[low.bit_length() - 1]
            mask ^= low

    def _spend(self, pairs: int) -> None:
        self._work += pairs
        if self._work > _WORK:
            raise self._too_large()

    def _too_large(self) -> InputError:
        return InputError(
            "too-large",
            f"the expression needs over {self._limit} conjunctions, or too much work to find"
            " them; expected fewer alternatives",
        )


def _literal(
    name: str, op: Op, value: Value | tuple[Value, ...] | None, declared: AttributeType
) -> Literal:
    """Make a literal in its one form: one-element sets are equalities, and so on."""
    if isinstance(value, tuple):
        members = tuple(sorted(set(value), key=lambda item: (str(type(item)), item)))
        if len(members) != 1:
            return Literal(name, op, members)
        value, op = members[0], "==" if op == "in" else "!="
    if declared.kind == "bool" and op == "!=":
        return Literal(name, "==", not value)
    return Literal(name, op, value)
