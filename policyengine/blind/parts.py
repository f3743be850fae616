"""The blind share of an event's part: from the publisher, between agents, to a subscriber.

Trapdoors travel attribute by attribute, so that an agent can leave out what a publisher may
not write or a subscriber may not read: what is left out counts as absent, and for that an
attribute has two sets of trapdoors, one that says it is absent and one of its value. This
tells an agent which attribute a trapdoor belongs to, and so which attributes a filter that
met it tests (ADR 0034); not values, and nothing about filters that were never met.

Fields behind domain and epoch, lists joined by `pack`:

- part: trapdoors of what every event has, [name, absent, present]..., g^r, [capsule]...,
  [name, number of the capsule (2), ciphertext]...; trapdoors are `sde.UserEvent`
- part on its way: the same; trapdoors are `sde.EncryptedEvent`
- delivery: g^r, (g^r)^z2, capsules and values as above
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic, Self, TypeVar

from policyengine import sde
from policyengine.blind.wire import DELIVERED, PART, ROUTED, Place, read_exactly, write
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.canonical import pack, unpack_all
from policyengine.primitives.records import LABEL

MAX_ATTRIBUTES: Final = 1024
_NUMBER: Final = 2
_Trapdoors = TypeVar("_Trapdoors")


@dataclass(frozen=True, slots=True)
class Searchable(Generic[_Trapdoors]):
    """The trapdoors of one attribute.

    Args:
        name: the attribute.
        absent: say that the event does not have it.
        present: say which value it has; None where it has none.
    """

    name: str
    absent: _Trapdoors
    present: _Trapdoors | None


@dataclass(frozen=True, slots=True)
class Sealed:
    """The encrypted value of one attribute.

    Args:
        name: the attribute.
        capsule: number of the capsule among the part's.
        data: the ciphertext (`sealing`).
    """

    name: str
    capsule: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Values:
    """Everything of a part that is encrypted for subscribers.

    Args:
        lock: g^r; empty where no value is sealed.
        capsules: for each policy one.
        sealed: by ascending name.
    """

    lock: bytes = b""
    capsules: tuple[bytes, ...] = ()
    sealed: tuple[Sealed, ...] = ()

    def only(self, names: Collection[str]) -> Values:
        """Leave out the values of other attributes, and capsules that nothing needs then."""
        kept = [one for one in self.sealed if one.name in names]
        if not kept:
            return Values()
        used = sorted({one.capsule for one in kept})
        number = {old: new for new, old in enumerate(used)}
        return Values(
            self.lock,
            tuple(self.capsules[old] for old in used),
            tuple(Sealed(one.name, number[one.capsule], one.data) for one in kept),
        )

    @property
    def fields(self) -> tuple[bytes, bytes, bytes]:
        """The three fields of it."""
        sealed = [(one.name.encode(), _number(one.capsule), one.data) for one in self.sealed]
        listed = [field for fields in sealed for field in fields]
        return self.lock, pack(*self.capsules), pack(*listed)

    @classmethod
    def of(cls, lock: bytes, capsules: bytes, sealed: bytes) -> Values:
        """Read the three fields.

        Raises:
            DecodeError: not their one form.
        """
        held = unpack_all(capsules, limit=MAX_ATTRIBUTES)
        fields = unpack_all(sealed, limit=3 * MAX_ATTRIBUTES)
        found = [
            Sealed(_name(name), _of_number(number), data) for name, number, data in _groups(fields)
        ]
        _check_names([one.name for one in found])
        if {one.capsule for one in found} != set(range(len(held))) or not all(held):
            raise DecodeError("the capsules are not those of the values")
        if bool(lock) != bool(found) or not all(one.data for one in found):
            raise DecodeError("a sealed value has a lock and a ciphertext")
        return cls(lock, held, tuple(found))


@dataclass(frozen=True, slots=True)
class BlindPart:
    """What a publisher's client sends to a home agent.

    Args:
        place: domain and blind epoch.
        always: trapdoors of what every event has; None where nothing is searchable.
        searchable: by ascending name, each attribute of the part that is searched for.
        values: what is encrypted for subscribers.
    """

    place: Place
    always: sde.UserEvent | None
    searchable: tuple[Searchable[sde.UserEvent], ...]
    values: Values

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that have a value here, searchable or sealed, sorted."""
        found = {one.name for one in self.searchable if one.present is not None}
        return tuple(sorted(found | {one.name for one in self.values.sealed}))

    def to_bytes(self) -> bytes:
        """Write the part."""
        search = _search_fields(self.always, self.searchable, sde.UserEvent.encode)
        return write(PART, self.place, (*search, *self.values.fields))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a part; each trapdoor is proven to be in the group.

        Raises:
            DecodeError: not the canonical bytes of one.
        """
        place, fields = read_exactly(data, PART, 5)
        always, searchable = _read_search(fields[0], fields[1], sde.UserEvent.decode)
        makers = {(event.system, event.user) for event in _events(always, searchable)}
        if len(makers) > 1:
            raise DecodeError("the part has trapdoors of several publishers")
        return cls(place, always, searchable, Values.of(*fields[2:]))


@dataclass(frozen=True, slots=True)
class RoutedBlind:
    """What agents of an overlay pass on: the same whoever published it.

    Args:
        place: domain and blind epoch.
        always: as of `BlindPart`, after the home agent's part.
        searchable: the same.
        values: as of `BlindPart`.
    """

    place: Place
    always: sde.EncryptedEvent | None
    searchable: tuple[Searchable[sde.EncryptedEvent], ...]
    values: Values

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that have a value here, searchable or sealed, sorted."""
        found = {one.name for one in self.searchable if one.present is not None}
        return tuple(sorted(found | {one.name for one in self.values.sealed}))

    def event(self, names: Collection[str]) -> sde.EncryptedEvent | None:
        """Return the trapdoors as somebody has them who may know only some attributes.

        Args:
            names: those attributes; all others count as absent.
        """
        if self.always is None:
            return None
        found = list(self.always.trapdoors)
        for one in self.searchable:
            seen = one.present if one.name in names else None
            found += (one.absent if seen is None else seen).trapdoors
        return sde.EncryptedEvent(self.always.system, tuple(dict.fromkeys(found)))

    def to_bytes(self) -> bytes:
        """Write the part."""
        search = _search_fields(self.always, self.searchable, sde.EncryptedEvent.encode)
        return write(ROUTED, self.place, (*search, *self.values.fields))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a part; each trapdoor is proven to be in the group.

        Raises:
            DecodeError: not the canonical bytes of one.
        """
        place, fields = read_exactly(data, ROUTED, 5)
        always, searchable = _read_search(fields[0], fields[1], sde.EncryptedEvent.decode)
        if len({event.system for event in _events(always, searchable)}) > 1:
            raise DecodeError("the part has trapdoors of several set-ups")
        return cls(place, always, searchable, Values.of(*fields[2:]))


@dataclass(frozen=True, slots=True)
class BlindDelivery:
    """What a home agent hands to a subscriber's client.

    Args:
        place: domain and blind epoch.
        half: (g^r)^z2, the agent's part of the lock.
        values: what the subscriber may read.
    """

    place: Place
    half: bytes
    values: Values

    def to_bytes(self) -> bytes:
        """Write the delivery."""
        return write(DELIVERED, self.place, (self.half, *self.values.fields))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a delivery.

        Raises:
            DecodeError: not the canonical bytes of one.
        """
        place, (half, *fields) = read_exactly(data, DELIVERED, 4)
        values = Values.of(*fields)
        if not values.sealed:
            raise DecodeError("a blind delivery has values")
        return cls(place, half, values)


