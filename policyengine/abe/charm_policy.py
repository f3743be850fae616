"""Policies for Charm's schemes without Charm's parser.

Charm's `PolicyParser` fails open (`role=admin and level=9` parses to `ROLE`) and keeps its
stack in a global, so nothing is ever handed to it: `TreePrograms` stands in the place of a
scheme's `util` and takes access trees. Their elements become names of one fixed form, which
say nothing and which no person wrote.

A scheme whose span program is made here is safe only while no name stands in two rows. Where
Charm strips the number of a repeated attribute, both rows hash alike, and their difference
is free of the attribute: whoever has B alone opens `A and (A or B)`. So the name of an
element counts its *uses*, and a key has the element once a use.

Source: paper 001, section 4 (access trees); Lewko and Waters (2011), appendix G, for the
rows; Agrawal and Chase, FAME (2017), section 3, for what is done with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from policyengine.abe.group import ORDER
from policyengine.abe.shares import Sharing, is_threshold, plan, select
from policyengine.attributes.text import value_text
from policyengine.attributes.universe import Element, Leaf, Node, leaves
from policyengine.errors import DecryptionError, InputError
from policyengine.primitives.prf import prf

SparseRow: TypeAlias = dict[int, int]
"""Entries of a row by column; the others are zero."""
Naming: TypeAlias = Callable[[Element, int], str]
_NAMES: Final = b"portcullis/cpabe/names/v1"


def element_name(element: Element, use: int) -> str:
    """Return the name of an element in a scheme: `E`, 64 capital digits, `N` and the use.

    Args:
        element: what the row asks for.
        use: how often the element stood in the tree before, from the left.
    """
    return f"E{prf(_NAMES, element.token).hex().upper()}N{use}"


def uses(tree: Node) -> list[int]:
    """Return for each leaf, from left to right, how often its element stood before."""
    seen: Counter[Element] = Counter()
    found = []
    for leaf in leaves(tree):
        found.append(seen[leaf.element])
        seen[leaf.element] += 1
    return found


def span_rows(sharing: Sharing) -> tuple[list[SparseRow], int]:
    """Return the rows of a tree's span program, one a leaf from left to right, and its width.

    The rows go with the coefficients of `shares.select`: multiplied with them, the rows of
    leaves that satisfy the tree add up to (1, 0, ..., 0). The new columns of an AND hold -1
    and 1 only, those of a threshold gate the powers of its terms' indices.
    """
    rows: list[SparseRow] = []
    indices = iter(sharing.indices)
    width = 1

    def visit(node: Node, row: SparseRow) -> None:
        nonlocal width
        if isinstance(node, Leaf):
            rows.append(row)
            return
        first, width = width, width + node.count - 1
        fresh = range(first, width)
        if is_threshold(node):
            given = next(indices)
            for term, index in zip(node.terms, given, strict=True):
                powers = {column: pow(index, at + 1, ORDER) for at, column in enumerate(fresh)}
                visit(term, row | powers)
        elif node.count == 1:
            for term in node.terms:
                visit(term, row)
        else:
            for place, term in enumerate(node.terms):
                steps = {} if place else dict.fromkeys(fresh[:1], 1)
                if place:
                    steps = {fresh[place - 1]: -1}
                    steps |= {fresh[place]: 1} if place < len(fresh) else {}
                visit(term, steps | row if place == len(fresh) else steps)

    visit(sharing.tree, {0: 1})
    return rows, width


def check_leaves(tree: Node) -> None:
    """Refuse what a payload policy cannot ask for.

    Raises:
        InputError: `unsupported` for a negated leaf.
    """
    for leaf in leaves(tree):
        if leaf.negated:
            raise InputError(
                "unsupported",
                f"a payload policy cannot ask for {_negated(leaf.element)}, which is an open"
                " string; expected a test that is not negated",
                where=attribute_of(leaf.element),
            )


def attribute_of(element: Element) -> str:
    """Return the attribute that a negatable element speaks of (`zone==`, `zone^2`, `zone$2`)."""
    if element.label.endswith("=="):
        return element.label[:-2]
    return element.label.rstrip("0123456789")[:-1]


def _negated(element: Element) -> str:
    name = attribute_of(element)
    if element.label.endswith("=="):
        return f"`{name} != {element.value}`"
    function = "startsWith" if element.label[len(name)] == "^" else "endsWith"
    return f"`!{name}.{function}({value_text(element.value)})`"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a program as Charm's schemes see it: a thing with a name."""

    name: str

    def getAttributeAndIndex(self) -> str:  # noqa: N802  Charm's name
        """Return the name, which no other row has."""
        return self.name

    def getAttribute(self) -> str:  # noqa: N802  Charm's name
        """Return the name under which keys know it: the same."""
        return self.name


