"""From attributes to ordered columns: what is compared, before anything is encrypted.

Every attribute becomes one ordered *column*, an open string two: the texts, and the texts
read from behind, so that a prefix and a suffix are each an interval. A value is a *point* of
its columns: a whole number (the rank that `NumberCode` gives it, or the place of a
word) or a text. A column also gives each point its *plain bytes*, which keep the
order, so that SBM-II's comparator and the plain scheme compare bytes and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias, cast

from policyengine.attributes import AttributeType, Schema, Value
from policyengine.attributes.codes import NumberCode
from policyengine.attributes.types import NUMERIC
from policyengine.errors import InputError
from policyengine.ope.functions import MAX_DOMAIN
from policyengine.primitives.kdf import MIN_KEY
from policyengine.primitives.prf import prf

Point: TypeAlias = int | str
Form: TypeAlias = Literal["table", "digits", "text"]

FORWARD: Final = "^"
BACKWARD: Final = "$"
AFTER: Final = b"\xff"
"""Stands behind the bytes of a prefix where all texts that begin with it have ended."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of an interval.

    Args:
        point: where it is.
        open: the point itself is outside.
        after: the end of the texts that begin with this one (upper ends only).
    """

    point: Point
    open: bool = False
    after: bool = False


@dataclass(frozen=True, slots=True)
class Interval:
    """Points between two bounds; None is no bound."""

    low: Bound | None = None
    high: Bound | None = None


class Column:
    """One ordered column.

    Args:
        name: the attribute, and for strings the direction.
        declared: the attribute's type.
        order_key: key of the order of words (bool and enum), or None for the declared one.
    """

    def __init__(self, name: str, declared: AttributeType, order_key: bytes | None) -> None:
        self.name = name
        self.declared = declared
        self._order_key = order_key

    @cached_property
    def form(self) -> Form:
        """How its points are encrypted: by a table, digit by digit, or letter by letter."""
        if self.declared.kind == "string":
            return "text"
        return "digits" if self.size is None else "table"

    @cached_property
    def size(self) -> int | None:
        """How many points there are, where that is few enough for a table."""
        if self.declared.kind == "string":
            return None
        if self.declared.kind not in NUMERIC:
            return len(self.words)
        code = self.code
        # only ranks that are places on a grid begin at 0 and have an end
        if code.low != 0 or code.high is None or code.high >= MAX_DOMAIN:
            return None
        return code.high + 1

    @cached_property
    def code(self) -> NumberCode:
        """The codes of a number's column."""
        return NumberCode(self.declared)

    @cached_property
    def words(self) -> tuple[Value, ...]:
        """The values of a bool or enum in the order of the column.

        Words have no order that a subscription could ask for. Under a key they stand in a
        random one, so that their ciphertexts show equality and not the declared order.
        """
        values: tuple[Value, ...] = self.declared.values or (False, True)
        key = self._order_key
        if key is None:
            return values
        return tuple(sorted(values, key=lambda value: prf(key, "order", self.name, str(value))))

    def point(self, value: Value) -> Point:
        """Return the point of a value of the domain."""
        if self.declared.kind == "string":
            text = cast(str, value)
            return text[::-1] if self.name.endswith(BACKWARD) else text
        if self.declared.kind in NUMERIC:
            rank = self.single(value)
            assert rank is not None
            return rank
        return self.words.index(value)

    def ranks(
        self, low: float | None, low_open: bool, high: float | None, high_open: bool
    ) -> tuple[int | None, int | None] | None:
        """Return the ranks of a range of numbers (as `NumberCode.interval`)."""
        return self.code.interval(low, low_open, high, high_open)

    def single(self, value: Value) -> int | None:
        """Return the point of a number or word, or None when it is not in the domain."""
        if self.declared.kind not in NUMERIC:
            return self.words.index(value) if value in self.words else None
        number = cast(float, value)
        ranks = self.ranks(number, False, number, False)
        return None if ranks is None else self._rank(ranks)

    def plain(self, point: Point) -> bytes:
        """Return bytes that keep the order of the points, different for different points."""
        if isinstance(point, str):
            return point.encode()
        if self.form == "table":
            return point.to_bytes(4, "big")
        return code_bytes(self.code.code(point))

    def _rank(self, ranks: tuple[int | None, int | None]) -> int:
        # `interval` writes the ends of the domain as "no bound"
        rank = self.code.low if ranks[0] is None else ranks[0]
        assert rank is not None
        return rank


class Layout:
    """The columns of an event type.

    Args:
        schema: its attributes.
        key: at least 16 bytes for the order of words; None keeps the declared order.

    Raises:
        InputError: `invalid` for a short key.
    """

    def __init__(self, schema: Schema, key: bytes | None = None) -> None:
        if key is not None and len(key) < MIN_KEY:
            raise InputError("invalid", "a key of an order has at least 16 bytes")
        self.schema = dict(schema)
        self.columns: dict[str, Column] = {}
        for name, declared in self.schema.items():
            for column in column_names(name, declared):
                self.columns[column] = Column(column, declared, key)

    def points(self, values: Mapping[str, Value]) -> dict[str, Point]:
        """Return an event's points, column by column.

        Args:
            values: checked values (`check_values`); attributes may be absent.
        """
        return {
            column: self.columns[column].point(value)
            for name, value in values.items()
            for column in column_names(name, self.schema[name])
        }


def column_names(name: str, declared: AttributeType) -> tuple[str, ...]:
    """Return the columns of an attribute."""
    if declared.kind == "string":
        return (name + FORWARD, name + BACKWARD)
    return (name,)


def code_bytes(code: str) -> bytes:
    """Pack a code of `0` and `1` into whole bytes.

    No code is a prefix of another one, so that filling up with zeros keeps codes apart.
    """
    padded = code + "0" * (-len(code) % 8)
    return int(padded, 2).to_bytes(len(padded) // 8, "big")
