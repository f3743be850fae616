"""Frozen records with strict JSON: what a field may hold is said once, at the field.

A record is a frozen dataclass whose fields carry a codec:

    @dataclass(frozen=True)
    class AgentRef(Record):
        name: Annotated[str, IDENTIFIER]
        sealing_key: Annotated[bytes, KEY]

Making a record checks every field (`InputError`); reading one from JSON checks in
addition that the form is exact: no unknown and no missing member, no other type
(`DecodeError`). So a wrong value can neither be sent nor accepted.

A field with a default came later than the others: it is left out of the JSON where it holds
the default (and refused where it is written all the same, so that there is one form), so that
what an older release wrote is read, and what needs nothing new is read by an older release.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from types import MappingProxyType
from typing import Annotated, Any, Final, Self, get_args, get_origin, get_type_hints

from policyengine.errors import DecodeError, InputError
from policyengine.primitives.canonical import b64, unb64

MAX_UINT: Final = 2**63 - 1
WRITTEN: Final[Mapping[str, bool]] = MappingProxyType({"written": True})
"""Metadata of a field that has a default for callers and stands in the JSON all the same."""


class Codec(ABC):
    """What a field may hold, and its form in JSON."""

    @abstractmethod
    def clean(self, value: Any, where: str) -> Any:
        """Return the value in its one Python form, or raise InputError."""

    def dump(self, value: Any) -> object:
        """Return the JSON form of a clean value."""
        return value

    def load(self, value: object, where: str) -> Any:
        """Return the Python form of a JSON value, not cleaned yet, or raise DecodeError."""
        return value


def invalid(where: str, message: str) -> InputError:
    """Build the error for a field that holds something else than it may."""
    return InputError("invalid", f"{where} {message}", where=where)


@dataclass(frozen=True)
class Text(Codec):
    """A string.

    Args:
        pattern: regular expression that the whole string must match, or None.
        limit: most characters.
        what: the rule in words, for the error.
    """

    pattern: str | None = None
    limit: int = 2**23
    what: str = "must be text"
    _compiled: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        compiled = None if self.pattern is None else re.compile(self.pattern)
        object.__setattr__(self, "_compiled", compiled)

    def clean(self, value: Any, where: str) -> str:
        """Accept strings; a subclass (an enumeration's member) becomes a plain string."""
        if not isinstance(value, str):
            raise invalid(where, self.what)
        text = value if type(value) is str else str.__str__(value)
        if len(text) > self.limit:
            raise invalid(where, self.what)
        if self._compiled is not None and self._compiled.fullmatch(text) is None:
            raise invalid(where, self.what)
        return text


@dataclass(frozen=True)
class Choice(Codec):
    """One of a few words."""

    words: tuple[str, ...]

    def clean(self, value: Any, where: str) -> str:
        """Accept the words only."""
        if not isinstance(value, str) or value not in self.words:
            raise invalid(where, "must be one of " + ", ".join(f"`{word}`" for word in self.words))
        return str.__str__(value)


@dataclass(frozen=True)
class Integer(Codec):
    """A whole number from `low` to `high`, both included; booleans are none."""

    low: int = 0
    high: int = MAX_UINT

    def clean(self, value: Any, where: str) -> int:
        """Accept exact integers in range."""
        if type(value) is not int or not self.low <= value <= self.high:
            raise invalid(where, f"must be a whole number from {self.low} to {self.high}")
        return value


class Number(Codec):
    """A finite float."""

    def clean(self, value: Any, where: str) -> float:
        """Accept floats, and integers by converting them."""
        if type(value) is int and abs(value) <= MAX_UINT:
            return float(value)
        if type(value) is not float or not math.isfinite(value):
            raise invalid(where, "must be a finite number")
        return value

    def load(self, value: object, where: str) -> Any:
        """Accept floats only: a whole number has a float's form in JSON too (`5.0`)."""
        if type(value) is not float:
            raise DecodeError(f"{where} must be a float")
        return value


class Boolean(Codec):
    """True or false."""

    def clean(self, value: Any, where: str) -> bool:
        """Accept exact booleans."""
        if type(value) is not bool:
            raise invalid(where, "must be true or false")
        return value


@dataclass(frozen=True)
class Binary(Codec):
    """Bytes, in JSON unpadded URL-safe base64.

    Args:
        low: fewest bytes.
        high: most bytes.
    """

    low: int = 0
    high: int = 2**23

    def clean(self, value: Any, where: str) -> bytes:
        """Accept bytes, and other buffers (a database's) by copying them."""
        if not isinstance(value, bytes | bytearray | memoryview):
            raise invalid(where, "must be bytes")
        data = bytes(value)
        if not self.low <= len(data) <= self.high:
            raise invalid(where, f"must have {self.low} to {self.high} bytes")
        return data

    def dump(self, value: Any) -> object:
        """Write base64."""
        return b64(value)

    def load(self, value: object, where: str) -> Any:
        """Read base64."""
        if type(value) is not str:
            raise DecodeError(f"{where} must be base64 text")
        return unb64(value)


@dataclass(frozen=True)
class Optional(Codec):
    """None or what another codec accepts."""

    inner: Codec

    def clean(self, value: Any, where: str) -> Any:
        """Pass None, clean the rest."""
        return None if value is None else self.inner.clean(value, where)

    def dump(self, value: Any) -> object:
        """Write null or the value."""
        return None if value is None else self.inner.dump(value)

    def load(self, value: object, where: str) -> Any:
        """Read null or the value."""
        return None if value is None else self.inner.load(value, where)


@dataclass(frozen=True)
class ListOf(Codec):
    """A tuple of equal things; a list becomes a tuple.

    Args:
        inner: what each may be.
        limit: most items.
        unique: refuse equal items.
    """

    inner: Codec
    limit: int = 2**20
    unique: bool = False

    def clean(self, value: Any, where: str) -> tuple[Any, ...]:
        """Accept lists and tuples."""
        if not isinstance(value, list | tuple) or len(value) > self.limit:
            raise invalid(where, f"must be a list of at most {self.limit} items")
        clean = self.inner.clean
        items = tuple([clean(item, where) for item in value])
        if self.unique and len(set(items)) != len(items):
            raise invalid(where, "must not repeat an item")
        return items

    def dump(self, value: Any) -> object:
        """Write a list."""
        dump = self.inner.dump
        return [dump(item) for item in value]

    def load(self, value: object, where: str) -> Any:
        """Read a list."""
        if type(value) is not list:
            raise DecodeError(f"{where} must be a list")
        load = self.inner.load
        return [load(item, where) for item in value]


@dataclass(frozen=True)
class MapOf(Codec):
    """A dictionary with string keys.

    Args:
        key: what each key may be.
        inner: what each value may be.
        limit: most members.
    """

    key: Codec
    inner: Codec
    limit: int = 2**16

    def clean(self, value: Any, where: str) -> dict[str, Any]:
        """Accept mappings; the result is a copy."""
        if not isinstance(value, Mapping) or len(value) > self.limit:
            raise invalid(where, f"must be an object of at most {self.limit} members")
        key, inner = self.key.clean, self.inner.clean
        return {key(name, where): inner(item, where) for name, item in value.items()}

    def dump(self, value: Any) -> object:
        """Write an object."""
        dump = self.inner.dump
        return {name: dump(item) for name, item in value.items()}

    def load(self, value: object, where: str) -> Any:
        """Read an object."""
        if type(value) is not dict:
            raise DecodeError(f"{where} must be an object")
        load = self.inner.load
        return {name: load(item, where) for name, item in value.items()}


class Scalar(Codec):
    """A value of an event: text, a 64-bit integer, a finite float or a boolean."""

    def clean(self, value: Any, where: str) -> str | int | float | bool:
        """Accept exact types only."""
        kind = type(value)
        if kind is str or kind is bool:
            return value  # type: ignore[no-any-return]
        if kind is int and -MAX_UINT - 1 <= value <= MAX_UINT:
            return value  # type: ignore[no-any-return]
        if kind is float and math.isfinite(value):
            return value  # type: ignore[no-any-return]
        raise invalid(where, "must hold text, 64-bit integers, finite numbers or booleans")


class Document(Codec):
    """A JSON object whose inside another package reads (strictly, in its turn)."""

    def clean(self, value: Any, where: str) -> dict[str, Any]:
        """Accept mappings; tuples inside become lists, so that a round trip is exact."""
        if not isinstance(value, Mapping):
            raise invalid(where, "must be an object")
        plain: dict[str, Any] = _plain(value, where, depth=32)
        return plain


def _plain(value: Any, where: str, *, depth: int) -> Any:
    if value is None or type(value) in {str, int, bool, float}:
        return value
    if depth and isinstance(value, Mapping):
        if not all(type(key) is str for key in value):
            raise invalid(where, "must have text for keys")
        return {key: _plain(item, where, depth=depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_plain(item, where, depth=depth - 1) for item in value]
    raise invalid(where, "must be plain JSON, not nested too deep")


@dataclass(frozen=True)
class Nested(Codec):
    """Another record."""

    record: type[Record]

    def clean(self, value: Any, where: str) -> Record:
        """Accept the record's class; it checked itself when it was made."""
        if type(value) is not self.record:
            raise invalid(where, f"must be of type {self.record.__name__}")
        return value

    def dump(self, value: Any) -> object:
        """Write the record."""
        return value.to_json()

    def load(self, value: object, where: str) -> Any:
        """Read the record."""
        return self.record.from_json(value)


class Record:
    """Base of frozen dataclasses whose fields carry codecs."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name, codec, _ in _codecs(type(self)):
            value = getattr(self, name)
            clean = codec.clean(value, name)
            if clean is not value:
                object.__setattr__(self, name, clean)
        self._agree()

    def _agree(self) -> None:
        """Check what concerns several fields; raise InputError."""

    def to_json(self) -> dict[str, object]:
        """Return the record as plain JSON values."""
        codecs = _codecs(type(self))
        held = [(name, codec, getattr(self, name), later) for name, codec, later in codecs]
        return {name: codec.dump(value) for name, codec, value, later in held if value != later}

    @classmethod
    def from_json(cls, obj: object) -> Self:
        """Read a record.

        Raises:
            DecodeError: a member is missing, unknown, of another type or out of range.
        """
        codecs = _codecs(cls)
        if type(obj) is not dict:
            raise DecodeError(f"{cls.__name__} has other members")
        read = [(n, codec) for n, codec, later in codecs if later is MISSING or n in obj]
        if len(obj) != len(read):
            raise DecodeError(f"{cls.__name__} has other members")
        try:
            made = cls(**{name: codec.load(obj[name], name) for name, codec in read})
        except KeyError as error:
            raise DecodeError(f"{cls.__name__} has other members") from error
        except InputError as error:
            raise DecodeError(f"{cls.__name__}: {error.message}") from error
        if any(n in obj and getattr(made, n) == later for n, _, later in codecs):
            raise DecodeError(f"{cls.__name__} has other members")
        return made


_Codecs = tuple[tuple[str, Codec, Any], ...]
"""Of each field its name, its codec, and its default (MISSING where there is none)."""

_known: dict[type[Record], _Codecs] = {}


def _codecs(record: type[Record]) -> _Codecs:
    found = _known.get(record)
    if found is None:
        hints = get_type_hints(record, include_extras=True)
        members: Any = record  # every subclass is a dataclass, which the type cannot say
        found = tuple(
            (item.name, _codec(hints[item.name]), _later(item)) for item in fields(members)
        )
        _known[record] = found
    return found


def _later(item: Field[Any]) -> Any:
    return MISSING if item.metadata.get("written") else item.default


def _codec(hint: Any) -> Codec:
    if get_origin(hint) is Annotated:
        codec = get_args(hint)[1]
        if isinstance(codec, Codec):
            return codec
    raise TypeError("a record's field carries a codec")


IDENTIFIER: Final = Text("[a-z0-9-]{1,64}", 64, "must be 1 to 64 of `a-z`, `0-9` and `-`")
LABEL: Final = Text(r"[^\x00-\x1f\x7f]{1,128}", 128, "must be 1 to 128 printable characters")
SENTENCE: Final = Text(r"[^\x00-\x1f\x7f]{0,1000}", 1000, "must be one line of text")
DIGEST: Final = Text("[0-9a-f]{64}", 64, "must be 64 hexadecimal digits")
DIGEST_OR_EMPTY: Final = Text("([0-9a-f]{64})?", 64, "must be empty or 64 hexadecimal digits")
HEX_ID: Final = Text("[0-9a-f]{32}", 32, "must be 32 hexadecimal digits")
UINT: Final = Integer()
KEY: Final = Binary(32, 32)
