"""Types of attributes: what values an attribute may have.

The declared domain is part of the language: values outside it are refused, and
literals outside it are never met.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias, cast

from policyengine.attributes.problems import listed, nearest, one_of, shown, unknown
from policyengine.errors import InputError

Value: TypeAlias = str | int | float | bool
Kind: TypeAlias = Literal["string", "int", "float", "enum", "bool"]

KINDS: Final = ("bool", "enum", "float", "int", "string")
NUMERIC: Final = ("int", "float")
MAX_STRING: Final = 65_536
"""Longest string value, in characters."""
MAX_INTEGER: Final = 10**100
"""Magnitude that no whole number reaches."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_RESERVED: Final = frozenset({"in", "true", "false", "null"})
_FIELDS: Final = ("type", "min", "max", "step", "values")


@dataclass(frozen=True, slots=True)
class AttributeType:
    """What values an attribute may have.

    Args:
        kind: `string`, `int`, `float`, `enum` or `bool`.
        minimum: least number, numbers only; None is no bound.
        maximum: greatest number, numbers only; None is no bound.
        step: distance of two neighbours, counted from the minimum (or 0), numbers only.
        values: what an enum may be, in order, without doubles.

    Raises:
        InputError: `unknown` for a kind that does not exist, `invalid` for
            limits that do not fit the kind or leave no value.
    """

    kind: Kind
    minimum: int | float | None = None
    maximum: int | float | None = None
    step: int | float | None = None
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("type", str(self.kind), KINDS, where="type")
        _check_values(self)
        _check_numbers(self)

    @classmethod
    def from_json(cls, obj: object) -> AttributeType:
        """Read a declaration such as `{"type": "int", "min": 0, "max": 1023}`.

        Raises:
            InputError: `invalid` or `unknown`, naming the field.
        """
        if not isinstance(obj, Mapping):
            raise InputError("invalid", 'a type is an object such as `{"type": "string"}`')
        for field in obj:
            if field not in _FIELDS:
                raise unknown("field of a type", str(field), _FIELDS)
        kind = obj.get("type")
        if not isinstance(kind, str) or kind not in KINDS:
            raise unknown("type", str(kind), KINDS, where="type")
        return cls(
            cast(Kind, kind),
            _number(obj.get("min"), "min"),
            _number(obj.get("max"), "max"),
            _number(obj.get("step"), "step"),
            _texts(obj.get("values", ())),
        )

    def to_json(self) -> dict[str, object]:
        """Write the declaration that `from_json` reads."""
        limits = {"min": self.minimum, "max": self.maximum, "step": self.step}
        out: dict[str, object] = {"type": self.kind}
        out.update({field: limit for field, limit in limits.items() if limit is not None})
        if self.kind == "enum":
            out["values"] = list(self.values)
        return out

    def check(self, value: object, name: str) -> Value:
        """Check a value against the declared domain.

        Args:
            value: the value.
            name: the attribute, for the message.

        Returns:
            The value in its one form: a `float` attribute's whole numbers become
            floats, minus zero becomes zero.

        Raises:
            InputError: `invalid` when the value is outside the domain,
                `too-large` for a string or number beyond the engine's limits.
        """
        converted = self._converted(value, name)
        problem = self._outside(converted)
        if problem is not None:
            suggestion = nearest(str(value), self.values) if self.kind == "enum" else None
            raise InputError(
                "invalid",
                f"{shown(value)} is outside the domain of {shown(name)}: {problem}",
                where=name,
                suggestion=suggestion,
            )
        return converted

    def admits(self, value: Value) -> bool:
        """Tell whether a value of the right kind lies in the declared domain."""
        return self._outside(value) is None

    def _converted(self, value: object, name: str) -> Value:
        converted = coerce(self.kind, value)
        if converted is None:
            raise InputError(
                "invalid",
                f"{shown(value)} is outside the domain of {shown(name)}: expected {describe(self)}",
                where=name,
            )
        check_size(converted, where=name)
        return converted

    def _outside(self, value: Value) -> str | None:
        if self.kind == "enum":
            return None if value in self.values else listed(self.values)
        if self.kind not in NUMERIC:
            return None
        number = cast("int | float", value)
        if self.minimum is not None and number < self.minimum:
            return f"expected at least {self.minimum}"
        if self.maximum is not None and number > self.maximum:
            return f"expected at most {self.maximum}"
        if self.step is not None and not _on_grid(number, self.minimum, self.step):
            return f"expected steps of {self.step}"
        return None


Schema: TypeAlias = Mapping[str, AttributeType]
"""The attributes that an expression or an event may name."""

_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "`true` or `false`",
}


def describe(declared: AttributeType) -> str:
    """Say in plain words what values a type has."""
    if declared.kind == "enum":
        return one_of(declared.values)
    return _DESCRIPTIONS[declared.kind]


