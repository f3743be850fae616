"""A content as a row of entries: the units in which it is compared, remembered and changed.

Every client, rule, subject, key wrap, type or tag key is one entry, a path and a JSON value;
members of an epoch follow the entry of the epoch. A content has exactly one row of entries,
and a row of entries makes exactly one content.

    entry's digest   = SHA-256(canonical JSON of {path: value})
    outline          = the digests of all entries, one after another
    content's digest = SHA-256("portcullis/content/v1" | outline)

So an outline is enough to tell what changed in a content; nothing can be read in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

from policyengine.bundles.content import AgentContent, ClientContent, ComparatorContent
from policyengine.bundles.contexts import CONTENT
from policyengine.errors import DecodeError
from policyengine.primitives.canonical import dumps

Content = AgentContent | ClientContent | ComparatorContent
Entry = tuple[str, Any]

DIGEST_SIZE: Final = 32
MAX_ENTRIES: Final = 2**21
"""Most entries of a content: an agent's clients twice over, with room for everything else."""


@dataclass(frozen=True)
class _Rows:
    """A member whose items are entries of their own.

    Args:
        inner: members of each item that are rows in their turn.
        named: whether it is an object rather than a list.
        always: whether it stands in the JSON when it is empty, too.
    """

    inner: Mapping[str, _Rows] = field(default_factory=dict)
    named: bool = False
    always: bool = True


_ROW: Final = _Rows()
_LATER: Final = _Rows(always=False)
_EPOCH: Final = _Rows({"predicates": _LATER, "rules": _ROW, "subjects": _ROW})
_SHAPES: Final[Mapping[type[Content], Mapping[str, _Rows]]] = {
    AgentContent: {
        "types": _ROW,
        "agents": _ROW,
        "clients": _ROW,
        "epochs": _EPOCH,
        "wraps": _ROW,
        "blind": _Rows({"shares": _Rows(named=True)}, always=False),
        "ordered": _LATER,
    },
    ClientContent: {
        "types": _ROW,
        "tag_keys": _ROW,
        "predicates": _ROW,
        "blind": _Rows({"read_policies": _Rows(named=True)}, always=False),
        "ordered": _LATER,
    },
    ComparatorContent: {"ordered": _ROW},
}


@dataclass(frozen=True)
class Entries:
    """A content taken apart.

    Args:
        listed: its entries in order.
        digests: their digests, 32 bytes each.
        size: bytes of all entries as canonical JSON.
    """

    listed: tuple[Entry, ...]
    digests: tuple[bytes, ...]
    size: int

    @cached_property
    def outline(self) -> bytes:
        """The digests one after another."""
        return b"".join(self.digests)

    @property
    def digest(self) -> str:
        """The content's digest, 64 hexadecimal digits."""
        return outline_digest(self.outline)


def take_apart(content: Content) -> Entries:
    """Take a content apart into its entries.

    Args:
        content: what an audience holds, with keys as the authority sealed them.
    """
    listed = tuple(_entries(content.to_json(), _SHAPES[type(content)]))
    written = [dumps({path: value}) for path, value in listed]
    digests = tuple(sha256(data).digest() for data in written)
    return Entries(listed, digests, sum(map(len, written)))


def put_together(form: type[Content], entries: Iterable[Entry]) -> Content:
    """Make the content that has these entries.

    Entries in another order than `take_apart` lists them may make the same content: who must
    know compares digests.

    Args:
        form: the content's class.
        entries: paths and values.

    Raises:
        DecodeError: they make none.
    """
    shape = _SHAPES[form]
    root: dict[str, Any] = _opened({}, shape)
    places: dict[str, tuple[dict[str, Any], Mapping[str, _Rows]]] = {"": (root, shape)}
    for path, value in entries:
        prefix, _, member = path.rpartition(".")
        if prefix not in places:
            raise DecodeError("an entry stands without what it belongs to")
        owner, rows = places[prefix]
        row = rows.get(member)
        if row is None:
            owner[member] = value
        elif row.inner:
            made = _opened(_object(value), row.inner)
            owner.setdefault(member, []).append(made)
            places[path] = (made, row.inner)
        elif row.named:
            name, held = _pair(value)
            owner.setdefault(member, {})[name] = held
        else:
            owner.setdefault(member, []).append(value)
    return form.from_json(root)


def outline_digest(outline: bytes) -> str:
    """Return the digest of the content that has an outline, 64 hexadecimal digits."""
    return sha256(CONTENT + b"|" + outline).hexdigest()


def _entries(members: Mapping[str, Any], shape: Mapping[str, _Rows]) -> Iterator[Entry]:
    for name in sorted(members.keys() - shape.keys()):
        yield name, members[name]
    yield from _walk(members, shape, "")


def _walk(members: Mapping[str, Any], shape: Mapping[str, _Rows], prefix: str) -> Iterator[Entry]:
    for name, row in shape.items():
        path = prefix + name
        held = members.get(name, ())
        for item in sorted(held.items()) if row.named and held else held:
            if row.inner:
                yield path, {key: item[key] for key in item if key not in row.inner}
                yield from _walk(item, row.inner, path + ".")
            else:
                yield path, list(item) if row.named else item


def _opened(members: Mapping[str, Any], shape: Mapping[str, _Rows]) -> dict[str, Any]:
    if members.keys() & shape.keys():
        raise DecodeError("an entry has members that are entries of their own")
    empty: dict[str, Any] = {
        name: {} if row.named else [] for name, row in shape.items() if row.always
    }
    return {**members, **empty}


def _object(value: object) -> dict[str, Any]:
    if type(value) is not dict:
        raise DecodeError("an entry is of another form")
    return value


def _pair(value: object) -> tuple[str, Any]:
    if type(value) is not list or len(value) != 2 or type(value[0]) is not str:
        raise DecodeError("an entry is of another form")
    return value[0], value[1]
