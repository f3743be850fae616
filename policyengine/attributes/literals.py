"""Literals: the tests that stand in a normal form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast
from typing import Literal as OneOf

from policyengine.attributes.types import Value, check_name, coerce
from policyengine.errors import DecodeError, InputError

Op: TypeAlias = OneOf[
    "==", "!=", "<", "<=", ">", ">=", "in", "!in",
    "startsWith", "!startsWith", "endsWith", "!endsWith", "has", "!has",
]  # fmt: skip

OPS: Final[tuple[Op, ...]] = (
    "==", "!=", "<", "<=", ">", ">=", "in", "!in",
    "startsWith", "!startsWith", "endsWith", "!endsWith", "has", "!has",
)  # fmt: skip

OPPOSITE: Final[Mapping[Op, Op]] = {
    "==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "!in", "!in": "in",
    "startsWith": "!startsWith", "!startsWith": "startsWith",
    "endsWith": "!endsWith", "!endsWith": "endsWith", "has": "!has", "!has": "has",
}  # fmt: skip
"""The test that holds, where the attribute is there, exactly when the other does not."""


@dataclass(frozen=True, slots=True)
class Literal:
    """One test of one attribute; false where it is absent, `!has` excepted.

    Args:
        attribute: name of the attribute.
        op: one of `OPS`.
        value: a value; for `in` and `!in` a sorted tuple of values; for `has`
            and `!has` None.
    """

    attribute: str
    op: Op
    value: Value | tuple[Value, ...] | None = None

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Tell whether the test holds for these values."""
        if self.attribute not in values:
            return self.op == "!has"
        return self.op != "!has" and holds_for(self, values[self.attribute])

    def to_json(self) -> dict[str, object]:
        """Write `{"attribute", "op", "value"}`; `has` and `!has` have no value."""
        out: dict[str, object] = {"attribute": self.attribute, "op": self.op}
        if self.value is not None:
            out["value"] = list(self.value) if isinstance(self.value, tuple) else self.value
        return out

    @classmethod
    def from_json(cls, obj: object) -> Literal:
        """Read what `to_json` wrote, strictly.

        Raises:
            DecodeError: a field is missing, unknown or of the wrong type.
        """
        if not isinstance(obj, Mapping) or not {"attribute", "op"} <= set(obj):
            raise DecodeError("a predicate has an attribute and an operator")
        op, value = obj["op"], obj.get("value")
        if op not in OPS or set(obj) != (
            {"attribute", "op"} if op in ("has", "!has") else {"attribute", "op", "value"}
        ):
            raise DecodeError("a predicate has an operator and the value that it needs")
        try:
            check_name(obj["attribute"])
        except (InputError, TypeError) as error:
            raise DecodeError("a predicate names an attribute") from error
        return cls(obj["attribute"], cast(Op, op), _decoded(cast(Op, op), value))


@dataclass(frozen=True, slots=True)
class Join:
    """Two attributes are there and equal.

    Args:
        left: name of an attribute.
        right: name of another one of the same kind.
    """

    left: str
    right: str

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Tell whether both are there and equal."""
        if self.left not in values or self.right not in values:
            return False
        return values[self.left] == values[self.right]

    def to_json(self) -> dict[str, object]:
        """Write `{"left", "right"}`."""
        return {"left": self.left, "right": self.right}


Conjunction: TypeAlias = tuple[Literal | Join, ...]
"""Literals that must all hold; the empty one always does."""


def holds_for(literal: Literal, value: Value) -> bool:
    """Tell whether a literal holds for a value that is there (not for `!has`)."""
    wanted: Any = literal.value
    actual: Any = value
    match literal.op:
        case "==":
            return bool(actual == wanted)
        case "!=":
            return bool(actual != wanted)
        case "<":
            return bool(actual < wanted)
        case "<=":
            return bool(actual <= wanted)
        case ">":
            return bool(actual > wanted)
        case ">=":
            return bool(actual >= wanted)
        case "in" | "!in":
            return (actual in wanted) == (literal.op == "in")
        case "startsWith" | "!startsWith":
            return bool(actual.startswith(wanted)) == (literal.op == "startsWith")
        case "endsWith" | "!endsWith":
            return bool(actual.endswith(wanted)) == (literal.op == "endsWith")
        case _:
            return literal.op == "has"


def conjunction_holds(conjunction: Conjunction, values: Mapping[str, Value]) -> bool:
    """Tell whether every literal of a conjunction holds."""
    return all(literal.holds(values) for literal in conjunction)


def bind_joins(conjunction: Conjunction, values: Mapping[str, Value]) -> Conjunction | None:
    """Replace the joins of a conjunction by tests, for one party whose values are known.

    `subject.consumer == event.consumer` becomes `event.consumer == "X"` for the
    subject with consumer X (PS-ACF, the rule AP_A of the paper's example).

    Args:
        conjunction: literals and joins.
        values: the known side, by full name (`subject.consumer`).

    Returns:
        A conjunction without joins; None when it can never hold: neither side of
        a join is known, or both are and differ.
    """
    bound: list[Literal | Join] = []
    for literal in conjunction:
        if isinstance(literal, Literal):
            bound.append(literal)
            continue
        known = {name: values[name] for name in (literal.left, literal.right) if name in values}
        if len(known) == 1:
            ((name, value),) = known.items()
            other = literal.right if name == literal.left else literal.left
            bound.append(Literal(other, "==", value))
        elif not literal.holds(values):
            return None
    return tuple(dict.fromkeys(bound))


def _decoded(op: Op, value: object) -> Value | tuple[Value, ...] | None:
    if op in ("has", "!has"):
        return None
    if op in ("in", "!in"):
        if not isinstance(value, list):
            raise DecodeError("a predicate of a set has a list of values")
        return tuple(_decoded_value(item) for item in value)
    decoded = _decoded_value(value)
    textual = op.endswith("With")
    ordered = op in ("<", "<=", ">", ">=")
    if (textual and not isinstance(decoded, str)) or (ordered and isinstance(decoded, str | bool)):
        raise DecodeError("a predicate's value does not fit its operator")
    return decoded


def _decoded_value(value: object) -> Value:
    for kind in ("bool", "string", "int", "float"):
        found = coerce(kind, value)
        if found is not None:
            return found
    raise DecodeError("a predicate's value is text, a number or a truth value")