def coerce(kind: str, value: object) -> Value | None:
    """Bring a value to its one form for a kind, or return None when it is of another kind."""
    if kind == "bool":
        return value if isinstance(value, bool) else None
    if kind in ("string", "enum"):
        return value if isinstance(value, str) and _encodable(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if kind == "int":
        return value if isinstance(value, int) else None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and abs(value) >= MAX_INTEGER:
        return value  # check_size refuses it; the float would overflow
    return float(value) + 0.0  # + 0.0 turns minus zero into zero: one value, one form


def check_size(value: Value, *, where: str, at: int | None = None) -> None:
    """Refuse values that are beyond the engine's limits.

    Raises:
        InputError: `too-large`.
    """
    if isinstance(value, str) and len(value) > MAX_STRING:
        raise InputError(
            "too-large", f"the text has over {MAX_STRING} characters", where=where, at=at
        )
    if isinstance(value, int) and abs(value) >= MAX_INTEGER:
        raise InputError("too-large", "the number has over 100 digits", where=where, at=at)


def check_name(name: str) -> None:
    """Check that expressions can name this attribute.

    Raises:
        InputError: `invalid` for anything but letters, digits, underscores and
            single dots between them, or for a word of the language.
    """
    if len(name) > 200 or not _NAME.fullmatch(name) or name in _RESERVED:
        raise InputError(
            "invalid",
            f"{shown(name)} cannot be an attribute's name; expected letters, digits and"
            " underscores, beginning with a letter",
            where=name[:200],
        )


def schema_from_json(obj: object) -> dict[str, AttributeType]:
    """Read a declaration of attributes, name to type.

    Raises:
        InputError: as `AttributeType.from_json`; `where` begins with the attribute.
    """
    if not isinstance(obj, Mapping):
        raise InputError("invalid", "attributes are an object, name to type", where="attributes")
    schema: dict[str, AttributeType] = {}
    for name, declared in obj.items():
        if not isinstance(name, str):
            raise InputError("invalid", "an attribute's name is text", where="attributes")
        try:
            schema[name] = AttributeType.from_json(declared)
        except InputError as error:
            raise InputError(
                error.kind,
                f"attribute {shown(name)}: {error.message}",
                where=f"{name}.{error.where}" if error.where else name,
                suggestion=error.suggestion,
            ) from error
    return schema


def check_values(values: Mapping[str, object], schema: Schema) -> dict[str, Value]:
    """Check values against a schema; attributes may be absent.

    Raises:
        InputError: `unknown` for an undeclared attribute, else as `AttributeType.check`.
    """
    for name in values:
        if name not in schema:
            raise unknown("attribute", name, schema)
    return {name: schema[name].check(value, name) for name, value in values.items()}


def _check_values(declared: AttributeType) -> None:
    values = declared.values
    if declared.kind != "enum":
        if values:
            raise InputError("invalid", "only an enum has `values`", where="values")
        return
    if not values or len(set(values)) != len(values):
        raise InputError("invalid", "an enum has at least one value and no doubles", where="values")


def _check_numbers(declared: AttributeType) -> None:
    limits = {"min": declared.minimum, "max": declared.maximum, "step": declared.step}
    given = {field: limit for field, limit in limits.items() if limit is not None}
    if declared.kind not in NUMERIC and given:
        raise InputError("invalid", "only numbers have limits", where=min(given))
    for field, limit in given.items():
        if coerce(declared.kind, limit) is None or abs(limit) >= MAX_INTEGER:
            raise InputError(
                "invalid", f"{shown(limit)} does not fit `{declared.kind}`", where=field
            )
    if declared.step is not None and declared.step <= 0:
        raise InputError("invalid", "a step is above 0", where="step")
    low, high = declared.minimum, declared.maximum
    if low is not None and high is not None and low > high:
        raise InputError("invalid", f"the minimum {low} is above the maximum {high}", where="min")


def _on_grid(value: float, start: float | None, step: float) -> bool:
    # The shortest decimal text is what the person declared: 0.3 is on a grid of 0.1
    origin = Fraction(repr(start)) if start is not None else Fraction(0)
    return (Fraction(repr(value)) - origin) % Fraction(repr(step)) == 0


def _number(value: object, field: str) -> int | float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError("invalid", f"{shown(value)} is no number", where=field)
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise InputError("invalid", "`values` is a list of texts", where="values")
    for item in value:
        if not isinstance(item, str) or not _encodable(item):
            raise InputError("invalid", f"{shown(item)} is no text", where="values")
    return tuple(value)


def _encodable(text: str) -> bool:
    # A value may be as long as a message: nothing here may cost Python a step a character.
    return text.isascii() or _SURROGATE.search(text) is None
