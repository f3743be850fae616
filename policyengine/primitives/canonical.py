"""Canonical bytes: one JSON text for one value, and length-prefixed fields.

Canonical JSON here is UTF-8 with object members sorted by code point, no spaces,
no escapes but those that JSON demands, integers in full and floats as Python's
`repr` writes them (the shortest text that reads back the same; IEEE 754 binary64).
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Final

from policyengine.errors import DecodeError, InputError

MAX_BYTES: Final = 8 * 2**20
MAX_DEPTH: Final = 64

_LENGTH: Final = 4
_encoder: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)


def dumps(value: object, *, max_depth: int = MAX_DEPTH) -> bytes:
    """Write a value as canonical JSON.

    Args:
        value: None, bool, int, float, str, list, tuple, or dict with string keys.
        max_depth: how deep lists and objects may nest.

    Returns:
        UTF-8 bytes; equal values give equal bytes.

    Raises:
        InputError: `invalid` for a value that JSON cannot hold (other types, NaN,
            lone surrogates), `too-large` when it nests too deep.
    """
    _check(value, max_depth)
    try:
        return _encoder.encode(value).encode("utf-8")
    except ValueError as error:  # NaN, infinity, lone surrogates, integers beyond Python's limit
        raise InputError("invalid", "the value has no canonical form") from error


def loads(data: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> object:
    """Read canonical JSON and nothing else.

    The text is written again and compared, which refuses double keys, spaces,
    superfluous escapes, other spellings of numbers and unsorted members in one stroke.

    Args:
        data: the bytes, at most `max_bytes` of them (checked before parsing).
        max_bytes: cap on the input.
        max_depth: cap on nesting.

    Raises:
        DecodeError: whatever is wrong with the bytes.
    """
    if len(data) > max_bytes:
        raise DecodeError("the text is too large")
    try:
        value: object = json.loads(data.decode("utf-8"))
        canonical = dumps(value, max_depth=max_depth)
    except (ValueError, RecursionError, InputError) as error:
        raise DecodeError("not canonical JSON") from error
    if canonical != data:
        raise DecodeError("not canonical JSON")
    return value


def _check(value: object, depth: int) -> None:
    kind = type(value)
    if kind is str or kind is int or kind is bool or kind is float or value is None:
        return
    if depth <= 0:
        raise InputError("too-large", "the value nests too deep")
    if isinstance(value, dict):
        for key, item in value.items():
            if type(key) is not str:
                raise InputError("invalid", "a key that is not a string has no canonical form")
            _check(item, depth - 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check(item, depth - 1)
    else:
        raise InputError("invalid", f"a value of type `{kind.__name__}` has no canonical form")


def pack(*fields: bytes) -> bytes:
    """Join fields, each behind its length as 4 bytes big-endian.

    Different lists of fields never give the same bytes.
    """
    chunks: list[bytes] = []
    for field in fields:
        chunks.append(len(field).to_bytes(_LENGTH, "big"))
        chunks.append(field)
    return b"".join(chunks)


def unpack(data: bytes, count: int) -> tuple[bytes, ...]:
    """Split what `pack` joined into exactly `count` fields.

    Raises:
        DecodeError: too few fields, too many, or bytes left over.
    """
    fields = unpack_all(data, limit=count)
    if len(fields) != count:
        raise DecodeError("wrong number of fields")
    return fields


def unpack_all(data: bytes, *, limit: int) -> tuple[bytes, ...]:
    """Split what `pack` joined into all its fields, at most `limit`.

    Raises:
        DecodeError: too many fields, or a field that ends beyond the data.
    """
    fields: list[bytes] = []
    at, end = 0, len(data)
    while at < end:
        start = at + _LENGTH
        stop = start + int.from_bytes(data[at:start], "big")
        if start > end or stop > end or len(fields) == limit:
            raise DecodeError("the fields do not fit the data")
        fields.append(data[start:stop])
        at = stop
    return tuple(fields)


def b64(data: bytes) -> str:
    """Write bytes in the URL-safe base64 alphabet without padding (RFC 4648, section 5)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def unb64(text: str) -> bytes:
    """Read what `b64` wrote; each byte string has exactly one accepted text.

    Raises:
        DecodeError: another alphabet, padding, spaces or stray bits.
    """
    try:
        raw = text.encode("ascii")
        data = base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error) as error:
        raise DecodeError("not unpadded URL-safe base64") from error
    # b64decode forgives the standard alphabet, padding and stray low bits
    if b64(data) != text:
        raise DecodeError("not unpadded URL-safe base64")
    return data
