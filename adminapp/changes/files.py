"""Policy as code: files are planned and applied as change sets, and models exported as files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adminapp.audit import services as audit
from adminapp.changes import planning, settling
from adminapp.changes.operations import Operation, carry_out
from adminapp.changes.planning import Plan
from adminapp.changes.yamlfiles import FileObject, dump, parse
from adminapp.core.errors import Forbidden, Invalid, Problem
from adminapp.core.journal import Journal
from adminapp.identity import kinds, permissions
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.lineage import lineage
from adminapp.identity.models import Domain, User


@dataclass(frozen=True)
class Applied:
    """What applying files did.

    Args:
        plan: what was changed.
        change_sets: the change sets by name of domain; "" is the platform's.
        unchanged: how many objects of the files were as they should be.
    """

    plan: Plan
    change_sets: dict[str, int]
    unchanged: int = 0


def read_all(files: Iterable[tuple[str, bytes]]) -> tuple[FileObject, ...]:
    """Every object of several files.

    Raises:
        Invalid: with everything that is wrong in any of them.
    """
    problems: list[Problem] = []
    found: list[FileObject] = []
    for name, data in files:
        try:
            found += parse(name, data)
        except Invalid as error:
            problems += error.problems
    seen: dict[tuple[str, str, str], str] = {}
    for each in found:
        slot = (each.domain, each.kind, each.key)
        if slot in seen:
            first = seen[slot].rstrip(": ")
            problems.append(
                Problem(each.place, f"{each.kind} `{each.key}` stands at {first} already")
            )
        seen.setdefault(slot, each.place)
    if problems:
        raise Invalid(problems)
    return tuple(found)


# -- plan and apply --------------------------------------------------------------------------


def plan(*, actor: User | None, files: Iterable[tuple[str, bytes]], partial: bool = True) -> Plan:
    """What applying the files would do; nothing is written.

    Args:
        files: name and bytes of each.
        partial: whether what the files leave out stays; otherwise objects of the domains that the
            files describe and that they leave out are deleted.

    Raises:
        Invalid: the files themselves cannot be read.
        Forbidden: they speak of a domain that the actor does not manage.
    """
    operations, unchanged = wanted(actor, read_all(files), partial=partial)
    found = planning.rehearse(actor=actor, operations=operations, source="file")
    return replace(found, unchanged=unchanged)


def apply(
    *,
    actor: User | None,
    files: Iterable[tuple[str, bytes]],
    partial: bool = True,
    message: str = "",
    expected: Mapping[str, int] | None = None,
    source: str = "file",
) -> Applied:
    """Bring the model in line with the files: everything or nothing.

    Args:
        expected: the revision of each domain that a plan was made against; another one is refused.

    Raises:
        Invalid: something is wrong, with the place in the file.
        Conflict: a domain has changed since the plan.
        AwaitingApproval: a domain asks a second person; the change sets are submitted.
    """
    objects = read_all(files)
    book = Journal(source=source, message=message, batch=True, actor=actor)
    with audit.changing(book) as held:
        settling.require_revisions(expected or {})
        operations, unchanged = wanted(actor, objects, partial=partial)
        problems = carry_out(actor=actor, operations=operations)
        if problems:
            raise Invalid(problems)
        done = Plan(changes=tuple(planning.coalesced(held.items)))
    return Applied(done, dict(held.change_sets), unchanged)


def wanted(
    actor: User | None, objects: Sequence[FileObject], *, partial: bool
) -> tuple[list[Operation], int]:
    """The operations that bring the model in line, and how many objects are so already."""
    _require(actor, objects)
    held = _Held()
    operations: list[Operation] = []
    problems: list[Problem] = []
    for each in objects:
        try:
            operation = _operation(each, held)
        except Invalid as error:
            problems += error.below(each.place).problems
            continue
        if operation is not None:
            operations.append(operation)
    if problems:
        raise Invalid(problems)
    unchanged = len(objects) - len(operations)
    if not partial:
        operations += _left_out(objects, held)
    return operations, unchanged


def _require(actor: User | None, objects: Iterable[FileObject]) -> None:
    """Who may see a domain and not change it hears so before anything is planned."""
    if actor is None:
        return
    names = {each.domain for each in objects}
    rows = {row.name: row for row in Domain.objects.filter(name__in=names)}
    for name in sorted(names):
        if name == "" or name not in rows:
            permissions.require_operator(actor)
        elif not permissions.may_view(actor, rows[name]):
            raise Forbidden(f"there is no domain `{name}` that you manage")
        else:
            permissions.require_part(actor, rows[name])


class _Held:
    """The documents that are there, read once for each domain and kind."""

    def __init__(self) -> None:
        self._domains: dict[str, Domain | None] = {}
        self._documents: dict[tuple[str, str], Mapping[str, Document]] = {}

    def domain(self, name: str) -> Domain | None:
        if name not in self._domains:
            rows = Domain.objects.select_related("parent")
            self._domains[name] = rows.filter(name=name).first()
        return self._domains[name]

    def documents(self, kind: Kind, name: str) -> Mapping[str, Document]:
        slot = (kind.name, name)
        if slot not in self._documents:
            domain = None if kind.platform else self.domain(name)
            there = kind.platform or domain is not None
            self._documents[slot] = kind.documents(domain) if there else {}  # type: ignore[arg-type]
        return self._documents[slot]


def _operation(each: FileObject, held: _Held) -> Operation | None:
    kind = kinds.kind(each.kind)
    current = held.documents(kind, each.domain).get(each.key)
    whole = kind.whole(held.domain(each.domain), {**_silent(kind, current), **each.document})
    if current == whole:
        return None
    return Operation("put", each.domain, each.kind, each.key, whole, each.place)


def _silent(kind: Kind, current: Document | None) -> Document:
    """What a file does not have to say: it stays as it is held, such as public keys."""
    if current is None:
        return {}
    return {name: current[name] for name in kind.kept if name in current}


def _left_out(objects: Sequence[FileObject], held: _Held) -> list[Operation]:
    """Deletions of what the files leave out, in the domains that they describe themselves."""
    described = {each.domain for each in objects if each.kind == "domain"}
    there = {(each.domain, each.kind, each.key) for each in objects}
    return [
        Operation("delete", domain, kind.name, key)
        for domain in sorted(described)
        if held.domain(domain) is not None
        for kind in kinds.kinds()
        if kind.exported and not kind.platform and kind.name != "domain"
        for key in held.documents(kind, domain)
        if (domain, kind.name, key) not in there
    ]


# -- export ----------------------------------------------------------------------------------


def export(domains: Iterable[Domain], *, platform: bool = False) -> str:
    """Domains as files: parents first, then by name; the same model always gives the same bytes.

    Args:
        platform: whether overlays and agents come first.
    """
    objects: list[tuple[str, str, Mapping[str, Any]]] = []
    for kind in kinds.kinds():
        if kind.platform and platform:
            objects += [("", kind.name, each) for each in kind.documents(None).values()]  # type: ignore[arg-type]
    for domain in _parents_first(domains):
        for kind in kinds.kinds():
            if kind.exported and not kind.platform:
                held = kind.documents(domain)
                objects += [(domain.name, kind.name, held[key]) for key in _order(kind, held)]
    return dump(objects)


def _order(kind: Kind, held: Mapping[str, Document]) -> list[str]:
    """By key, but what another one names comes before it."""
    done: dict[str, None] = {}

    def visit(key: str, path: tuple[str, ...]) -> None:
        for needed in sorted(kind.after(held[key])):
            if needed in held and needed not in done and needed not in path:
                visit(needed, (*path, key))
        done.setdefault(key)

    for key in sorted(held):
        visit(key, ())
    return list(done)


def _parents_first(domains: Iterable[Domain]) -> list[Domain]:
    return sorted(domains, key=lambda domain: (len(lineage(domain)), domain.name))