@dataclass(frozen=True, slots=True)
class Program:
    """A tree, ready for a scheme.

    Args:
        sharing: the tree.
        names: one a leaf, from left to right, all different.
    """

    sharing: Sharing
    names: tuple[str, ...]


class TreePrograms:
    """What Charm's schemes call `util`: takes access trees where Charm's takes text.

    Charm's schemes add up rows without coefficients, so only AND and OR go through; the
    product's own scheme (`fame`) has coefficients, and takes every gate. As with Charm's, one
    object serves one thread.

    Args:
        group: the scheme's group; kept because schemes expect it.
        naming: how elements are called.
    """

    def __init__(self, group: Any, naming: Naming = element_name) -> None:
        self.group = group
        self.len_longest_row = 1
        self._naming = naming

    def createPolicy(self, tree: object) -> Program:  # noqa: N802  Charm's name
        """Make a program of a tree.

        Raises:
            InputError: `invalid` for anything but a tree (text above all), `unsupported` for
                negated leaves and for gates other than AND and OR.
        """
        if isinstance(tree, Program):
            return tree
        if not isinstance(tree, Node):
            raise InputError("invalid", "a policy is an access tree here, never a text")
        check_leaves(tree)
        sharing = plan(tree)
        if sharing.indices:
            raise InputError("unsupported", "this scheme knows AND and OR only")
        return Program(sharing, program_names(tree, self._naming))

    def convert_policy_to_msp(self, program: Program) -> dict[str, list[int]]:
        """Return the rows by name, and set `len_longest_row` to their length."""
        rows, self.len_longest_row = span_rows(program.sharing)
        columns = range(self.len_longest_row)
        return {
            name: [row.get(column, 0) for column in columns]
            for name, row in zip(program.names, rows, strict=True)
        }

    def prune(self, program: Program, attributes: Iterable[str]) -> list[Row]:
        """Return the fewest rows that suffice.

        Raises:
            DecryptionError: the attributes do not satisfy the policy. Charm's returns False,
                on which its schemes print and return None.
        """
        had = set(attributes)
        chosen = select(program.sharing, [name in had for name in program.names])
        if chosen is None:
            raise DecryptionError("the ciphertext does not open")
        return [Row(program.names[number]) for number, _ in chosen]

    def getCoefficients(self, program: Program) -> dict[str, int]:  # noqa: N802  Charm's name
        """Return the coefficient of each row: always 1."""
        return dict.fromkeys(program.names, 1)

    def getAttributeList(self, program: Program) -> list[str]:  # noqa: N802  Charm's name
        """Return the names from left to right."""
        return list(program.names)

    def strip_index(self, name: str) -> str:
        """Return the name itself: a repeated element is another attribute, see above."""
        return name


def program_names(tree: Node, naming: Naming = element_name) -> tuple[str, ...]:
    """Return the names of a tree's leaves, from left to right."""
    pairs: Sequence[tuple[Leaf, int]] = list(zip(leaves(tree), uses(tree), strict=True))
    return tuple(naming(leaf.element, use) for leaf, use in pairs)
