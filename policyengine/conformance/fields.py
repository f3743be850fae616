"""The fields of a request, taken out by type; whatever does not fit is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from policyengine.attributes import (
    Expression,
    Schema,
    Value,
    check_name,
    check_values,
    nearest,
    parse,
    schema_from_json,
    shown,
)
from policyengine.errors import InputError, ProblemKind
from policyengine.primitives import SYSTEM_RANDOM, RandomSource, SeededRandom, digest, dumps

_KINDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "`true` or `false`",
    type(None): "null",
}


class Fields:
    """One object of a request.

    Args:
        body: its members.
        required: members that must be there.
        optional: members that may be there; null counts as not there.
        where: path of the object, in front of the names in messages (`steps[0].`).

    Raises:
        InputError: `invalid` for a member that is missing or has no business here.
    """

    def __init__(
        self,
        body: Mapping[str, object],
        required: Sequence[str],
        optional: Sequence[str] = (),
        where: str = "",
    ) -> None:
        known = (*required, *optional)
        for name in body:
            if name not in known:
                close = nearest(name, known)
                meant = f"; perhaps `{where}{close}` was meant" if close else ""
                raise _problem("invalid", where + name, f"is no field here{meant}", close)
        for name in required:
            if name not in body:
                raise _problem("invalid", where + name, "is missing")
        self._body = body
        self._where = where

    def has(self, name: str) -> bool:
        """Tell whether a field is there and not null."""
        return self._body.get(name) is not None

    def raw(self, name: str) -> object:
        """Return a field of any type; null where it is not there."""
        return self._body.get(name)

    def members(self, *names: str) -> dict[str, object]:
        """Return some fields as they are; those that are not there are null."""
        return {name: self._body.get(name) for name in names}

    def mapping(self, name: str) -> dict[str, object]:
        """Return an object.

        Raises:
            InputError: `type`, as every method here for another type.
        """
        value = self._body.get(name)
        if not isinstance(value, dict):
            raise self._type(name, "an object")
        return value

    def items(self, name: str) -> list[object]:
        """Return a list."""
        value = self._body.get(name)
        if not isinstance(value, list):
            raise self._type(name, "a list")
        return value

    def text(self, name: str) -> str:
        """Return text."""
        value = self._body.get(name)
        if not isinstance(value, str):
            raise self._type(name, "text")
        return value

    def word(self, name: str, words: Sequence[str]) -> str:
        """Return one of a few words; another one is `unknown`."""
        value = self.text(name)
        if value not in words:
            listed = ", ".join(f"`{word}`" for word in words)
            raise _problem("unknown", self._where + name, f"is {shown(value)}; expected {listed}")
        return value

    def integer(self, name: str, low: int | None = None, high: int | None = None) -> int:
        """Return a whole number; one beyond the limits is `invalid`."""
        value = self._body.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._type(name, "a whole number")
        if (low is not None and value < low) or (high is not None and value > high):
            limits = f"from {low}" if high is None else f"from {low} to {high}"
            raise _problem("invalid", self._where + name, f"is {shown(value)}; expected {limits}")
        return value

    def number(self, name: str) -> float:
        """Return a number."""
        value = self._body.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._type(name, "a number")
        return value

    def _type(self, name: str, expected: str) -> InputError:
        found = _KINDS[type(self._body.get(name))]
        return _problem("type", self._where + name, f"is {found}; expected {expected}")


def schema_of(fields: Fields, name: str = "attributes") -> Schema:
    """Return the declared attributes of a request.

    Raises:
        InputError: `type`, `invalid` or `unknown`; also for a name that no expression can write.
    """
    declared = fields.mapping(name)
    for attribute in declared:
        check_name(attribute)
    return schema_from_json(declared)


def expression_of(fields: Fields, name: str, schema: Schema) -> Expression:
    """Return an expression, read and checked.

    Raises:
        InputError: as `parse`, with the position in the expression's text.
    """
    return parse(fields.text(name), schema)


def values_of(fields: Fields, name: str, schema: Schema) -> dict[str, Value]:
    """Return values, each of its declared domain.

    Raises:
        InputError: as `check_values`.
    """
    return check_values(fields.mapping(name), schema)


def check_seed(fields: Fields) -> None:
    """Refuse what is no seed, also where nothing is random.

    Raises:
        InputError: `type` for a seed that is neither text nor a whole number.
    """
    seed = fields.raw("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, str | int)):
        raise _problem("type", "seed", "is neither text nor a whole number")


def random_of(fields: Fields) -> RandomSource:
    """Return the system's randomness, or the stream of the request's `seed`."""
    if not fields.has("seed"):
        return SYSTEM_RANDOM
    return SeededRandom(digest(dumps(fields.raw("seed"))).encode())


def _problem(
    kind: ProblemKind, where: str, problem: str, suggestion: str | None = None
) -> InputError:
    return InputError(
        kind, f"the field {shown(where)} {problem}", where=where, suggestion=suggestion
    )
