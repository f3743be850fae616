"""Environmental constraints: expressions of the policy language over `env.*`.

A constraint may also name the variables of its rule: `x != 7` keeps one officer
out, `env.duty == x` ties a value of the environment to a parameter (paper 002,
section 3.2: "exclusion of individuals and relationships between them"). What the
language allows between two attributes is allowed here: `==`, outside of `!`.

A constraint that names a value of the environment that was never set is not met,
whatever it says of it. Nor is one whose values are of another kind than it
compares with: what cannot be told counts as not met.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, TypeAlias, cast

from lark import Lark

from policyengine.attributes import (
    AttributeType,
    Expression,
    Value,
    check_name,
    evaluate,
    parse,
    shown,
    value_text,
)
from policyengine.attributes.grammar import Raw, RawValue, build_parser
from policyengine.errors import InputError
from policyengine.roles.terms import Bindings

PREFIX: Final = "env."
"""How the values of the environment are named."""

Environment: TypeAlias = Mapping[str, Value]
"""Values of the environment by full name (`env.hour`)."""
_Kind: TypeAlias = Literal["bool", "float", "string"]

_KEPT: Final = 512  # expressions may be long, so not too many are kept
_ORDER: Final = ("<", "<=", ">", ">=")
_PARTS: Final = ("startsWith", "endsWith")
_WORDS: Final[Mapping[str, str]] = {"bool": "true or false", "float": "a number", "string": "text"}


@dataclass(frozen=True, slots=True)
class Use:
    """What a constraint takes one of its names for.

    Args:
        name: `env.hour`, or a variable.
        kind: what it is compared with, or None where anything would do.
        whole: whether it is compared with whole numbers alone.
        group: the least of the names that it must be equal to; mostly its own.
    """

    name: str
    kind: str | None
    whole: bool
    group: str


@dataclass(frozen=True, slots=True)
class Constraint:
    """One environmental constraint, as `read_constraint` returns it.

    Args:
        text: the expression.
        uses: its names, sorted.
        size: nodes of the expression, a measure of the work to evaluate it.
    """

    text: str
    uses: tuple[Use, ...] = field(compare=False)
    size: int = field(compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The values of the environment that it names, sorted."""
        return tuple(use.name for use in self.uses if use.name.startswith(PREFIX))

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that it names, sorted."""
        return tuple(use.name for use in self.uses if not use.name.startswith(PREFIX))

    def problem(self, environment: Environment, bindings: Bindings) -> str | None:
        """Say why the constraint is not met, or return None when it is.

        Args:
            environment: what is set.
            bindings: values of all its variables.
        """
        values: dict[str, Value] = {}
        for use in self.uses:
            value = environment.get(use.name, bindings.get(use.name))
            if value is None:
                return f"{shown(use.name)} was never set"
            values[use.name] = value
            if use.kind not in (None, _kind(value)):
                written = f"{shown(use.name)} is {shown(value_text(value))}"
                return f"{written}, and the constraint asks for {_WORDS[use.kind]}"
        kinds = _kinds(self.uses, values)
        if kinds is None:
            return "it compares values of two kinds"
        if evaluate(_compiled(self.text, kinds), values):
            return None
        facts = (f"{shown(name)} is {shown(value_text(value))}" for name, value in values.items())
        return ", ".join(facts) or "it never is"


@lru_cache(maxsize=_KEPT)
def read_constraint(text: str, variables: frozenset[str] = frozenset()) -> Constraint:
    """Read a constraint.

    Args:
        text: an expression such as `env.hour >= 9 && env.hour < 17`.
        variables: the variables that the rule's other parts bind.

    Raises:
        InputError: what `parse` finds wrong with it; `unknown` for a name that is
            neither `env.*` nor one of the variables, with the position.
    """
    try:
        parse(text, {}, joins=True)
    except InputError as error:
        if error.kind != "unknown":  # it reads; only the names' types are still to be found
            raise
    nodes = tuple(_walk(_reader().parse(text)))
    for node in nodes:
        for name, at in _named(node):
            _check_known(name, at, variables)
    uses = _uses(nodes)
    # Kinds that contradict one another are found here, with their positions.
    parse(text, {use.name: AttributeType(_static(use)) for use in uses}, joins=True)
    return Constraint(text, uses, len(nodes))


@lru_cache(maxsize=1)
def _reader() -> Lark:
    return build_parser()


@lru_cache(maxsize=_KEPT)
def _compiled(text: str, kinds: tuple[tuple[str, str], ...]) -> Expression:
    schema = {name: AttributeType(cast(_Kind, kind)) for name, kind in kinds}
    return parse(text, schema, joins=True)


def _walk(raw: Raw) -> Iterator[Raw]:
    stack = [raw]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(each for each in node.values if isinstance(each, Raw))


def _named(node: Raw) -> Iterator[tuple[str, int]]:
    if node.name:
        yield node.name, node.at
    for value in node.values:
        if isinstance(value, RawValue) and value.is_name:
            yield value.value, value.at


def _check_known(name: str, at: int, variables: Collection[str]) -> None:
    if name in variables:
        return
    if name.startswith(PREFIX):
        check_name(name)
        return
    if len(name) == 1 and name.islower():
        message = f"the variable {shown(name)} stands in no other part of the rule"
        raise InputError("unknown", message, at=at, where=name)
    raise InputError(
        "unknown",
        f"{shown(name)} is no value of the environment; expected a name such as"
        f" {shown(PREFIX + name)}",
        at=at,
        where=name[:200],
        suggestion=PREFIX + name[:200],
    )


def _uses(nodes: tuple[Raw, ...]) -> tuple[Use, ...]:
    group = _groups(nodes)
    kinds: dict[str, str] = {}
    fractions: set[str] = set()
    for node in nodes:
        if not node.name:
            continue
        root = group[node.name]
        for kind, whole in _evidence(node):
            kinds.setdefault(root, kind)
            if not whole:
                fractions.add(root)
    return tuple(
        Use(name, kinds.get(group[name]), group[name] not in fractions, group[name])
        for name in sorted(group)
    )


def _groups(nodes: tuple[Raw, ...]) -> dict[str, str]:
    # Names that must be equal form a group; each is named by its least member.
    neighbours: dict[str, set[str]] = {}
    for node in nodes:
        together = [name for name, _ in _named(node)]
        for name in together:
            neighbours.setdefault(name, set()).update(together)
    group: dict[str, str] = {}
    for start in sorted(neighbours):
        stack = [start]
        while stack:
            name = stack.pop()
            if name not in group:
                group[name] = start
                stack.extend(neighbours[name])
    return group


def _evidence(node: Raw) -> Iterator[tuple[str, bool]]:
    """Yield the kinds that a node compares its name with, and whether with whole numbers."""
    if node.kind == "bare":
        yield "bool", True
    elif node.op in _ORDER:
        yield "float", True
    elif node.op in _PARTS:
        yield "string", True
    for value in node.values:
        if isinstance(value, RawValue) and not value.is_name:
            yield _kind(value.value), not isinstance(value.value, float)


def _static(use: Use) -> _Kind:
    return cast(_Kind, use.kind or "string")


def _kinds(
    uses: tuple[Use, ...], values: Mapping[str, Value]
) -> tuple[tuple[str, str], ...] | None:
    """Return the attribute type of each name, or None where equal names differ in kind."""
    kinds: dict[str, str] = {}
    whole: dict[str, bool] = {}
    for use in uses:
        kind = _kind(values[use.name])
        if kinds.setdefault(use.group, kind) != kind:
            return None
        fraction = isinstance(values[use.name], float) or not use.whole
        whole[use.group] = whole.get(use.group, True) and not fraction
    # Whole numbers stay exact: as floats, neighbours beyond 2^53 would be equal.
    return tuple(
        (use.name, "int" if kinds[use.group] == "float" and whole[use.group] else kinds[use.group])
        for use in uses
    )


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "float"