def _search_fields(
    always: _Trapdoors | None,
    searchable: Sequence[Searchable[_Trapdoors]],
    encode: Callable[[_Trapdoors], bytes],
) -> tuple[bytes, bytes]:
    listed: list[bytes] = []
    for one in searchable:
        present = b"" if one.present is None else encode(one.present)
        listed += (one.name.encode(), encode(one.absent), present)
    return b"" if always is None else encode(always), pack(*listed)


def _read_search(
    first: bytes, rest: bytes, decode: Callable[[bytes], _Trapdoors]
) -> tuple[_Trapdoors | None, tuple[Searchable[_Trapdoors], ...]]:
    found = [
        Searchable(_name(name), decode(absent), decode(present) if present else None)
        for name, absent, present in _groups(unpack_all(rest, limit=3 * MAX_ATTRIBUTES))
    ]
    _check_names([one.name for one in found])
    if bool(first) != bool(found):
        raise DecodeError("searchable attributes come with what every event has")
    return decode(first) if first else None, tuple(found)


def _events(
    always: _Trapdoors | None, searchable: Sequence[Searchable[_Trapdoors]]
) -> list[_Trapdoors]:
    found = [] if always is None else [always]
    for one in searchable:
        found += [one.absent] if one.present is None else [one.absent, one.present]
    return found


def _groups(fields: Sequence[bytes]) -> list[tuple[bytes, bytes, bytes]]:
    if len(fields) % 3:
        raise DecodeError("a list of attributes is not whole")
    return [(fields[at], fields[at + 1], fields[at + 2]) for at in range(0, len(fields), 3)]


def _check_names(names: Sequence[str]) -> None:
    if any(first >= second for first, second in pairwise(names)):
        raise DecodeError("the attributes are not in ascending order")


def _name(data: bytes) -> str:
    try:
        return LABEL.clean(data.decode(), "attribute")
    except (UnicodeDecodeError, InputError) as error:
        raise DecodeError("an attribute has a name") from error


def _number(number: int) -> bytes:
    return number.to_bytes(_NUMBER, "big")


def _of_number(data: bytes) -> int:
    if len(data) != _NUMBER:
        raise DecodeError("a capsule has a number of two bytes")
    return int.from_bytes(data, "big")
