"""Does one expression imply another? Decided over all values of the declared domain.

`g` implies `f` when no event meets `g` and not `f`. The search for such an event splits
the domains of attributes, cut into regions (`regions`), by one undecided test after the
other, and judges what is left by three-valued evaluation, so that whole boxes of values
are settled at once. It is exact within a bound of work. Beyond the bound the answer is
"does not imply": never a false yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from policyengine.attributes import (
    And,
    AtLeast,
    Equal,
    Expression,
    Not,
    Or,
    Schema,
    Test,
)
from policyengine.attributes.syntax import walk
from policyengine.events.regions import Regions

WORK: Final = 1_000_000
"""Most steps (regions, nodes judged for a box) before an answer counts as no."""

_SEARCH: Final = 20  # what it costs to begin a search, in steps


@dataclass(frozen=True, slots=True)
class _Cell:
    """A test, ready to be judged: bit i of `mask` is its answer for the i-th region."""

    attribute: int
    mask: int


@dataclass(frozen=True, slots=True)
class _Count:
    """At least `least` of the terms hold."""

    least: int
    terms: tuple[_Node, ...]


_Node: TypeAlias = _Cell | _Count
_Box: TypeAlias = tuple[int, ...]  # the regions that are left, one mask an attribute


class TooMuchWork(Exception):
    """The bound is reached."""


def implies(
    premises: Iterable[Expression],
    conclusion: Expression,
    schema: Schema,
    *,
    work: int = WORK,
) -> bool:
    """Tell whether a conclusion holds wherever all premises hold.

    Args:
        premises: typed expressions; none holds always.
        conclusion: a typed expression.
        schema: every attribute that they name.
        work: bound of the search.

    Returns:
        True only when it is certain. False when there is a counterexample, when the
        search would take too long, or when an expression compares two attributes.
    """
    try:
        return Search(schema, work).implies(premises, conclusion)
    except TooMuchWork:
        return False


def conjuncts(expressions: Iterable[Expression]) -> Iterator[Expression]:
    """Visit the terms of a conjunction, conjunctions inside it opened."""
    stack = list(expressions)[::-1]
    while stack:
        expression = stack.pop()
        if isinstance(expression, And):
            stack.extend(reversed(expression.terms))
        else:
            yield expression


class Search:
    """Implications over one schema that share a bound of work.

    Args:
        schema: every attribute that the expressions name.
        work: most steps of all the searches together.
    """

    def __init__(self, schema: Schema, work: int = WORK) -> None:
        self._schema = schema
        self._left = work

    def implies(self, premises: Iterable[Expression], conclusion: Expression) -> bool:
        """Tell whether a conclusion holds wherever all premises hold, as `implies` does.

        Raises:
            TooMuchWork: the bound is reached before the answer is known.
        """
        given = tuple(dict.fromkeys(conjuncts(premises)))
        known = set(given)
        # What is asked for word for word needs no search: reflexive whatever the bound
        wanted = tuple(term for term in conjuncts([conclusion]) if term not in known)
        return not wanted or self._follows(given, And(wanted))

    def _follows(self, premises: Sequence[Expression], conclusion: Expression) -> bool:
        self.spend(_SEARCH)
        asked: dict[str, dict[Test, None]] = {}
        for expression in (*premises, conclusion):
            for node in walk(expression):
                self.spend(1)
                if isinstance(node, Equal):
                    return False  # two attributes at once: regions cannot tell
                if isinstance(node, Test) and node not in asked.setdefault(node.attribute, {}):
                    self.spend(_size(node))
                    asked[node.attribute][node] = None
        box, cells = self._cut(asked)
        refuted = _compiled(conclusion, cells, negated=True)
        widest, others = _alternatives(premises)
        given = [_compiled(term, cells) for term in others]
        # Alternatives are tried one by one: each leaves a small box
        return not any(
            self._met(box, (_compiled(choice, cells), refuted, *given)) for choice in widest.terms
        )

    def _cut(self, asked: Mapping[str, Iterable[Test]]) -> tuple[_Box, dict[Test, _Cell]]:
        box: list[int] = []
        cells: dict[Test, _Cell] = {}
        for number, (name, tests) in enumerate(asked.items()):
            self.spend(_regions(tests))
            regions = Regions(tests, self._schema[name])
            box.append(regions.all)
            cells.update((test, _Cell(number, regions.mask(test))) for test in tests)
        return tuple(box), cells

    def _met(self, box: _Box, nodes: Sequence[_Node]) -> bool:
        """Tell whether some values of the box meet every node."""
        harder: list[_Node] = []
        for node in _opened(nodes):
            if isinstance(node, _Cell):  # what must hold narrows the box at once
                box = _narrowed(box, node.attribute, node.mask)
            else:
                harder.append(node)
        if not all(box):
            return False
        goal = _Count(len(harder), tuple(harder))
        stack = [box]
        while stack:
            at = stack.pop()
            judged = self._judge(goal, at)
            if judged is True:
                return True
            if isinstance(judged, _Cell):
                stack.append(_narrowed(at, judged.attribute, ~judged.mask))
                stack.append(_narrowed(at, judged.attribute, judged.mask))
        return False

    def _judge(self, node: _Node, box: _Box) -> bool | _Cell:
        """Judge a node for a whole box: true, false, or a cell that is still open."""
        self.spend(1)
        if isinstance(node, _Cell):
            left = box[node.attribute]
            met = left & node.mask
            return node if met not in (0, left) else met != 0
        yes, possible = 0, len(node.terms)
        undecided: _Cell | None = None
        if node.least <= 0 or possible < node.least:
            return node.least <= 0
        for term in node.terms:
            judged = self._judge(term, box)
            if judged is True:
                yes += 1
                if yes >= node.least:
                    return True
            elif judged is False:
                possible -= 1
                if possible < node.least:
                    return False
            else:
                undecided = undecided or judged
        assert undecided is not None  # fewer are true than are asked for, more could be
        return undecided

    def spend(self, steps: int) -> None:
        """Count steps towards the bound.

        Raises:
            TooMuchWork: they are more than are left.
        """
        self._left -= steps
        if self._left < 0:
            raise TooMuchWork


def _alternatives(premises: Sequence[Expression]) -> tuple[Or, list[Expression]]:
    """Part premises into the widest disjunction among them and the others."""
    widest = max(
        (term for term in premises if isinstance(term, Or)),
        key=lambda term: len(term.terms),
        default=Or((And(()),)),
    )
    return widest, [term for term in premises if term is not widest]


def _compiled(
    expression: Expression, cells: Mapping[Test, _Cell], *, negated: bool = False
) -> _Node:
    """Prepare an expression, or its negation with `!` moved down to the tests."""
    match expression:
        case Test():
            cell = cells[expression]
            return _Cell(cell.attribute, ~cell.mask) if negated else cell
        case Not(term):
            return _compiled(term, cells, negated=not negated)
        case And(terms):
            least = len(terms)
        case Or(terms):
            least = 1
        case _:
            assert isinstance(expression, AtLeast)  # comparisons were turned away before
            least, terms = expression.count, expression.terms
    # not (k of n) is (n - k + 1 of n) of the negated terms
    return _Count(
        len(terms) - least + 1 if negated else least,
        tuple(_compiled(term, cells, negated=negated) for term in terms),
    )


def _opened(nodes: Iterable[_Node]) -> Iterator[_Node]:
    """Visit what must hold, conjunctions opened."""
    for node in nodes:
        if isinstance(node, _Count) and node.least == len(node.terms):
            yield from _opened(node.terms)
        else:
            yield node


def _narrowed(box: _Box, attribute: int, mask: int) -> _Box:
    return (*box[:attribute], box[attribute] & mask, *box[attribute + 1 :])


def _regions(tests: Iterable[Test]) -> int:
    """Estimate the work of cutting a domain: parts of text combine, and are tried one by one."""
    starts = sum(test.op == "startsWith" for test in tests)
    ends = sum(test.op == "endsWith" for test in tests)
    return (starts + 1) * (ends + 1) * (starts + ends + 1)


def _size(test: Test) -> int:
    """Count the letters that a test compares with, which bounds the letters in use."""
    values = test.value if isinstance(test.value, tuple) else (test.value,)
    return sum(len(value) for value in values if isinstance(value, str)) + len(values)
