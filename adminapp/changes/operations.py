"""Operations of a change set: read, put in order, carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db import transaction

from adminapp.core import journal
from adminapp.core.errors import Invalid, Problem, ServiceError
from adminapp.identity import kinds
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.models import Domain, User


@dataclass(frozen=True)
class Operation:
    """One thing to be done to one object.

    Args:
        op: `put` makes or changes the object, `delete` removes it.
        domain: name of its domain; "" is the platform's.
        kind: name of its kind.
        key: its natural key.
        document: what it is to be; None for a deletion.
        place: where it was asked for, as the beginning of a pointer (`city.yaml#3`).
    """

    op: Literal["put", "delete"]
    domain: str
    kind: str
    key: str
    document: Document | None = None
    place: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"op": self.op, "kind": self.kind, "key": self.key, "document": self.document}


def read(obj: object, domain: str) -> tuple[Operation, ...]:
    """Operations of a change set from JSON.

    Raises:
        Invalid: with a pointer to each place that is wrong.
    """
    if not isinstance(obj, list):
        raise Invalid.at("/operations", "this is a list of operations", "type")
    problems: list[Problem] = []
    found: list[Operation] = []
    for index, item in enumerate(obj):
        try:
            found.append(_read(item, domain, f"/operations/{index}"))
        except Invalid as error:
            problems += error.below(f"/operations/{index}").problems
    problems += _doubled(found)
    if problems:
        raise Invalid(problems)
    return tuple(found)


def _read(item: object, domain: str, place: str) -> Operation:
    if not isinstance(item, Mapping):
        raise Invalid.at("", "this is an object", "type")
    unknown = sorted(set(map(str, item)) - {"op", "kind", "key", "document"})
    if unknown:
        raise Invalid(
            Problem(f"/{name}", f"there is no field `{name}`", "unknown") for name in unknown
        )
    kind = kinds.kind(str(item.get("kind", "")))
    op, document, key = item.get("op"), item.get("document"), item.get("key")
    if op == "put":
        if not isinstance(document, Mapping):
            raise Invalid.at("/document", "what the object is to be", "missing")
        named = kind.key(document)
        if key is not None and key != named:
            raise Invalid.at("/key", f"the document is that of `{named}`")
        return Operation("put", domain, kind.name, named, dict(document), place)
    if op == "delete":
        if not isinstance(key, str) or not key or document is not None:
            raise Invalid.at("/key", "a deletion names the key, and no document")
        return Operation("delete", domain, kind.name, key, None, place)
    raise Invalid.at("/op", "an operation is `put` or `delete`")


def _doubled(found: Sequence[Operation]) -> list[Problem]:
    seen: set[tuple[str, str, str]] = set()
    problems = []
    for each in found:
        slot = (each.domain, each.kind, each.key)
        if slot in seen:
            problems.append(Problem(each.place, f"{each.kind} `{each.key}` stands there twice"))
        seen.add(slot)
    return problems


def ordered(operations: Iterable[Operation]) -> list[Operation]:
    """In the order in which objects stand on one another: made upwards, removed downwards."""
    puts = [each for each in operations if each.op == "put"]
    deletes = [each for each in operations if each.op == "delete"]
    puts.sort(key=lambda each: (kinds.kind(each.kind).rank, each.kind))
    deletes.sort(key=lambda each: -kinds.kind(each.kind).rank)
    return [*_by_need(puts), *deletes]


def _by_need(puts: list[Operation]) -> list[Operation]:
    """Within a kind, what another one names comes before it; a circle is left to the service."""
    by_slot = {_slot(each, each.key): each for each in puts}
    done: dict[tuple[str, str, str], Operation] = {}

    def visit(each: Operation, path: frozenset[tuple[str, str, str]]) -> None:
        slot = _slot(each, each.key)
        for key in kinds.kind(each.kind).after(each.document or {}):
            needed = _needed(each, str(key))
            if needed in by_slot and needed not in done and needed not in path:
                visit(by_slot[needed], path | {slot})
        done.setdefault(slot, each)

    for each in puts:
        visit(each, frozenset())
    # Ranks stay in order: a needed object is of the same kind.
    return sorted(done.values(), key=lambda each: kinds.kind(each.kind).rank)


def _slot(each: Operation, key: str) -> tuple[str, str, str]:
    return each.domain, each.kind, key


def _needed(each: Operation, key: str) -> tuple[str, str, str]:
    """A domain stands under its own name."""
    return (key if each.kind == "domain" else each.domain), each.kind, key


def carry_out(*, actor: User | None, operations: Sequence[Operation]) -> list[Problem]:
    """Do all of them through the services; what a service refuses becomes a problem.

    The caller's transaction must not be kept when there are any.
    """
    problems: list[Problem] = []
    for each in ordered(operations):
        try:
            with transaction.atomic():
                _carry_out(actor, each)
        except Invalid as error:
            problems += error.below(each.place).problems
        except ServiceError as error:
            problems.append(Problem(each.place, f"{each.kind} `{each.key}`: {error.message}"))
    return problems


def _carry_out(actor: User | None, operation: Operation) -> None:
    kind = kinds.kind(operation.kind)
    domain = _domain(kind, operation)
    row = kind.find(domain, operation.key)
    if operation.op == "delete":
        if row is None:
            raise Invalid.at("", f"there is no {kind.name} `{operation.key}`", "unknown")
        kind.delete(actor, row)
        return
    wanted = kind.whole(domain, operation.document or {})
    if row is None:
        kind.create(actor, domain, operation.key, wanted)
    elif kind.document(row) != wanted:
        kind.update(actor, row, wanted)


def _domain(kind: Kind, operation: Operation) -> Domain | None:
    if kind.platform or kind.name == "domain":
        return None
    found = journal.remember(
        ("domain", operation.domain),
        lambda: Domain.objects.select_related("parent").filter(name=operation.domain).first(),
    )
    if found is None:
        raise Invalid.at("/domain", f"there is no domain `{operation.domain}`", "unknown")
    return found
