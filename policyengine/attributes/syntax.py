"""The syntax tree of the policy language.

Every node is immutable and hashable. `And(())` is always true, `Or(())` never.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from policyengine.attributes.types import Value
from policyengine.errors import InputError

TestOp: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">=", "in", "startsWith", "endsWith", "has"]

MAX_NESTING: Final = 64
"""How deep brackets and negations of a text may nest."""
MAX_DEPTH: Final = 256
"""How deep a tree may be; a text of `MAX_NESTING` stays below it."""


@dataclass(frozen=True, slots=True)
class Test:
    """One test of one attribute; false where the attribute is absent.

    Args:
        attribute: name of the attribute.
        op: the operator.
        value: a value; for `in` a tuple of values; for `has` None.
        at: position of the attribute in the text.
    """

    __test__ = False  # not a test case, whatever pytest thinks of the name

    attribute: str
    op: TestOp
    value: Value | tuple[Value, ...] | None = None
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Equal:
    """Both attributes are there and equal.

    Args:
        left: name of an attribute.
        right: name of another one of the same kind.
        at: position in the text.
    """

    left: str
    right: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite truth value."""

    term: Expression


@dataclass(frozen=True, slots=True)
class And:
    """All terms hold."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one term holds."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AtLeast:
    """At least `count` of the terms hold; 1 <= count <= number of terms."""

    count: int
    terms: tuple[Expression, ...]


Expression: TypeAlias = Test | Equal | Not | And | Or | AtLeast


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the terms directly below a node."""
    if isinstance(expression, And | Or | AtLeast):
        return expression.terms
    return (expression.term,) if isinstance(expression, Not) else ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Visit every node from left to right, parents first, without recursion.

    Raises:
        InputError: `too-large` for a tree deeper than `MAX_DEPTH`.
    """
    stack: list[tuple[Expression, int]] = [(expression, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise InputError("too-large", f"the expression nests over {MAX_DEPTH} deep")
        yield node
        stack.extend((child, depth + 1) for child in reversed(children(node)))


def names(expression: Expression) -> tuple[str, ...]:
    """Return the attributes that an expression names, sorted.

    Raises:
        InputError: `too-large` for a tree deeper than `MAX_DEPTH`.
    """
    found: set[str] = set()
    for node in walk(expression):
        if isinstance(node, Test):
            found.add(node.attribute)
        elif isinstance(node, Equal):
            found.update((node.left, node.right))
    return tuple(sorted(found))
