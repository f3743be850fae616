"""Adds to the audit, and orders the writers of the control plane."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, ParamSpec, TypeAlias, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from django.utils import timezone

from adminapp.audit import keys, mapping, tree
from adminapp.audit.models import Actor, Entry, Person, TreeHead, TreeNode
from adminapp.core import canonical, journal
from adminapp.core.journal import Journal

P = ParamSpec("P")
R = TypeVar("R")
HEAD = 1
SYSTEM = "system"
BATCH = 2000
# Columns that the database keeps in another form than Python does.
PREPARED = frozenset({"at", "open_before", "open_after"})


@contextmanager
def changing(book: Journal | None = None) -> Iterator[Journal]:
    """One transaction and one journal for one change of the control plane.

    It takes the end of the audit's log before any other row, so that two changes queue up and
    never wait for one another in a circle (SQLite does the same through BEGIN IMMEDIATE). A change
    within a change is a part of it: what it noted is forgotten when it fails.

    Args:
        book: the journal of a change that is more than one service. Within another change that
            one's journal is used, and follows this one in everything but what it noted already.
    """
    held = journal.current()
    if held is not None:
        if book is not None:
            held.follow(book)
        mark = held.mark()
        try:
            with transaction.atomic():
                yield held
        except BaseException:
            held.back_to(mark)
            raise
        return
    opened = book or Journal(source=journal.current_source())
    try:
        with journal.opened(opened), transaction.atomic():
            _head()
            yield opened
            journal.settle(opened)
    except journal.Held as held:
        raise held.conclude() from None


@contextmanager
def rehearsing(book: Journal) -> Iterator[Journal]:
    """A change that is always taken back: what it does can be looked at, nothing of it stays."""
    with journal.opened(book), transaction.atomic():
        _head()
        yield book
        transaction.set_rollback(True)


def change(service: Callable[P, R]) -> Callable[P, R]:
    """Makes a service one transaction, see `changing`."""

    @functools.wraps(service)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with changing():
            return service(*args, **kwargs)

    return run


@dataclass(frozen=True, kw_only=True)
class NewEntry:
    """What one change says of itself.

    Args:
        action: type of the object, a point, what was done (`policy.created`).
        object_type: what was changed.
        object_id: its primary key.
        object_name: what people call it.
        domain_name: whose it is, "" for the platform's.
        before: its document before, None when it is new.
        after: its document now, None when it is gone.
        person: pseudonym of the person whom name and documents identify, "" when they identify
            nobody; they are then encrypted under a key of that person's own.
    """

    action: str
    object_type: str
    object_id: object
    object_name: str = ""
    domain_name: str = ""
    before: Any = None
    after: Any = None
    person: str = ""


Listener: TypeAlias = Callable[[Sequence[NewEntry]], None]
_listeners: list[Listener] = []


def on_write(listen: Listener) -> None:
    """Have `listen` called with all new entries, in their transaction."""
    if listen not in _listeners:
        _listeners.append(listen)


def write(*, actor: Any, **fields: Any) -> Entry:
    """Add one entry, with the fields of `NewEntry`; `actor` None is the system itself."""
    (columns,) = _add(actor, [NewEntry(**fields)])
    return Entry(**columns)


def write_many(*, actor: Any, entries: Iterable[NewEntry]) -> range:
    """Add entries to the end of the log, all or none, thousands in one statement.

    Args:
        actor: who made all these changes; None is the system itself.
        entries: in their order; they are read as they are written.

    Returns:
        The numbers of the new entries.
    """
    first, count = 0, 0
    with changing():
        for batch in _batches(entries):
            added = _add(actor, batch)
            first = first or added[0]["sequence"]
            count += len(added)
    return range(first, first + count)


@transaction.atomic
def _add(actor: Any, new: Sequence[NewEntry]) -> list[dict[str, Any]]:
    head = _head()
    if head.key_id not in {"", keys.key_id()}:
        raise ImproperlyConfigured(
            "the audit was written under another audit key than the one of this process"
        )
    writer = _Writer(head, _actor(actor), _persons({fields.person for fields in new}))
    rows = [writer.row(fields) for fields in new]
    _insert(rows)
    TreeNode.objects.bulk_create(writer.nodes)
    TreeHead.objects.filter(pk=HEAD).update(**writer.end())
    for listen in _listeners:
        listen(new)
    return rows


def _insert(rows: list[dict[str, Any]]) -> None:
    """All rows in one statement that is prepared once: an import writes a hundred thousand."""
    names = list(rows[0])
    fields = [Entry._meta.get_field(name) for name in names]
    quote = connection.ops.quote_name
    columns = ", ".join(quote(field.column) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    table = quote(Entry._meta.db_table)
    # Nothing but names of our own stands in it.
    statement = " ".join(["INSERT INTO", table, f"({columns})", "VALUES", f"({places})"])
    values = (
        [
            field.get_db_prep_save(row[name], connection) if name in PREPARED else _key(row[name])
            for name, field in zip(names, fields, strict=True)
        ]
        for row in rows
    )
    with connection.cursor() as cursor:
        cursor.executemany(statement, values)


def _key(value: Any) -> Any:
    return value.pk if isinstance(value, Actor | Person) else value


class _Writer:
    """Makes the rows of one batch, each the next leaf of the tree."""

    def __init__(self, head: TreeHead, actor: Actor, persons: dict[str, Person]) -> None:
        self.nodes: list[TreeNode] = []
        self._frontier = tree.frontier(head)
        self._actor = actor
        self._persons = persons
        self._now = timezone.now()
        self._source = journal.current_source()

    def row(self, new: NewEntry) -> dict[str, Any]:
        number = self._frontier.size + 1
        person = self._persons.get(new.person)
        hashed = {
            "sequence": number,
            "at": self._now,
            "source": self._source,
            "change_set": journal.change_set(new.domain_name),
            "action": new.action,
            "domain_name": new.domain_name,
            "object_type": new.object_type,
            "object_id": str(new.object_id),
            **_content(new, number, person),
        }
        leaf = mapping.leaf(
            **hashed,
            actor=self._actor.pseudonym,
            person=None if person is None else person.pseudonym,
        )
        self.nodes += tree.stored(self._frontier.append(leaf))
        return {
            **hashed,
            "actor": self._actor,
            "person": person,
            "leaf": leaf.hex(),
            "seal": keys.seal_entry(number, leaf),
        }

    def end(self) -> dict[str, Any]:
        size, root = self._frontier.size, self._frontier.root()
        return {
            "size": size,
            "root": root.hex(),
            "peaks": b"".join(self._frontier.peaks).hex(),
            "key_id": keys.key_id(),
            "seal": keys.seal_head(size, root),
        }


def _content(new: NewEntry, number: int, person: Person | None) -> dict[str, Any]:
    """What may identify somebody: in clear, or sealed when it does."""
    name = new.object_name[:200]
    if person is None:
        return {
            "open_name": name,
            "open_before": new.before,
            "open_after": new.after,
            "sealed": None,
        }
    # Of somebody who was erased nothing is kept any more, not even sealed.
    salt = keys.new_salt() if person.salt is None else bytes(person.salt)
    text = canonical.dumps([name, new.before, new.after])
    key = keys.of_person(person.pseudonym, salt)
    sealed = keys.close_content(key, number, text)
    return {"open_name": "", "open_before": None, "open_after": None, "sealed": sealed}


def _actor(user: Any) -> Actor:
    user_id, name = (0, SYSTEM) if user is None else (user.pk, user.get_username())
    known = Actor.objects.filter(user_id=user_id, name=name, erased_at__isnull=True).first()
    if known is not None:
        return known
    salt = keys.new_salt()
    pseudonym = keys.pseudonym(salt, name, user_id)
    return Actor.objects.create(user_id=user_id, name=name, salt=salt, pseudonym=pseudonym)


def _persons(names: set[str]) -> dict[str, Person]:
    wanted = names - {""}
    if not wanted:
        return {}
    known = set(Person.objects.filter(pseudonym__in=wanted).values_list("pseudonym", flat=True))
    Person.objects.bulk_create(
        Person(pseudonym=name, salt=keys.new_salt()) for name in sorted(wanted - known)
    )
    return {person.pseudonym: person for person in Person.objects.filter(pseudonym__in=wanted)}


def _head() -> TreeHead:
    head = TreeHead.objects.select_for_update().filter(pk=HEAD).first()
    if head is not None:
        return head
    TreeHead.objects.get_or_create(pk=HEAD)
    return TreeHead.objects.select_for_update().get(pk=HEAD)


def _batches(entries: Iterable[NewEntry]) -> Iterator[list[NewEntry]]:
    remaining = iter(entries)
    while batch := list(islice(remaining, BATCH)):
        yield batch
