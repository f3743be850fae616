"""What one change does, gathered while it runs.

The outermost transaction of a change opens a journal; every service that writes notes in it what
it did. When the change is done the journal is settled: the checks that were put off run, the change
set is written, and a change that needs a second person is taken back. Areas below know only this
module; what settling means is registered by the area of change sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

SYSTEM = "system"


@dataclass(frozen=True)
class Item:
    """One thing that was done to one object.

    Args:
        kind: what sort of object (`policy`).
        action: what was done (`policy.updated`).
        domain: name of the domain that it belongs to; "" is the platform's.
        key: the object's natural key within the domain.
        before: its document before, None when it was not there.
        after: its document after, None when it is gone.
        revokes: whether this can only take rights away.
    """

    kind: str
    action: str
    domain: str
    key: str
    before: Any
    after: Any
    revokes: bool = False


@dataclass
class Journal:
    """One change while it runs.

    Args:
        source: where it comes from: console, api, file, command or system.
        message: why, in the words of whoever asked for it.
        batch: whether checks of the whole model wait for the end.
        approved: whether a second person has agreed, or none is needed.
        change_sets: change set by name of domain, once known.
        extra: what the area of change sets keeps with it.
    """

    source: str = SYSTEM
    message: str = ""
    batch: bool = False
    approved: bool = False
    actor: Any = None
    items: list[Item] = field(default_factory=list)
    raised: dict[int, int] = field(default_factory=dict)
    unverified: dict[int, Any] = field(default_factory=dict)
    change_sets: dict[str, int] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    cache: dict[Any, Any] = field(default_factory=dict)

    def note(self, item: Item) -> None:
        """Add what was done; what was remembered of the model may no longer be so."""
        self.items.append(item)
        self.cache = {
            key: (value, despite)
            for key, (value, despite) in self.cache.items()
            if item.kind in despite
        }

    def follow(self, other: Journal) -> None:
        """Go on under the terms of another journal."""
        self.source, self.message, self.actor = other.source, other.message, other.actor
        self.batch, self.approved = other.batch, other.approved
        self.extra.update(other.extra)

    def mark(self) -> tuple[Any, ...]:
        """The state to come back to when a part of the change fails and is caught."""
        return (
            len(self.items),
            dict(self.raised),
            dict(self.unverified),
            dict(self.change_sets),
        )

    def back_to(self, mark: tuple[Any, ...]) -> None:
        """Forget what was done since `mark`."""
        del self.items[mark[0] :]
        self.raised, self.unverified, self.change_sets = mark[1], mark[2], mark[3]
        self.cache.clear()


class Held(Exception):
    """Takes a change back at its end, because it must wait for something.

    Args:
        conclude: keeps what was wanted, outside the change's transaction; returns what the caller
            is told.
    """

    def __init__(self, conclude: Callable[[], Exception]) -> None:
        super().__init__("held")
        self.conclude = conclude


Settle: TypeAlias = Callable[[Journal], None]
Number: TypeAlias = Callable[[Journal, str], "int | None"]

_current: ContextVar[Journal | None] = ContextVar("journal", default=None)
_source: ContextVar[str] = ContextVar("source", default=SYSTEM)
_settlers: list[Settle] = []
_numbers: list[Number] = []


def current() -> Journal | None:
    """The journal of the change that is running, if one is."""
    return _current.get()


@contextmanager
def opened(journal: Journal) -> Iterator[Journal]:
    """Note everything in `journal`."""
    token = _current.set(journal)
    try:
        yield journal
    finally:
        _current.reset(token)


@contextmanager
def source(name: str) -> Iterator[None]:
    """Say where the changes made in here come from."""
    token = _source.set(name)
    try:
        yield
    finally:
        _source.reset(token)


def current_source() -> str:
    """Where changes come from that are made now."""
    held = _current.get()
    return held.source if held is not None else _source.get()


def on_settle(settle: Settle) -> None:
    """Have `settle` called at the end of every change, inside its transaction, in this order."""
    if settle not in _settlers:
        _settlers.append(settle)


def on_number(number: Number) -> None:
    """Have `number` say which change set the changes of a domain belong to."""
    if number not in _numbers:
        _numbers.append(number)


def settle(journal: Journal) -> None:
    """End a change; raising takes it back."""
    for each in _settlers:
        each(journal)


def change_set(domain: str) -> int | None:
    """The number of the change set that a change of this domain belongs to now."""
    held = _current.get()
    if held is None:
        return None
    if domain not in held.change_sets:
        for number in _numbers:
            found = number(held, domain)
            if found is not None:
                held.change_sets[domain] = found
    return held.change_sets.get(domain)


def remember(key: Any, make: Callable[[], T], *, despite: frozenset[str] = frozenset()) -> T:
    """What `make` gives, made once for as long as nothing is changed within one change.

    Args:
        despite: kinds of objects whose changes do not concern it.
    """
    held = _current.get()
    if held is None:
        return make()
    if key not in held.cache:
        held.cache[key] = (make(), despite)
    found: T = held.cache[key][0]
    return found


def forget() -> None:
    """Let nothing stand that was remembered of the model: rows were written."""
    held = _current.get()
    if held is not None:
        held.cache.clear()
