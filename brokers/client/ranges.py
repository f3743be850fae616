"""Order-preserving attributes at a client: it alone has their keys (paper 003)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from brokers.client.errors import NotReady
from policyengine.attributes import Expression, Value
from policyengine.bundles import OrderKey
from policyengine.errors import DecodeError, InputError
from policyengine.events import EventTypes
from policyengine.ope import RangeCipher, RangeKey, Slot
from policyengine.trustgroups import may_open, may_seal


def range_cipher(domain: str, types: EventTypes, ordered: Iterable[OrderKey]) -> RangeCipher:
    """Read the keys that a bundle brings.

    Raises:
        DecodeError: one is none, or stands in the place of another one.
    """
    return RangeCipher(types, _keys(domain, ordered))


def _keys(domain: str, ordered: Iterable[OrderKey]) -> Iterator[tuple[RangeKey, bool]]:
    for one in ordered:
        key = RangeKey.from_bytes(one.key)
        if key.slot != Slot(domain, one.type, one.attribute, one.epoch):
            raise DecodeError("a key stands in the place of another one")
        # One that is staged is asked for before events come in it, so that none is missed.
        if may_open(one.state):
            yield key, may_seal(one.state)


def compared_values(ranges: RangeCipher, event_type: str, values: Mapping[str, Value]) -> bytes:
    """Encrypt what agents compare of a part's values; empty where there is nothing.

    Args:
        ranges: from `range_cipher`.
        event_type: a type that exists.
        values: checked; others than order-preserving ones are left alone.

    Raises:
        NotReady: `not-ready`, where there is no key yet.
    """
    try:
        return ranges.encrypt_values(event_type, values).to_bytes()
    except InputError as error:
        raise _not_ready(error) from error


def compared_filter(ranges: RangeCipher, event_type: str, expression: Expression | None) -> bytes:
    """Encrypt what a filter asks of what agents compare; empty where it asks nothing.

    Raises:
        NotReady: `not-ready`, where there is no key yet.
        InputError: `unsupported`, for what nobody can compare.
    """
    if expression is None:
        return b""
    try:
        return ranges.encrypt_filter(event_type, expression).to_bytes()
    except InputError as error:
        raise _not_ready(error) from error


def _not_ready(error: InputError) -> Exception:
    return NotReady("not-ready", error.message) if error.kind == "unknown" else error
