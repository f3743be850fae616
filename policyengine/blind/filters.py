"""Filters of which agents read a part and match the rest blindly.

Fields behind domain and epoch: for each alternative the clear expression as text and the
encrypted filter (`sde.UserFilter`), either of them empty where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from policyengine import sde
from policyengine.blind.apart import LIMIT
from policyengine.blind.wire import FILTER, Place, read, write
from policyengine.errors import DecodeError

MAX_TEXT: Final = 65_536


@dataclass(frozen=True, slots=True)
class BlindAlternative:
    """One way in which an event can meet a filter.

    Args:
        clear: what must hold of clear attributes, as text; empty where nothing.
        search: what must hold of searchable ones; None where nothing.
    """

    clear: str
    search: sde.UserFilter | None


@dataclass(frozen=True, slots=True)
class BlindFilter:
    """A filter as a subscriber sends it to a home agent.

    Args:
        place: domain and blind epoch.
        alternatives: any of them is enough; without any nothing meets it.
    """

    place: Place
    alternatives: tuple[BlindAlternative, ...]

    def to_bytes(self) -> bytes:
        """Write the filter."""
        fields: list[bytes] = []
        for one in self.alternatives:
            search = b"" if one.search is None else one.search.encode()
            fields += (one.clear.encode(), search)
        return write(FILTER, self.place, fields)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a filter; each element is proven to be in the group.

        Raises:
            DecodeError: not the canonical bytes of one.
        """
        place, fields = read(data, FILTER)
        if len(fields) % 2 or len(fields) > 2 * LIMIT:
            raise DecodeError("the filter has half an alternative, or too many")
        pairs = zip(fields[::2], fields[1::2], strict=True)
        return cls(place, tuple(_alternative(clear, search) for clear, search in pairs))


def _alternative(clear: bytes, search: bytes) -> BlindAlternative:
    if len(clear) > MAX_TEXT:
        raise DecodeError("the filter's clear part is too long")
    try:
        text = clear.decode()
    except UnicodeDecodeError as error:
        raise DecodeError("the filter's clear part is no text") from error
    return BlindAlternative(text, sde.UserFilter.decode(search) if search else None)
