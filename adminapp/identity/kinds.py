"""The kinds of objects that a domain is described by, each with its one canonical document.

A document is plain JSON with natural keys: names, never numbers of rows. The audit's before and
after, the items of a change set, the files and the export all are these documents, so whatever one
of them shows another can make again. An area registers its kinds when it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from adminapp.core.errors import Invalid, Problem
from adminapp.identity.models import Domain
from policyengine.attributes import unknown

Document: TypeAlias = dict[str, Any]


def _by_name(document: Mapping[str, Any]) -> str:
    return str(document.get("name", ""))


def _nothing(_document: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


def _reading_order(name: str) -> int:
    """Name and title come first, the rest as it is declared."""
    return {"name": 0, "title": 1}.get(name, 2)


def _part_order(name: str, defaults: Mapping[str, Any]) -> tuple[int, str]:
    if name in defaults:
        return (3 + list(defaults).index(name), "")
    return ({"name": 0, "type": 1}.get(name, 2), name)


@dataclass(frozen=True)
class Kind:
    """A kind of object.

    Args:
        name: as in the audit's actions (`policy` of `policy.created`).
        rank: objects are created in order of rank and deleted in reverse.
        documents: every own object of a domain as key and document, in a constant number of
            queries.
        find: the row of a key, or None.
        create: makes an object from a whole document, through the area's service.
        update: changes a row to a whole document.
        delete: removes a row.
        document: the document of one row.
        required: fields that a document must have.
        defaults: fields that it may lack, and what they are then.
        key: the natural key, from a document.
        after: keys of the same kind that must be there first.
        normal: brings a document into canonical form (sorted lists, types spelt out).
        count: how many objects of this kind a domain has, for its quota; without it the documents
            are counted.
        inherits: whether sub-domains inherit it.
        person: whether it tells of a person.
        kept: fields that stay as they are when a file does not speak of them.
        parts: fields that are lists of objects, with the defaults of these objects' fields.
        exported: whether files speak of it.
        platform: whether it belongs to no domain.
    """

    name: str
    rank: int
    documents: Callable[[Domain], Mapping[str, Document]]
    find: Callable[[Domain, str], Any]
    create: Callable[..., Any]
    update: Callable[..., Any]
    delete: Callable[..., Any]
    document: Callable[[Any], Document]
    required: tuple[str, ...] = ("name",)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    key: Callable[[Mapping[str, Any]], str] = _by_name
    after: Callable[[Mapping[str, Any]], Iterable[str]] = _nothing
    normal: Callable[[Domain | None, Document], Document] = lambda _domain, document: document
    count: Callable[[Domain], int] | None = None
    inherits: bool = False
    person: bool = False
    kept: tuple[str, ...] = ()
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exported: bool = True
    platform: bool = False

    def whole(self, domain: Domain | None, document: Mapping[str, Any]) -> Document:
        """A document with every field, in canonical form.

        Raises:
            Invalid: a field is missing, or there is none of that name.
        """
        known = (*self.required, *self.defaults)
        problems = [
            Problem.from_input_error(unknown("field", name, known), f"/{name}")
            for name in document
            if name not in known
        ]
        problems += [
            Problem(f"/{name}", f"`{name}` is missing", "missing")
            for name in self.required
            if name not in document
        ]
        if problems:
            raise Invalid(problems)
        return self.normal(domain, {**self.defaults, **document})

    def short(self, document: Mapping[str, Any]) -> Document:
        """A document as files show it: without what nobody said, fields in the order declared."""
        known = sorted((*self.required, *self.defaults), key=_reading_order)
        return {
            name: self._short_part(name, document[name])
            for name in known
            if name in document and (name in self.required or document[name] != self.defaults[name])
        }

    def _short_part(self, name: str, value: Any) -> Any:
        defaults = self.parts.get(name)
        if defaults is None:
            return value
        return [
            {
                field: item[field]
                for field in sorted(item, key=lambda field: _part_order(field, defaults))
                if field not in defaults or item[field] != defaults[field]
            }
            for item in value
        ]


_kinds: dict[str, Kind] = {}
_handed_down: set[str] = set()


def register(kind: Kind) -> None:
    """Make a kind known."""
    _kinds[kind.name] = kind


def kinds() -> tuple[Kind, ...]:
    """Every kind, in the order in which objects are created."""
    return tuple(sorted(_kinds.values(), key=lambda kind: (kind.rank, kind.name)))


def kind(name: str, pointer: str = "/kind") -> Kind:
    """The kind of a name.

    Args:
        pointer: where the name stood, for the problem.

    Raises:
        Invalid: there is none.
    """
    if name not in _kinds:
        raise Invalid([Problem.from_input_error(unknown("kind", name, _kinds), pointer)])
    return _kinds[name]


def names() -> Iterable[str]:
    """The names of all kinds."""
    return _kinds.keys()


def inherits(name: str) -> bool:
    """Whether sub-domains see what is done to objects of this kind; False for what is no kind."""
    return name in _handed_down or (name in _kinds and _kinds[name].inherits)


def hand_down(name: str) -> None:
    """Have sub-domains see what is done to objects that are no kind of their own."""
    _handed_down.add(name)
