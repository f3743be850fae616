"""What a change would do, found out by doing it in a transaction that is taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from adminapp.audit import services as audit
from adminapp.changes import effects
from adminapp.changes.differences import Difference, differences
from adminapp.changes.effects import Effects, State
from adminapp.changes.operations import Operation, carry_out
from adminapp.core import journal
from adminapp.core.errors import Invalid, Problem, ServiceError
from adminapp.core.journal import Item, Journal
from adminapp.identity import kinds, ports
from adminapp.identity.models import Domain, User
from adminapp.policies.findings import Finding, findings

SEEN_BY_POLICIES = frozenset(
    {"policy", "event-type", "subject-attribute", "role", "environment-variable"}
)
"""Kinds of objects that decide what policies say."""
ENDINGS = frozenset({"appointment.ended", "appointment.lapsed", "agreement.withdrawn"})


@dataclass(frozen=True)
class Change:
    """One object that a change makes, changes or removes.

    Args:
        domain: name of its domain; "" is the platform's.
        kind: what sort of object.
        key: its natural key.
        op: create, update or delete.
        before: its document before.
        after: its document after.
        revokes: whether that only takes rights away.
    """

    domain: str
    kind: str
    key: str
    op: str
    before: Any
    after: Any
    revokes: bool = False

    @property
    def diff(self) -> list[Difference]:
        if self.op != "update":
            return []
        return differences(self.before, self.after)

    def to_json(self) -> dict[str, Any]:
        return {
            "domain": self.domain,
            "kind": self.kind,
            "key": self.key,
            "op": self.op,
            "diff": [each.to_json() for each in self.diff],
        }


@dataclass(frozen=True)
class Noticed:
    """A finding about a policy of a domain."""

    domain: str
    finding: Finding

    def to_json(self) -> dict[str, Any]:
        return {"domain": self.domain, **asdict(self.finding)}


@dataclass(frozen=True)
class Plan:
    """What a change would do.

    Args:
        changes: the objects concerned.
        effects: what follows from it for people, agents, keys and encodings.
        findings: what is worth a second look about the policies as they would be.
        problems: why it cannot be done; then nothing of the rest is certain.
        revisions: the revision of each domain that the plan was made against.
        unchanged: how many objects of the files are as they should be already.
    """

    changes: tuple[Change, ...] = ()
    effects: Effects = field(default_factory=Effects)
    findings: tuple[Noticed, ...] = ()
    problems: tuple[Problem, ...] = ()
    revisions: dict[str, int] = field(default_factory=dict)
    unchanged: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "changes": [change.to_json() for change in self.changes],
            "effects": asdict(self.effects),
            "findings": [each.to_json() for each in self.findings],
            "problems": [problem.to_json() for problem in self.problems],
            "revisions": self.revisions,
        }


def rehearse(
    *, actor: User | None, operations: Sequence[Operation], source: str = journal.SYSTEM
) -> Plan:
    """Carry out operations, look at what they did, and take everything back."""
    book = Journal(source=source, batch=True, approved=True, extra={"rehearsal": True})
    with audit.rehearsing(book):
        return _plan(book, actor, operations)


def _plan(book: Journal, actor: User | None, operations: Sequence[Operation]) -> Plan:
    named = sorted({each.domain for each in operations if each.domain})
    revisions = dict(Domain.objects.filter(name__in=named).values_list("name", "revision"))
    before = effects.states(concerned(operations))
    problems = carry_out(actor=actor, operations=operations)
    if not problems:
        try:
            ports.verify_waiting(book)
        except Invalid as error:
            problems = list(error.problems)
        except ServiceError as error:
            problems = [Problem("", error.message)]
    changes = tuple(coalesced(book.items))
    if problems:
        return Plan(changes, problems=tuple(problems), revisions=revisions)
    after = effects.states([*before, *_made(before, changes)])
    found = effects.between(before, after, book.items)
    return Plan(changes, found, noticed(after, changes), revisions=revisions)


def noticed(states: Mapping[str, State], changes: Iterable[Change]) -> tuple[Noticed, ...]:
    """What is worth a second look about policies that are changed; where the model is changed
    under policies, the warnings about all of them.
    """
    made = list(changes)
    if not any(change.kind in SEEN_BY_POLICIES for change in made):
        return ()
    names = {change.key for change in made if change.kind == "policy"}
    whole = any(change.kind in SEEN_BY_POLICIES - {"policy"} for change in made)
    rows = Domain.objects.filter(name__in=list(states)).select_related("parent")
    found = [
        Noticed(domain.name, finding)
        for domain in rows.order_by("name")
        for finding in findings(
            domain, only=None if whole else names, held=states[domain.name].reach
        )
        if finding.policy in names or finding.severity == "warning"
    ]
    return tuple(found[: effects.SHOWN])


def concerned(operations: Iterable[Operation]) -> list[str]:
    """Names of the domains whose access an operation can change, sub-domains included."""
    names = {each.domain for each in operations if each.domain}
    shared = {
        each.domain
        for each in operations
        if each.domain and (each.kind == "domain" or kinds.inherits(each.kind))
    }
    return effects.with_descendants(names, shared)


def _made(before: dict[str, Any], changes: Iterable[Change]) -> list[str]:
    return sorted(
        {
            change.key
            for change in changes
            if change.kind == "domain" and change.op == "create" and change.key not in before
        }
    )


def coalesced(items: Iterable[Item]) -> list[Change]:
    """What was done to each object as one change, however many steps it took."""
    first: dict[tuple[str, str, str], Item] = {}
    last: dict[tuple[str, str, str], Item] = {}
    revokes: dict[tuple[str, str, str], bool] = {}
    for item in items:
        slot = (item.domain, item.kind, item.key)
        first.setdefault(slot, item)
        last[slot] = item
        revokes[slot] = revokes.get(slot, True) and item.revokes
    found = []
    for slot, item in first.items():
        before, after = item.before, _after(last[slot])
        if before == after:
            continue
        op = "create" if before is None else "delete" if after is None else "update"
        found.append(Change(*slot, op, before, after, revokes[slot]))
    return found


def _after(item: Item) -> Any:
    """An appointment that was ended is gone, though its row stays as a record."""
    return None if item.action in ENDINGS else item.after


def replayable(changes: Iterable[Change]) -> list[Change]:
    """Those that can be done again from their documents; the rest follows from them."""
    known = {kind.name for kind in kinds.kinds()}
    return [change for change in changes if change.kind in known]


def as_operations(changes: Iterable[Change]) -> list[Operation]:
    """Operations that do the same."""
    return [
        Operation(
            "delete" if change.after is None else "put",
            change.domain,
            change.kind,
            change.key,
            change.after,
        )
        for change in changes
    ]
