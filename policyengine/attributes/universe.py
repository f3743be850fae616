"""From expressions to trees that every encryption scheme can match on.

An event becomes a set of *elements*: a label and a value, one value a label, such as
`zone==` "West", `level/3` "101" (the first three bits of a number's code), `zone^2` "We"
(its first two letters) or `zone?` "0" (absent). An expression becomes a tree of threshold
gates over such elements that holds for an event's elements exactly when the expression
holds for its values. Negation is gone from the tree: what is declared closed is replaced
by its complement, and only tests of open strings leave a *negated leaf* behind, which asks
for another value under the same label.

Source: papers 001, section 4 (access trees, bag of bits), and 003, section 4 (prefixes and
suffixes of strings); ranges by dyadic prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, TypeAlias, cast

from policyengine.attributes.codes import NumberCode
from policyengine.attributes.problems import unknown
from policyengine.attributes.syntax import And, AtLeast, Equal, Expression, Not, Or, Test, walk
from policyengine.attributes.text import value_text
from policyengine.attributes.types import NUMERIC, AttributeType, Schema, Value
from policyengine.errors import InputError

Ranges: TypeAlias = Literal["dyadic", "bits"]

PART_LIMIT: Final = 128
"""Longest prefix or suffix that can be tested under encryption, in characters."""
MAX_LEAVES: Final = 65_536
"""Most leaves of a tree."""
_LENGTH: Final = AttributeType("int", 0, PART_LIMIT)


@dataclass(frozen=True, slots=True, order=True)
class Element:
    """One thing that is true of an event.

    Args:
        label: what is looked at; an event has at most one element a label.
        value: what is there.
    """

    label: str
    value: str

    @property
    def token(self) -> str:
        """The element as one text; different elements have different tokens."""
        return f"{len(self.label)}:{self.label}{self.value}"


ANY: Final = Element("*", "1")
"""The element that every event has."""
NEVER: Final = Element("!", "1")
"""The element that no event has."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Asks for one element.

    Args:
        element: what is asked for.
        negated: asks for another value under the label instead; only in trees with tests
            of open strings. It never holds where the event has nothing under the label.
    """

    element: Element
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Gate:
    """At least `count` of the terms hold; 1 <= count <= number of terms, two terms or more."""

    count: int
    terms: tuple[Node, ...]


Node: TypeAlias = Leaf | Gate


def elements_of(
    values: dict[str, Value], schema: Schema, *, ranges: Ranges = "dyadic"
) -> tuple[Element, ...]:
    """Return everything that is true of an event's values.

    Args:
        values: checked values (`check_values`); attributes may be absent.
        schema: all attributes of the event's type; absence counts as well.
        ranges: `dyadic` (prefixes of a number's code) or `bits` (the paper's bag of bits).

    Returns:
        Elements, sorted, one value a label; `ANY` among them.

    Raises:
        InputError: `unsupported` for a bag of bits of an attribute without limits.
    """
    found = {ANY}
    for name, declared in schema.items():
        if name not in values:
            found.add(Element(f"{name}?", "0"))
            continue
        found.add(Element(f"{name}?", "1"))
        found.update(_elements(name, values[name], declared, ranges))
    return tuple(sorted(found))


def access_tree(expression: Expression, schema: Schema, *, ranges: Ranges = "dyadic") -> Node:
    """Turn an expression into a tree over elements.

    Args:
        expression: a typed expression.
        schema: the attributes that it names.
        ranges: as in `elements_of`; both sides must agree.

    Raises:
        InputError: `unsupported` for a join and for a bag of bits without limits,
            `too-large` for a tree of over `MAX_LEAVES` leaves or a prefix or suffix of
            over `PART_LIMIT` characters, `unknown` for an attribute that is not declared.
    """
    for node in walk(expression):
        _check(node, schema)
    tree = _Grower(schema, ranges).grow(expression, negated=False)
    if sum(1 for _ in leaves(tree)) > MAX_LEAVES:
        raise InputError("too-large", f"the expression needs over {MAX_LEAVES} encrypted tests")
    return tree


def satisfied(tree: Node, elements: Iterable[Element]) -> bool:
    """Tell whether a tree holds for an event's elements, without any encryption."""
    present = {element.label: element.value for element in elements}
    return _holds(tree, present)


def leaves(tree: Node) -> Iterator[Leaf]:
    """Visit the leaves from left to right."""
    stack: list[Node] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Leaf):
            yield node
        else:
            stack.extend(reversed(node.terms))


def all_of(terms: Iterable[Node]) -> Node:
    """Return a tree that asks for all terms, in its simplest form."""
    kept = tuple(terms)
    return at_least(len(kept), kept)


def any_of(terms: Iterable[Node]) -> Node:
    """Return a tree that asks for one of the terms, in its simplest form."""
    return at_least(1, tuple(terms))


