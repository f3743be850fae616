"""Bytes of blind profiles: versioned, canonical, strictly read.

Version (1), kind (1), the fields of the kind, each behind its length (4, big-endian), and at
the end 16 bytes of BLAKE2b over all before them: they show damage, they do not say who wrote
(bundles and messages are signed and sealed). The first two fields are always the domain and
the blind epoch (8 bytes), so that nothing of two epochs can be taken for one another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from policyengine.errors import DecodeError, InputError
from policyengine.primitives.canonical import pack, unpack_all
from policyengine.primitives.records import IDENTIFIER

VERSION: Final = 1
MAX_EPOCH: Final = 2**63 - 1
MAX_FIELDS: Final = 65_536
_EPOCH: Final = 8
_SUM: Final = 16
_HEAD: Final = 2
_PERSON: Final = b"portcullis-blind"

MASTER, PUBLIC, CLIENT, SHARE, PART, ROUTED, DELIVERED, FILTER = range(1, 9)
_NAMES: Final = {
    MASTER: "master key",
    PUBLIC: "public key",
    CLIENT: "client's keys",
    SHARE: "agent's share",
    PART: "part",
    ROUTED: "part on its way",
    DELIVERED: "delivery",
    FILTER: "filter",
}


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where and when keys, events and filters hold.

    Args:
        domain: name of the domain, 1 to 64 of `a-z`, `0-9` and `-`.
        epoch: the blind epoch, from 0 to 2^63 - 1.

    Raises:
        InputError: `invalid` for another name or number.
    """

    domain: str
    epoch: int

    def __post_init__(self) -> None:
        IDENTIFIER.clean(self.domain, "domain")
        if type(self.epoch) is not int or not 0 <= self.epoch <= MAX_EPOCH:
            raise InputError("invalid", "a blind epoch is a number from 0", where="epoch")

    @property
    def fields(self) -> tuple[bytes, bytes]:
        """The place as the first two fields of everything."""
        return self.domain.encode(), self.epoch.to_bytes(_EPOCH, "big")


def write(kind: int, place: Place, fields: Iterable[bytes]) -> bytes:
    """Join header, fields and check value."""
    body = bytes((VERSION, kind)) + pack(*place.fields, *fields)
    return body + _check(body)


def read(data: bytes, kind: int) -> tuple[Place, tuple[bytes, ...]]:
    """Take the fields apart that `write` joined.

    Raises:
        DecodeError: another version or kind, damage, or fields that do not fit.
    """
    name = _NAMES[kind]
    body, check = data[:-_SUM], data[-_SUM:]
    if body[:_HEAD] != bytes((VERSION, kind)):
        raise DecodeError(f"not the bytes of a blind {name}")
    if _check(body) != check:
        raise DecodeError(f"the bytes of the blind {name} are damaged")
    fields = unpack_all(body[_HEAD:], limit=MAX_FIELDS)
    if len(fields) < 2 or len(fields[1]) != _EPOCH:
        raise DecodeError(f"the blind {name} names no epoch")
    try:
        place = Place(fields[0].decode("ascii"), int.from_bytes(fields[1], "big"))
    except (UnicodeDecodeError, InputError) as error:
        raise DecodeError(f"the blind {name} names no domain and epoch") from error
    return place, fields[2:]


def read_exactly(data: bytes, kind: int, count: int) -> tuple[Place, tuple[bytes, ...]]:
    """As `read`, for a kind with a fixed number of fields.

    Raises:
        DecodeError: as `read`, or another number of fields.
    """
    place, fields = read(data, kind)
    if len(fields) != count:
        raise DecodeError(f"the blind {_NAMES[kind]} has other fields")
    return place, fields


def _check(body: bytes) -> bytes:
    return blake2b(body, digest_size=_SUM, person=_PERSON).digest()
