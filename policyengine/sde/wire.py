"""Bytes of everything that travels: versioned, canonical, strictly read.

Header: version (1), kind (1), group (1), fingerprint of the system (16). Behind it the
fields of the kind, big-endian, text behind its length (1). At the end 16 bytes of SHA-256
of all before them: they show damage, they do not say who wrote (envelopes are signed).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, TypeAlias

from policyengine.errors import DecodeError, InputError
from policyengine.primitives.reader import ByteReader
from policyengine.sde.group import Group, GroupName
from policyengine.sde.groups import group_of, name_of, number_of

VERSION: Final = 1
FINGERPRINT: Final = 16
MAX_USER: Final = 255
"""Longest name of a user, in UTF-8 bytes."""
_HEADER: Final = 3 + FINGERPRINT
_CHECK: Final = 16
_CHECK_LABEL: Final = b"portcullis sde bytes v1"

Kind: TypeAlias = Literal[
    "master", "user", "share", "event", "filter", "trapdoors", "stored filter"
]
_KINDS: Final[dict[Kind, int]] = {
    "master": 1,
    "user": 2,
    "share": 3,
    "event": 4,
    "trapdoors": 5,
    "filter": 6,
    "stored filter": 7,
}


@dataclass(frozen=True, slots=True)
class System:
    """Which set-up something belongs to; nothing of one works with another's.

    Args:
        group: the group's name.
        fingerprint: 16 bytes of the digest of the group's name and h.
    """

    group: GroupName
    fingerprint: bytes

    @property
    def arithmetic(self) -> Group:
        """The group itself."""
        return group_of(self.group)


class Reader(ByteReader):
    """Takes one field after the other.

    Args:
        data: the bytes, of any origin.
        kind: what they must be.

    Raises:
        DecodeError: another version, kind or group, damaged, or a field that is not there.
    """

    def __init__(self, data: bytes, kind: Kind) -> None:
        if len(data) < _HEADER + _CHECK or data[:2] != bytes([VERSION, _KINDS[kind]]):
            raise DecodeError(f"not the bytes of a searchable {kind}")
        body, check = data[:-_CHECK], data[-_CHECK:]
        if _check(body) != check:
            raise DecodeError("the bytes are damaged")
        self.system = System(name_of(body[2]), body[3:_HEADER])
        super().__init__(body, _HEADER)

    def scalar(self) -> int:
        """Return a scalar from 1 to the order less one."""
        group = self.system.arithmetic
        scalar = self.number(group.scalar_bytes)
        if not 0 < scalar < group.order:
            raise DecodeError("a scalar is out of range")
        return scalar

    def element(self) -> bytes:
        """Return the bytes of an element of the group, proven to be one."""
        group = self.system.arithmetic
        data = self.take(group.element_bytes)
        group.decode(data)
        return data

    def user(self) -> str:
        """Return the name of a user."""
        try:
            user = self.take(self.number(1)).decode()
        except UnicodeDecodeError as error:
            raise DecodeError("a user's name is not UTF-8") from error
        if not user:
            raise DecodeError("a user has no name")
        return user


def write(kind: Kind, system: System, *fields: bytes) -> bytes:
    """Join header, fields and check value."""
    head = bytes([VERSION, _KINDS[kind], number_of(system.group)]) + system.fingerprint
    body = b"".join((head, *fields))
    return body + _check(body)


def user_field(user: str) -> bytes:
    """Return a checked name as a field."""
    data = user.encode()
    return bytes([len(data)]) + data


def check_user(user: str) -> None:
    """Refuse names that bytes cannot hold.

    Raises:
        InputError: `invalid` for an empty name, over 255 bytes of it, or no text.
    """
    try:
        size = len(user.encode())
    except UnicodeEncodeError as error:
        raise InputError("invalid", "a user's name is text", where="user") from error
    if not 0 < size <= MAX_USER:
        raise InputError(
            "invalid", f"a user's name has 1 to {MAX_USER} bytes in UTF-8", where="user"
        )


def _check(body: bytes) -> bytes:
    return sha256(_CHECK_LABEL + body).digest()[:_CHECK]