def at_least(count: int, terms: tuple[Node, ...]) -> Node:
    """Return a tree that asks for `count` of the terms, without constants below a gate."""
    always = Leaf(ANY)
    kept = [term for term in terms if term not in (always, Leaf(NEVER))]
    count -= sum(term == always for term in terms)
    if count <= 0:
        return always
    if count > len(kept):
        return Leaf(NEVER)
    if len(kept) == 1:
        return kept[0]
    if count in (1, len(kept)):
        kept = _flat(kept, all_=count == len(kept))
        count = 1 if count == 1 else len(kept)
    return kept[0] if len(kept) == 1 else Gate(count, tuple(kept))


def _flat(terms: list[Node], *, all_: bool) -> list[Node]:
    """Take up the terms of gates of the same kind, and leave out what is said twice."""
    flat: dict[Node, None] = {}
    for term in terms:
        same = isinstance(term, Gate) and term.count == (len(term.terms) if all_ else 1)
        flat.update(dict.fromkeys(term.terms if same and isinstance(term, Gate) else (term,)))
    return list(flat)


def _holds(node: Node, present: dict[str, str]) -> bool:
    if isinstance(node, Gate):
        return sum(_holds(term, present) for term in node.terms) >= node.count
    found = present.get(node.element.label)
    return found is not None and (found == node.element.value) != node.negated


def _check(node: Expression, schema: Schema) -> None:
    if isinstance(node, Equal):
        raise InputError(
            "unsupported",
            "two attributes cannot be compared under encryption; one side must be a value",
            at=node.at,
            where=node.right,
        )
    if isinstance(node, Test) and node.attribute not in schema:
        raise unknown("attribute", node.attribute, schema, at=node.at)


@lru_cache(maxsize=4096)
def _code(declared: AttributeType) -> NumberCode:
    return NumberCode(declared)


def _elements(
    name: str, value: Value, declared: AttributeType, ranges: Ranges
) -> Iterator[Element]:
    yield Element(f"{name}==", value_text(value))
    if declared.kind in NUMERIC:
        yield from _number_elements(name, cast(float, value), declared, ranges)
    elif declared.kind == "string":
        text = cast(str, value)
        for length in range(1, min(len(text), PART_LIMIT) + 1):
            yield Element(f"{name}^{length}", text[:length])
            yield Element(f"{name}${length}", text[-length:])
        yield from _number_elements(f"{name}.", min(len(text), PART_LIMIT), _LENGTH, ranges)


def _number_elements(
    name: str, value: float, declared: AttributeType, ranges: Ranges
) -> Iterator[Element]:
    code = _code(declared).encode(value)
    if ranges == "bits":
        _check_width(name, declared)
        yield from (Element(f"{name}#{at}", bit) for at, bit in enumerate(code))
    else:
        yield from (Element(f"{name}/{at}", code[:at]) for at in range(1, len(code) + 1))


def _check_width(name: str, declared: AttributeType) -> int:
    width = _code(declared).width
    if width is None:
        raise InputError(
            "unsupported",
            f"a bag of bits needs limits; expected `min` and `max` of `{name}`",
            where=name,
        )
    return width


