"""Reads the audit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from adminapp.audit import tree
from adminapp.audit.models import Checkpoint, Entry, TreeHead
from adminapp.core.errors import Invalid
from policyengine.primitives import merkle


def search(
    *,
    domain_names: set[str] | None = None,
    actor: str = "",
    action: str = "",
    object_type: str = "",
    object_id: str = "",
    object_name: str = "",
    person: str = "",
    source: str = "",
    change_set: int | None = None,
    text: str = "",
    persons: Collection[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[Entry]:
    """Entries that fit, newest first; `domain_names` None is every domain and the platform.

    Args:
        person: pseudonym of whom the entry speaks of.
        text: words in the names of object, action or actor. What is sealed about persons is not
            searched: name the `persons` that the words stand for.
    """
    found = Entry.objects.order_by("-sequence")
    if domain_names is not None:
        found = found.filter(domain_name__in=domain_names)
    exact = {
        "actor__name": actor,
        "action": action,
        "object_type": object_type,
        "object_id": object_id,
        "open_name": object_name,
        "person__pseudonym": person,
        "source": source,
        "change_set": change_set,
        "at__gte": since,
        "at__lt": until,
    }
    found = found.filter(**{name: value for name, value in exact.items() if value})
    return found.filter(words(text, persons)) if text else found


def entries_of(change_sets: Iterable[int]) -> Iterator[Entry]:
    """What change sets did, the last thing first."""
    found = Entry.objects.filter(change_set__in=list(change_sets)).order_by("-sequence")
    return found.iterator(chunk_size=2000)


def words(text: str, persons: Collection[str] = ()) -> Q:
    """Entries in which words occur, or that speak of one of these persons."""
    return (
        Q(open_name__icontains=text)
        | Q(action__icontains=text)
        | Q(actor__name__icontains=text)
        | Q(person__pseudonym__in=persons)
    )


def called(name: str, persons: Collection[str] = ()) -> Q:
    """Entries about the object of this name, or about one of these persons by that name."""
    return Q(open_name=name) | Q(person__pseudonym__in=persons)


def visible_to(user: Any, **filters: Any) -> QuerySet[Entry]:
    """Entries of the user's domains; operators also see those of the platform."""
    if not user.is_authenticated or not user.is_active:
        return Entry.objects.none()
    if user.is_superuser:
        return search(**filters)
    found = [user.memberships.all(), user.delegations.in_force()]
    if user.limited_to is not None:
        found = [rows.filter(domain__in=user.limited_to) for rows in found]
    names = {name for rows in found for name in rows.values_list("domain__name", flat=True)}
    return search(domain_names=names, **filters)


# -- the tree -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogState:
    """Where the log stands: number of entries, root, and the last signed checkpoint, if any."""

    size: int
    root: str
    checkpoint: Checkpoint | None


def state() -> LogState:
    head = TreeHead.objects.first()
    size, root = (0, merkle.EMPTY_ROOT.hex()) if head is None else (head.size, head.root)
    return LogState(size, root, Checkpoint.objects.order_by("-size").first())


def checkpoints() -> QuerySet[Checkpoint]:
    """What was signed, the newest first."""
    return Checkpoint.objects.order_by("-size")


@dataclass(frozen=True)
class Inclusion:
    """That an entry stands in the log: RFC 6962's audit path, all hashes as hexadecimal digits."""

    sequence: int
    index: int
    size: int
    leaf: str
    root: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class Consistency:
    """That a later state of the log only adds to an earlier one."""

    old_size: int
    new_size: int
    old_root: str
    new_root: str
    path: tuple[str, ...]


def inclusion(entry: Entry, *, size: int | None = None) -> Inclusion:
    """Proof that `entry` stands in the log of `size` entries (all of them, unless said).

    Raises:
        Invalid: there are not so many entries, or this one came later.
    """
    whole = _size("/size", size, at_least=entry.sequence)
    nodes, index = tree.Nodes(), entry.sequence - 1
    return Inclusion(
        sequence=entry.sequence,
        index=index,
        size=whole,
        leaf=entry.leaf,
        root=merkle.tree_root(whole, nodes).hex(),
        path=_hex(merkle.inclusion_proof(index, whole, nodes)),
    )


def consistency(*, old: int, new: int | None = None) -> Consistency:
    """Proof that the log of `new` entries (all of them, unless said) begins with that of `old`.

    Raises:
        Invalid: there are not so many entries, or the sizes are not in order.
    """
    whole = _size("/to", new, at_least=0)
    if not 0 <= old <= whole:
        raise Invalid.at("/from", f"must be from 0 to {whole}")
    nodes = tree.Nodes()
    return Consistency(
        old_size=old,
        new_size=whole,
        old_root=merkle.tree_root(old, nodes).hex(),
        new_root=merkle.tree_root(whole, nodes).hex(),
        path=_hex(merkle.consistency_proof(old, whole, nodes)),
    )


def _size(pointer: str, wanted: int | None, *, at_least: int) -> int:
    there = state().size
    if wanted is None:
        return there
    if not at_least <= wanted <= there:
        raise Invalid.at(pointer, f"must be from {at_least} to {there}")
    return wanted


def _hex(path: list[bytes]) -> tuple[str, ...]:
    return tuple(part.hex() for part in path)
