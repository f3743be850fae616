"""Encrypted events and subscriptions, and their bytes: versioned, canonical, strictly read.

Header: version (1), kind (1: event, 2: subscription), scheme (1). Then, length-prefixed
(`pack`), a name and a body for each column, names ascending. A name is UTF-8 and readable,
as in the paper; what it holds is not.

- event: the body is the ciphertext
- subscription: one byte says whether it can never match (1, and nothing follows); a body is
  a list of intervals, ascending, each a byte of flags (1: has a lower end, 2: it is open,
  4: has an upper end, 8: it is open) and the ciphertexts of its ends, length-prefixed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from policyengine.attributes import check_name
from policyengine.errors import DecodeError, InputError
from policyengine.ope.layout import BACKWARD, FORWARD
from policyengine.primitives.canonical import pack, unpack_all

Scheme: TypeAlias = Literal["sbm1", "sbm2", "plain"]

SCHEMES: Final[Mapping[Scheme, int]] = {"sbm1": 1, "sbm2": 2, "plain": 3}
VERSION: Final = 1
MAX_COLUMNS: Final = 4096
MAX_INTERVALS: Final = 65_536
_EVENT: Final = 1
_SUBSCRIPTION: Final = 2
_HEADER: Final = 3
_HAS_LOW, _LOW_OPEN, _HAS_HIGH, _HIGH_OPEN = 1, 2, 4, 8


@dataclass(frozen=True, slots=True)
class Range:
    """An encrypted interval.

    Args:
        low: ciphertext of the lower end, or None.
        high: ciphertext of the upper end, or None.
        low_open: the lower end itself is outside; False without one.
        high_open: the upper end itself is outside; False without one.
    """

    low: bytes | None = None
    high: bytes | None = None
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True, slots=True)
class EncryptedEvent:
    """What a publisher sends to the broker for matching.

    Args:
        scheme: how it was encrypted.
        values: a ciphertext for each column, by name in ascending order.
    """

    scheme: Scheme
    values: tuple[tuple[str, bytes], ...]

    def to_bytes(self) -> bytes:
        """Return the canonical bytes."""
        fields = (part for name, value in self.values for part in (name.encode(), value))
        return _header(_EVENT, self.scheme) + pack(*fields)

    @classmethod
    def from_bytes(cls, data: bytes) -> EncryptedEvent:
        """Read the canonical bytes.

        Raises:
            DecodeError: anything else.
        """
        scheme = _scheme(data, _EVENT)
        return cls(scheme, tuple(_columns(data[_HEADER:])))


@dataclass(frozen=True, slots=True)
class EncryptedSubscription:
    """What a subscriber registers at the broker.

    Args:
        scheme: how it was encrypted.
        ranges: for each column that it looks at, by name in ascending order, intervals in
            ascending order; an event matches with a value inside one of them in each.
        never: it contradicts itself, has no ranges and never matches.
    """

    scheme: Scheme
    ranges: tuple[tuple[str, tuple[Range, ...]], ...]
    never: bool = False

    def to_bytes(self) -> bytes:
        """Return the canonical bytes."""
        fields: list[bytes] = []
        for name, ranges in self.ranges:
            fields += (name.encode(), b"".join(_range_bytes(one) for one in ranges))
        return _header(_SUBSCRIPTION, self.scheme) + bytes((self.never,)) + pack(*fields)

    @classmethod
    def from_bytes(cls, data: bytes) -> EncryptedSubscription:
        """Read the canonical bytes.

        Raises:
            DecodeError: anything else. Whether the ends of intervals stand in order can
                only be told where ciphertexts show it, which SBM-II's do not.
        """
        scheme = _scheme(data, _SUBSCRIPTION)
        flag, body = data[_HEADER : _HEADER + 1], data[_HEADER + 1 :]
        if flag not in (b"\x00", b"\x01") or (flag == b"\x01" and body):
            raise DecodeError("not an encrypted subscription")
        ranges = tuple((name, _ranges(value, scheme)) for name, value in _columns(body))
        return cls(scheme, ranges, flag == b"\x01")


def _header(kind: int, scheme: Scheme) -> bytes:
    return bytes((VERSION, kind, SCHEMES[scheme]))


def _scheme(data: bytes, kind: int) -> Scheme:
    for scheme in SCHEMES:
        if data[:_HEADER] == _header(kind, scheme):
            return scheme
    raise DecodeError("not of this version, kind and scheme")


def _columns(data: bytes) -> list[tuple[str, bytes]]:
    fields = unpack_all(data, limit=2 * MAX_COLUMNS)
    if len(fields) % 2:
        raise DecodeError("a column has a name and a body")
    names = [_name(field) for field in fields[::2]]
    if any(first >= second for first, second in pairwise(names)):
        raise DecodeError("the columns are not in ascending order")
    return list(zip(names, fields[1::2], strict=True))


def _name(field: bytes) -> str:
    try:
        name = field.decode()
        check_name(name[:-1] if name[-1:] in (FORWARD, BACKWARD) else name)
    except (UnicodeDecodeError, InputError) as error:
        raise DecodeError("a column has the name of an attribute") from error
    return name


def _range_bytes(one: Range) -> bytes:
    flags, ends = 0, []
    if one.low is not None:
        flags |= _HAS_LOW | (_LOW_OPEN if one.low_open else 0)
        ends.append(one.low)
    if one.high is not None:
        flags |= _HAS_HIGH | (_HIGH_OPEN if one.high_open else 0)
        ends.append(one.high)
    return bytes((flags,)) + pack(*ends)


def _ranges(data: bytes, scheme: Scheme) -> tuple[Range, ...]:
    found: list[Range] = []
    at = 0
    while at < len(data):
        flags, at = data[at], at + 1
        # an open end needs the end; nothing else may be set
        if flags & ~15 or flags & 3 == _LOW_OPEN or flags & 12 == _HIGH_OPEN:
            raise DecodeError("an interval has other flags")
        low, at = _end(data, at) if flags & _HAS_LOW else (None, at)
        high, at = _end(data, at) if flags & _HAS_HIGH else (None, at)
        found.append(Range(low, high, bool(flags & _LOW_OPEN), bool(flags & _HIGH_OPEN)))
    if not 1 <= len(found) <= MAX_INTERVALS:
        raise DecodeError("a column has one interval or more")
    _check_inside(found)
    if scheme != "sbm2":
        _check_order(found)
    return tuple(found)


def _end(data: bytes, at: int) -> tuple[bytes, int]:
    start = at + 4
    stop = start + int.from_bytes(data[at:start], "big")
    if stop > len(data) or start > len(data):
        raise DecodeError("an interval ends beyond the data")
    return data[start:stop], stop


def _check_inside(ranges: list[Range]) -> None:
    """Only the first interval may be without a lower end, and the last without an upper."""
    for first, second in pairwise(ranges):
        if first.high is None or second.low is None:
            raise DecodeError("the intervals overlap")


def _check_order(ranges: list[Range]) -> None:
    for one in ranges:
        if one.low is None or one.high is None:
            continue
        if one.low > one.high or (one.low == one.high and (one.low_open or one.high_open)):
            raise DecodeError("an interval is empty")
    for first, second in pairwise(ranges):
        assert first.high is not None
        assert second.low is not None
        touching = first.high == second.low and not (first.high_open and second.low_open)
        if first.high > second.low or touching:
            raise DecodeError("the intervals are not in ascending order")