class _Grower:
    """Grows one tree."""

    def __init__(self, schema: Schema, ranges: Ranges) -> None:
        self._schema = schema
        self._ranges = ranges

    def grow(self, expression: Expression, *, negated: bool) -> Node:
        match expression:
            case Not(term):
                return self.grow(term, negated=not negated)
            case And(terms) | Or(terms):
                if isinstance(expression, And) == negated:
                    return any_of([self.grow(term, negated=negated) for term in terms])
                return all_of(self._conjunction(terms, negated))
            case AtLeast(count, terms):
                need = len(terms) - count + 1 if negated else count
                return at_least(need, tuple(self.grow(term, negated=negated) for term in terms))
            case _:
                assert isinstance(expression, Test)  # joins were refused
                return self._negated(expression) if negated else self._test(expression)

    def _conjunction(self, terms: tuple[Expression, ...], negated: bool) -> list[Node]:
        """Grow the terms of a conjunction; bounds of one attribute become one interval."""
        grown: list[Node] = []
        bounds: dict[str, list[Test]] = {}
        for term in terms:
            if not negated and isinstance(term, Test) and term.op in _BOUNDS:
                bounds.setdefault(term.attribute, []).append(term)
            else:
                grown.append(self.grow(term, negated=negated))
        return grown + [self._interval(name, tests) for name, tests in bounds.items()]

    def _negated(self, test: Test) -> Node:
        absent = Leaf(Element(f"{test.attribute}?", "0"))
        if test.op == "has":
            return absent
        return any_of([absent, self._opposite(test)])

    def _test(self, test: Test) -> Node:
        name, op = test.attribute, test.op
        if op == "has":
            return self._present(name)
        if op in _BOUNDS:
            return self._interval(name, [test])
        if op in ("startsWith", "endsWith"):
            return self._part(test)
        if op == "!=":
            return self._opposite(Test(name, "==", test.value))
        wanted = test.value if isinstance(test.value, tuple) else (cast(Value, test.value),)
        return any_of([self._equal(name, value) for value in wanted])

    def _opposite(self, test: Test) -> Node:
        """What holds where the attribute is there and the test does not hold."""
        name, op = test.attribute, test.op
        declared = self._schema[name]
        if op in _BOUNDS:
            return self._interval(name, [Test(name, _BOUNDS[op], test.value)])
        if op in ("startsWith", "endsWith"):
            return self._not_part(test)
        if op == "!=":
            return self._equal(name, cast(Value, test.value))
        excluded = test.value if isinstance(test.value, tuple) else (cast(Value, test.value),)
        if declared.kind == "enum":
            rest = [value for value in declared.values if value not in excluded]
            return any_of([self._equal(name, value) for value in rest])
        if declared.kind == "bool":
            rest_of = [value for value in (False, True) if value not in excluded]
            return any_of([self._equal(name, value) for value in rest_of])
        if declared.kind in NUMERIC:
            return self._gaps(name, sorted(set(cast("tuple[float, ...]", excluded))))
        others = [
            Leaf(Element(f"{name}==", value_text(value)), negated=True)
            for value in dict.fromkeys(excluded)
        ]
        return all_of([self._present(name), *others])

    def _present(self, name: str) -> Node:
        return Leaf(Element(f"{name}?", "1"))

    def _equal(self, name: str, value: Value) -> Node:
        if not self._schema[name].admits(value):
            return Leaf(NEVER)
        return Leaf(Element(f"{name}==", value_text(value)))

    def _part(self, test: Test) -> Node:
        part = self._part_text(test)
        if not part:
            return self._present(test.attribute)
        return Leaf(_part_element(test, part))

    def _not_part(self, test: Test) -> Node:
        part = self._part_text(test)
        if not part:
            return Leaf(NEVER)
        name = test.attribute
        shorter = self._between(f"{name}.", _LENGTH, None, len(part) - 1)
        other = Leaf(_part_element(test, part), negated=True)
        return any_of([shorter, all_of([self._present(name), other])])

    def _part_text(self, test: Test) -> str:
        part = cast(str, test.value)
        if len(part) > PART_LIMIT:
            raise InputError(
                "too-large",
                f"a beginning or end that is tested under encryption has at most {PART_LIMIT}"
                " characters",
                at=test.at,
                where=test.attribute,
            )
        return part

    def _interval(self, name: str, tests: list[Test]) -> Node:
        """Return the tree of bounds that must all hold."""
        low = high = None
        low_open = high_open = False
        for test in tests:
            value = cast(float, test.value)
            if test.op in (">", ">="):
                if low is None or (value, test.op == ">") > (low, low_open):
                    low, low_open = value, test.op == ">"
            elif high is None or (-value, test.op == "<") > (-high, high_open):
                high, high_open = value, test.op == "<"
        return self._range(name, low, low_open, high, high_open)

    def _gaps(self, name: str, excluded: list[float]) -> Node:
        edges: list[float | None] = [None, *excluded, None]
        return any_of([self._range(name, low, True, high, True) for low, high in pairwise(edges)])

    def _range(
        self, name: str, low: float | None, low_open: bool, high: float | None, high_open: bool
    ) -> Node:
        declared = self._schema[name]
        ranks = _code(declared).interval(low, low_open, high, high_open)
        if ranks is None:
            return Leaf(NEVER)
        return self._between(name, declared, *ranks)

    def _between(
        self, name: str, declared: AttributeType, first: int | None, last: int | None
    ) -> Node:
        present = self._present(name.removesuffix("."))
        code = _code(declared)
        if self._ranges == "bits":
            _check_width(name, declared)
            ends = [
                _bag(name, code.code(rank), inside)
                for rank, inside in ((first, "1"), (last, "0"))
                if rank is not None
            ]
            return all_of(ends) if ends else present
        prefixes = code.cover(first, last)
        if prefixes == ("",):
            return present
        return any_of([Leaf(Element(f"{name}/{len(prefix)}", prefix)) for prefix in prefixes])


_BOUNDS: Final[dict[str, Literal["<", "<=", ">", ">="]]] = {
    "<": ">=", "<=": ">", ">": "<=", ">=": "<",
}  # fmt: skip
"""The operators of order, and what holds when they do not."""


def _part_element(test: Test, part: str) -> Element:
    mark = "^" if test.op == "startsWith" else "$"
    return Element(f"{test.attribute}{mark}{len(part)}", part)


def _bag(name: str, bound: str, inside: str) -> Node:
    """Return the comparison with a bound, bit by bit (paper 001, section 4).

    Args:
        name: the attribute.
        bound: code of the bound, itself inside.
        inside: the bit that, where the bound has the other one, decides: `1` for values
            at or above the bound, `0` for those at or below it.
    """
    tree: Node = Leaf(ANY)
    for at in reversed(range(len(bound))):
        leaf = Leaf(Element(f"{name}#{at}", inside))
        tree = all_of([leaf, tree]) if bound[at] == inside else any_of([leaf, tree])
    return tree
