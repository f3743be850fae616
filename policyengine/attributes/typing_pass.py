"""Checking an untyped expression against the declared attributes."""

from __future__ import annotations

from typing import Any, Final, cast

from policyengine.attributes.grammar import Raw, RawValue, quoted
from policyengine.attributes.problems import nearest, shown, unknown
from policyengine.attributes.syntax import (
    And,
    AtLeast,
    Equal,
    Expression,
    Not,
    Or,
    Test,
    TestOp,
)
from policyengine.attributes.types import (
    NUMERIC,
    AttributeType,
    Schema,
    Value,
    check_size,
    coerce,
    describe,
)
from policyengine.errors import InputError

_ORDER: Final = ("<", "<=", ">", ">=")
_PARTS: Final = ("startsWith", "endsWith")


def typed(raw: Raw, schema: Schema, *, joins: bool) -> Expression:
    """Check types and make the final tree.

    The reader bounds the nesting of `raw`, so recursion is safe here.

    Args:
        raw: what the grammar read.
        schema: the declared attributes.
        joins: whether two attributes may be compared.

    Raises:
        InputError: `unknown`, `type`, `syntax`, `unsupported`, `too-large`.
    """
    return _Pass(schema, joins).visit(raw, negated=False)


class _Pass:
    def __init__(self, schema: Schema, joins: bool) -> None:
        self._schema = schema
        self._joins = joins

    def visit(self, raw: Raw, *, negated: bool) -> Expression:
        match raw.kind:
            case "or":
                return Or(self._terms(raw, negated))
            case "and":
                return And(self._terms(raw, negated))
            case "not":
                return Not(self.visit(raw.values[0], negated=True))
            case "bracket":
                return self.visit(raw.values[0], negated=negated)
            case "atLeast":
                return AtLeast(raw.count, self._terms(raw, negated))
            case "constant":
                return And(()) if raw.op == "true" else Or(())
            case _:
                return self._leaf(raw, negated)

    def _terms(self, raw: Raw, negated: bool) -> tuple[Expression, ...]:
        return tuple(self.visit(term, negated=negated) for term in raw.values)

    def _leaf(self, raw: Raw, negated: bool) -> Expression:
        declared = self._declared(raw.name, raw.at)
        if raw.kind == "has":
            return Test(raw.name, "has", None, raw.at)
        if raw.kind == "bare":
            return self._bare(raw, declared)
        if raw.op == "in":
            members = tuple(self._value(item, declared, raw.name) for item in raw.values)
            return Test(raw.name, "in", members, raw.at)
        operand: RawValue = raw.values[0]
        if operand.is_name:
            return self._join(raw, operand, declared, negated)
        self._check_operator(raw, declared)
        if raw.op in _PARTS:
            part = cast(str, operand.value)
            check_size(part, where=raw.name, at=operand.at)
            return Test(raw.name, cast(TestOp, raw.op), part, raw.at)
        value = self._value(operand, declared, raw.name)
        return Test(raw.name, cast(TestOp, raw.op), value, raw.at)

    def _declared(self, name: str, at: int) -> AttributeType:
        declared = self._schema.get(name)
        if declared is None:
            raise unknown("attribute", name, self._schema, at=at)
        return declared

    def _bare(self, raw: Raw, declared: AttributeType) -> Expression:
        if declared.kind != "bool":
            raise InputError(
                "type",
                f"{shown(raw.name)} alone is no condition: it is {describe(declared)};"
                " expected a comparison",
                at=raw.at,
                where=raw.name,
            )
        return Test(raw.name, "==", True, raw.at)

    def _check_operator(self, raw: Raw, declared: AttributeType) -> None:
        kind = declared.kind
        if raw.op in _ORDER and kind not in NUMERIC:
            problem = "numbers have an order"
        elif raw.op in _PARTS and kind != "string":
            problem = "strings have a beginning and an end"
        else:
            return
        raise InputError(
            "type",
            f"`{raw.op}` does not go with {shown(raw.name)} of type `{kind}`; only {problem}",
            at=raw.at,
            where=raw.name,
        )

    def _value(self, raw: RawValue, declared: AttributeType, name: str) -> Value:
        value = coerce(declared.kind, raw.value)
        if value is None:
            raise InputError(
                "type",
                f"{_written(raw.value)} does not fit {shown(name)} of type `{declared.kind}`;"
                f" expected {describe(declared)}",
                at=raw.at,
                where=name,
            )
        check_size(value, where=name, at=raw.at)
        if declared.kind == "enum" and value not in declared.values:
            raise unknown(f"value of `{name}`", str(value), declared.values, at=raw.at, where=name)
        return value

    def _join(
        self, raw: Raw, operand: RawValue, declared: AttributeType, negated: bool
    ) -> Expression:
        other = cast(str, operand.value)
        if other not in self._schema:
            raise self._not_a_value(other, operand.at)
        if not self._joins or raw.op != "==" or negated:
            problem = (
                "only `==` outside of `!` compares two attributes"
                if self._joins
                else "attributes cannot be compared with one another here; expected a value"
            )
            raise InputError("unsupported", problem, at=operand.at, where=other)
        if self._schema[other].kind != declared.kind:
            raise InputError(
                "type",
                f"{shown(raw.name)} of type `{declared.kind}` and {shown(other)} of type"
                f" `{self._schema[other].kind}` are never equal; expected one type",
                at=operand.at,
                where=other,
            )
        return Equal(raw.name, other, raw.at)

    def _not_a_value(self, name: str, at: int) -> InputError:
        close = nearest(name, self._schema) if self._joins else None
        return InputError(
            "syntax",
            f"{shown(name)} is no value; expected text in quotes, a number, `true` or `false`",
            at=at,
            where=name[:200],
            suggestion=close or quoted(name),
        )


def _written(value: Any) -> str:
    return shown(quoted(value)) if isinstance(value, str) else shown(str(value).lower())
