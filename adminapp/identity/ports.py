"""Where areas that stand above one another agree.

Imports run downwards, consequences upwards: an event type that loses an attribute may break a
policy, whose area the catalog must not know. So the upper area registers a check when it starts,
and the lower one runs all of them inside the transaction of its change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from adminapp.core import journal
from adminapp.core.errors import Invalid, Problem
from adminapp.identity.lineage import descendants
from adminapp.identity.models import Domain, Principal

ModelCheck: TypeAlias = Callable[[Domain], Iterable[Problem]]
SubjectCheck: TypeAlias = Callable[[Domain, Mapping[str, Any]], Iterable[Problem]]


@dataclass(frozen=True)
class Scope:
    """The parts of a domain that are delegated to somebody, by name."""

    roles: frozenset[str] = frozenset()
    event_types: frozenset[str] = frozenset()


# Whether a scope covers the object of a key. `below` is the event type that an object is put
# under; it must be covered as well, and alone decides about an object that does not exist yet.
Coverage: TypeAlias = Callable[[Domain, Scope, str, str], bool]
NameList: TypeAlias = Callable[[Domain], Iterable[str]]
# Whether policies let somebody change the object of a key, put below another one.
Right: TypeAlias = Callable[[Any, Domain, str, str], bool]
Surroundings: TypeAlias = Callable[[Domain, "datetime | None"], Mapping[str, Any]]

# Reads the text of a subject attribute: name and text in, the value out; raises InputError.
ReadValue: TypeAlias = Callable[[str, str], Any]
SubjectReader: TypeAlias = Callable[[Domain], ReadValue]
MoveListener: TypeAlias = Callable[[Domain], None]
Eraser: TypeAlias = Callable[[Principal], None]


@dataclass(frozen=True)
class Appointments:
    """How appointments are given to many principals at once.

    Args:
        problem: what is wrong with giving an appointment of this name; None when nothing is.
        give: gives new principals their appointments, inside the change that is running.
    """

    problem: Callable[[str], str | None]
    give: Callable[[Iterable[tuple[Principal, tuple[str, ...]]]], None]


Appointer: TypeAlias = Callable[[Domain, Any], Appointments]

_subject_readers: list[SubjectReader] = []
_appointers: list[Appointer] = []
_erasers: list[Eraser] = []
_move_listeners: list[MoveListener] = []
_coverage: dict[str, Coverage] = {}
_delegable: dict[str, NameList] = {}
_rights: dict[str, Right] = {}
_surroundings: list[Surroundings] = []
_model_checks: list[ModelCheck] = []
_subject_checks: list[SubjectCheck] = []


def add_model_check(check: ModelCheck) -> None:
    """Have `check` say what is wrong with a domain after each change of its model."""
    if check not in _model_checks:
        _model_checks.append(check)


def add_subject_check(check: SubjectCheck) -> None:
    """Have `check` say what is wrong with the values of a principal."""
    if check not in _subject_checks:
        _subject_checks.append(check)


def set_subject_reader(reader: SubjectReader) -> None:
    """Have `reader` read what files say of principals."""
    _subject_readers[:] = [reader]


def subject_reader(domain: Domain) -> ReadValue:
    """Reads values of the attributes that a domain declares."""
    (reader,) = _subject_readers
    return reader(domain)


def set_appointer(appointer: Appointer) -> None:
    """Have `appointer` give the appointments that files ask for."""
    _appointers[:] = [appointer]


def appointments_of(domain: Domain, actor: Any) -> Appointments:
    """How `actor` gives appointments in a domain."""
    (appointer,) = _appointers
    return appointer(domain, actor)


def add_eraser(eraser: Eraser) -> None:
    """Have `eraser` remove what it keeps of a principal that is being erased.

    It runs inside the change, while the principal still has its name.
    """
    if eraser not in _erasers:
        _erasers.append(eraser)


def erasers() -> tuple[Eraser, ...]:
    """Everybody who keeps something of principals."""
    return tuple(_erasers)


def on_move(listener: MoveListener) -> None:
    """Have `listener` told, before the model is checked, that a domain stands elsewhere."""
    if listener not in _move_listeners:
        _move_listeners.append(listener)


def moved(domain: Domain) -> None:
    """Say that a domain stands below another one than before."""
    for listener in _move_listeners:
        listener(domain)


def add_coverage(kind: str, covers: Coverage) -> None:
    """Have `covers` say whether a delegation reaches an object of this kind."""
    _coverage[kind] = covers


def add_delegable(part: str, names: NameList) -> None:
    """Have `names` list what a delegation may name as `roles` or `event_types`."""
    _delegable[part] = names


def add_right(kind: str, holds: Right) -> None:
    """Have `holds` say whether policies let somebody change an object of this kind."""
    _rights[kind] = holds


def permitted(actor: Any, domain: Domain, kind: str, key: str, below: str = "") -> bool:
    """Whether policies let somebody change an object; of most kinds they never do."""
    holds = _rights.get(kind)
    return holds is not None and holds(actor, domain, key, below)


def add_environment(read: Surroundings) -> None:
    """Have `read` say what the environment of a domain is at a moment."""
    _surroundings[:] = [read]


def environment(domain: Domain, at: datetime | None = None) -> dict[str, Any]:
    """Values of `env.*` at a moment (now by default), by full name: the clock and what is set."""
    return {name: value for read in _surroundings for name, value in read(domain, at).items()}


def covered(domain: Domain, scope: Scope, kind: str, key: str, below: str = "") -> bool:
    """Whether a scope covers an object; kinds that nobody registered are never covered."""
    covers = _coverage.get(kind)
    return covers is not None and covers(domain, scope, key, below)


def delegable(domain: Domain, part: str) -> frozenset[str]:
    """The names that a delegation of this domain may list."""
    names = _delegable.get(part)
    return frozenset() if names is None else frozenset(names(domain))


def verify_model(domain: Domain) -> None:
    """Raises Invalid when the domain, or one below it, no longer fits together.

    Within a batch of changes it waits for the end: the model need not fit together in between.
    """
    book = journal.current()
    if book is not None and book.batch:
        book.unverified[domain.pk] = domain
        return
    _verify([domain])


def verify_waiting(book: journal.Journal) -> None:
    """Run the checks that a batch put off."""
    waiting, book.unverified = list(book.unverified.values()), {}
    if waiting:
        _verify(list(Domain.objects.filter(pk__in=[domain.pk for domain in waiting])))


def _verify(domains: list[Domain]) -> None:
    journal.forget()  # what is to be verified was just written
    concerned = {domain.pk: domain for domain in domains}
    for domain in domains:
        concerned.update({below.pk: below for below in descendants(domain)})
    own = {domain.pk for domain in domains}
    _raise(
        problem if domain.pk in own else _of(domain, problem)
        for domain in concerned.values()
        for check in _model_checks
        for problem in check(domain)
    )


def _of(domain: Domain, problem: Problem) -> Problem:
    return Problem("", f"in `{domain.name}`: {problem.message}", problem.kind)


def verify_subject(domain: Domain, values: Mapping[str, Any]) -> None:
    """Raises Invalid when a principal may not have these values."""
    _raise(problem for check in _subject_checks for problem in check(domain, values))


def _raise(problems: Iterable[Problem]) -> None:
    found = tuple(problems)
    if found:
        raise Invalid(found)
