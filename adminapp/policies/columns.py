"""Values of many principals as columns: a test is made once a value, not once a principal.

A set of rows is a *mask*: bits packed eight to a byte, the first row in the highest bit, as
`bitarray` has them too. A hundred thousand rows are 12.5 KB, and two masks are combined in about
a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policyengine.attributes import AttributeType, Literal, Value
from policyengine.errors import InputError

Mask: TypeAlias = NDArray[np.uint8]
Positions: TypeAlias = NDArray[np.int64]

_ABSENT = -1


def none(rows: int) -> Mask:
    """The empty set."""
    return np.zeros((rows + 7) // 8, dtype=np.uint8)


def everybody(rows: int) -> Mask:
    """The set of all rows; bits beyond the last row are never set."""
    return np.packbits(np.ones(rows, dtype=np.bool_))


def mask_of(positions: Positions | Sequence[int], rows: int) -> Mask:
    """The set of some rows."""
    flags = np.zeros(rows, dtype=np.bool_)
    flags[positions] = True
    return np.packbits(flags)


def positions_of(mask: Mask, rows: int) -> Positions:
    """The rows of a set, in order."""
    return np.flatnonzero(np.unpackbits(mask, count=rows))


def size_of(mask: Mask) -> int:
    """How many rows a set has."""
    return int(np.bitwise_count(mask).sum())


class Column:
    """One attribute of all rows: each distinct value once, and a code for each row.

    Args:
        rows: how many rows there are.
    """

    def __init__(self, rows: int) -> None:
        self.codes: NDArray[np.int32] = np.full(rows, _ABSENT, dtype=np.int32)
        self.values: list[Value] = []
        self._index: dict[tuple[type, Value], int] = {}

    def code(self, value: Value) -> int:
        """The code of a value; true and 1 are two values."""
        key = (value.__class__, value)
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self.values)
            self.values.append(value)
        return found

    def known(self, value: Value) -> int:
        """The code of a value that some row has, else -2."""
        return self._index.get((value.__class__, value), -2)

    def value(self, row: int) -> Value | None:
        """What a row has; None when it lacks the attribute."""
        code = int(self.codes[row])
        return None if code == _ABSENT else self.values[code]

    def rows(self, literal: Literal) -> NDArray[np.bool_]:
        """For each row whether a literal on this attribute holds there."""
        if literal.op == "!has":
            return self.codes == _ABSENT
        # One more answer than values: the code of an absent value, -1, is the last one.
        answers = [_holds(literal, value) for value in self.values]
        return np.array([*answers, False], dtype=np.bool_)[self.codes]

    def fitting(self, declared: AttributeType, name: str) -> Column:
        """The same values as another type has them; those that it does not admit are left out."""
        found = Column(len(self.codes))
        translated = [_checked(value, declared, name) for value in self.values]
        codes = [_ABSENT if value is None else found.code(value) for value in translated]
        found.codes = np.array([*codes, _ABSENT], dtype=np.int32)[self.codes]
        return found

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self.codes.nbytes + 120 * len(self.values)


class Columns:
    """What policies see of all rows.

    Args:
        principals: for each principal its attributes.
        prefix: begins the full names of these attributes.
        owners: for each row the position of its principal.
    """

    def __init__(
        self, principals: Sequence[Mapping[str, Any]], prefix: str, owners: Positions
    ) -> None:
        self.count = len(owners)
        self._columns: dict[str, Column] = {}
        self._flags: dict[str, Mask] = {}
        gathered: dict[str, tuple[Column, list[int], list[int]]] = {}
        for position, values in enumerate(principals):
            for name, value in values.items():
                place = gathered.get(name)
                if place is None:
                    place = gathered[name] = (Column(len(principals)), [], [])
                place[1].append(position)
                place[2].append(place[0].code(value))
        for name, (column, positions, codes) in gathered.items():
            column.codes[positions] = codes
            column.codes = column.codes[owners]
            self._columns[f"{prefix}{name}"] = column

    def mask(self, literal: Literal) -> Mask:
        """The rows for which a literal holds."""
        flags = self._flags.get(literal.attribute)
        if flags is not None:
            return _flagged(literal, flags, self.count)
        column = self._columns.get(literal.attribute)
        if column is None:
            return everybody(self.count) if literal.op == "!has" else none(self.count)
        return np.packbits(column.rows(literal))

    def given(self, name: str) -> Mask:
        """The rows that have an attribute."""
        return self.mask(Literal(name, "has"))

    def equal(self, first: str, second: str) -> Mask:
        """The rows that have both of two attributes, with the same value."""
        one, other = self._columns.get(first), self._columns.get(second)
        if one is None or other is None:
            return none(self.count)
        # No code is -2, and the last entry is what -1, an absent value, stands for.
        seen = np.array([*(one.known(value) for value in other.values), -2])
        return np.packbits(seen[other.codes] == one.codes)

    def value(self, name: str, row: int) -> Value | None:
        """One value of one row; None when it is absent."""
        column = self._columns.get(name)
        return None if column is None else column.value(row)

    def flag(self, name: str, rows: Mask) -> None:
        """Put an attribute beside the others that is true where it is there."""
        self._flags[name] = rows

    def join(self, name: str, rows: Mask) -> None:
        """Make an attribute true where it is so already, and in further rows."""
        known = self._flags.get(name)
        self._flags[name] = rows if known is None else known | rows

    def put(self, name: str, column: Column) -> None:
        """Put another attribute beside the others."""
        self._columns[name] = column

    def column(self, name: str) -> Column:
        """The values of one attribute; of none where nobody has it."""
        return self._columns.get(name) or Column(self.count)

    def add(self, name: str, values: Iterable[tuple[int, Value]]) -> None:
        """Put another attribute beside the others, given by row."""
        column = self._columns.setdefault(name, Column(self.count))
        for row, value in values:
            column.codes[row] = column.code(value)

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        flags = sum(rows.nbytes for rows in self._flags.values())
        return flags + sum(column.nbytes for column in self._columns.values())


def constant(value: Value, rows: int) -> Column:
    """An attribute that is the same everywhere."""
    found = Column(rows)
    found.codes[:] = found.code(value)
    return found


def _checked(value: Value, declared: AttributeType, name: str) -> Value | None:
    try:
        return declared.check(value, name)
    except InputError:
        return None


def _flagged(literal: Literal, flags: Mask, rows: int) -> Mask:
    if literal.op == "!has":
        return everybody(rows) & ~flags
    return flags if _holds(literal, True) else none(rows)


def differ(
    first: Column, rows: Positions, second: Column, other_rows: Positions
) -> NDArray[np.bool_]:
    """For each pair of rows whether an attribute has another value; row -1 has none."""
    codes = np.append(first.codes, _ABSENT)[rows]
    others = np.append(second.codes, _ABSENT)[other_rows]
    same = np.array([*(first.known(value) for value in second.values), _ABSENT])
    return same[others] != codes


def _holds(literal: Literal, value: Value) -> bool:
    try:
        return literal.holds({literal.attribute: value})
    except (TypeError, AttributeError):
        return False  # a value of another kind than declared meets nothing
