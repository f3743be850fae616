"""Who may do what in a domain at a moment, for everybody at once.

The subject's side of every policy is answered for all principals by a few operations on whole
columns (see `columns`), so that a question about a hundred thousand of them costs about as much as
one about ten. What a principal may do is then read off a matrix: a row for each way to satisfy a
policy, a bit for each principal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

import numpy as np
from django.utils import timezone
from numpy.typing import NDArray

from adminapp.agreements.effect import Opening
from adminapp.catalog.mapping import EVENT
from adminapp.identity.models import Domain
from adminapp.policies import columns, crowd, guests, remembered, selectors
from adminapp.policies.access import (
    Access,
    Condition,
    Holding,
    Line,
    Rule,
    Slots,
    lines,
    slots,
)
from adminapp.policies.comparison import ReachChange, compare
from adminapp.policies.crowd import Crowd
from adminapp.policies.language import Language, PolicyConjunction
from adminapp.policies.models import Policy
from adminapp.policies.ways import Grant, Group
from adminapp.roles.mapping import ROLE
from policyengine.attributes import Join, Literal, Value

__all__ = ["Reach", "ReachChange", "compare", "take"]

_BLOCK = 512  # principals whose rights are read off the matrix at a time
_LINES = 4096  # sets of rights whose lines are kept while a list is written


@dataclass(frozen=True)
class Reach:
    """Everything that everybody may do; nothing in it ever changes.

    Args:
        crowd: the principals.
        grants: what policies permit.
        matrix: for each grant the principals that have it, as a mask.
        types: every event type with the names of its attributes.
        at: the moment.
        until: when something begins or ends by itself; None is never.
        joined: for grants with joins their rows, where principals have several.
        opening: the agreement that lets these principals in; None for the domain's own.
        guests: what principals of other domains may do, for each agreement; questions are about
            the domain's own principals, and each of `parts` can be asked.
    """

    crowd: Crowd
    grants: tuple[Grant, ...]
    matrix: NDArray[np.uint8]
    types: Mapping[str, tuple[str, ...]]
    at: datetime
    until: datetime | None = None
    joined: Mapping[int, columns.Mask] = field(default_factory=dict)
    opening: Opening | None = None
    guests: tuple[Reach, ...] = ()

    @property
    def parts(self) -> tuple[Reach, ...]:
        """The domain's own principals, and those whom each agreement lets in."""
        return (self, *self.guests)

    @property
    def number(self) -> int:
        """The agreement's primary key; 0 for the domain's own principals."""
        return 0 if self.opening is None else self.opening.agreement

    @property
    def agreement(self) -> str:
        """Name of the agreement that lets these principals in; "" for the domain's own."""
        return "" if self.opening is None else self.opening.name

    # -- questions ---------------------------------------------------------------------------

    def effective(
        self,
        principal: str | None = None,
        action: str | None = None,
        type: str | None = None,  # noqa: A002
        attribute: str | None = None,
        *,
        policy: str | None = None,
        start: str | None = None,
    ) -> Iterator[Access]:
        """What principals may do, by name of the principal, action and type.

        Args:
            principal: only this one.
            action: only this action.
            type: only this event type.
            attribute: only this attribute.
            policy: only what this policy permits.
            start: only principals from this name on.
        """
        chosen = self.chosen(action, type, attribute, policy)
        positions = self._positions(chosen, principal, start)
        kept: dict[object, list[Line]] = {}
        for position, held in self._held(chosen, positions):
            key = (held.tobytes(), self._bound(held.tolist(), position) if self._tied else ())
            found = kept.get(key)
            if found is None:
                found = lines(self._slots(held, position, type), attribute)
                if len(kept) < _LINES:
                    kept[key] = found
            who = self.crowd.names[position], self.crowd.handles[position]
            for line in found:
                yield line.of(*who, self.crowd.domain, self.agreement)

    def permits(
        self,
        principal: str,
        action: str,
        type: str,  # noqa: A002
        attribute: str | None = None,
        event: Mapping[str, Value] | None = None,
    ) -> bool:
        """Whether a principal may do something.

        Args:
            principal: its name.
            attribute: None asks for the event as such.
            event: the event's values by name (`carrier`); without them the answer is whether
                there may be such an event.
        """
        chosen = self.chosen(action, type, attribute)
        values = None if event is None else {f"{EVENT}{key}": event[key] for key in event}
        for position, held in self._held(chosen, self._positions(chosen, principal, None)):
            for holding in self.holdings(held, position):
                if values is None or all(each.holds(values) for each in holding.condition):
                    return True
        return False

    def who(
        self,
        action: str | None = None,
        type: str | None = None,  # noqa: A002
        attribute: str | None = None,
    ) -> tuple[str, ...]:
        """Names of those who may do something, under some condition at least."""
        positions = self._positions(self.chosen(action, type, attribute), None, None)
        return tuple(self.crowd.names[position] for position in positions)

    def size(
        self,
        action: str | None = None,
        type: str | None = None,  # noqa: A002
        attribute: str | None = None,
        *,
        policy: str | None = None,
    ) -> int:
        """How many may do something, under some condition at least."""
        return len(self._positions(self.chosen(action, type, attribute, policy), None, None))

    def groups(
        self,
        action: str | None = None,
        type: str | None = None,  # noqa: A002
        attribute: str | None = None,
    ) -> list[Group]:
        """Everything at once: for each way to satisfy a policy how many principals have it."""
        return [
            Group(self.grants[index], columns.size_of(self.matrix[index]), self.agreement)
            for index in self.chosen(action, type, attribute).tolist()
        ]

    def among(self, policies: Iterable[Policy], spoken: Language) -> Reach:
        """What it would be if these were the policies, those not in force included."""
        rules = selectors.rules_of(policies, spoken, self.at)
        people = [(each.opening, each.crowd) for each in self.guests if each.opening is not None]
        return _together(self.crowd, people, rules, spoken, at=self.at, until=self.until)

    # -- reading the matrix ------------------------------------------------------------------

    def chosen(
        self,
        action: str | None,
        type: str | None,  # noqa: A002
        attribute: str | None,
        policy: str | None = None,
    ) -> NDArray[np.intp]:
        """Indices of the grants that have to do with something."""
        return np.array(
            [
                index
                for index, grant in enumerate(self.grants)
                if policy in (None, grant.rule.policy) and grant.permits(action, type, attribute)
            ],
            dtype=np.intp,
        )

    def holdings(self, held: Iterable[int], position: int) -> Iterator[Holding]:
        """Grants that a principal has, with the conditions that they mean for it."""
        for index in held:
            grant = self.grants[index]
            for condition in self._conditions(index, position):
                yield Holding(grant.rule.policy, grant.rule.action, grant.types, condition)

    def _conditions(self, index: int, position: int) -> Iterator[Condition]:
        way = self.grants[index].way
        if not way.joins:
            yield way.event
            return
        rows = self.joined.get(index)
        for row in self.crowd.rows_of(position):
            if rows is None or rows[row >> 3] >> (7 - (row & 7)) & 1:
                wanted = (
                    Literal(join.right, "==", self.crowd.values.value(join.left, row))
                    for join in way.joins
                )
                yield tuple(dict.fromkeys((*way.event, *wanted)))

    def _slots(self, held: Iterable[int], position: int, event_type: str | None) -> Slots:
        found = slots(self.holdings(held, position))
        if event_type is None:
            return found
        return {slot: there for slot, there in found.items() if slot[1] == event_type}

    def _bound(self, held: Iterable[int], position: int) -> tuple[Condition, ...]:
        """The conditions of the grants whose conditions are the principal's own."""
        return tuple(
            condition
            for index in self._tied.intersection(held)
            for condition in self._conditions(index, position)
        )

    @cached_property
    def _tied(self) -> frozenset[int]:
        """Indices of the grants with joins."""
        return frozenset(i for i, grant in enumerate(self.grants) if grant.way.joins)

    def _positions(
        self, chosen: NDArray[np.intp], principal: str | None, start: str | None
    ) -> Sequence[int]:
        names = self.crowd.names
        if principal is not None:
            place = bisect_left(names, principal)
            return [place] if place < len(names) and names[place] == principal else []
        if not len(chosen):
            return []
        anybody = np.bitwise_or.reduce(self.matrix[chosen], axis=0)
        found = columns.positions_of(anybody, self.crowd.count)
        first = 0 if start is None else bisect_left(names, start)
        return found[np.searchsorted(found, first) :].tolist()

    def _held(
        self, chosen: NDArray[np.intp], positions: Sequence[int]
    ) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """For each principal the grants that it has, of those chosen."""
        for start in range(0, len(positions), _BLOCK):
            block = np.array(positions[start : start + _BLOCK])
            bits = self.matrix[chosen[:, None], block >> 3] >> (7 - (block & 7)) & 1
            having = np.ascontiguousarray(bits.T, dtype=np.bool_)
            for position, row in zip(block.tolist(), having, strict=True):
                yield position, chosen[row]

    def empty(self) -> Reach:
        """The same principals, who may do nothing."""
        return replace(self, grants=(), matrix=self.matrix[:0], joined={}, guests=())

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        joined = sum(rows.nbytes for rows in self.joined.values())
        guests = sum(each.nbytes for each in self.guests)
        own = self.crowd.nbytes + self.matrix.nbytes + joined + 2_000 * len(self.grants)
        return own + guests


def take(domain: Domain, *, at: datetime | None = None, only: Sequence[int] | None = None) -> Reach:
    """What everybody may do in a domain at a moment (now by default).

    Roles, policies and appointments are those of the moment; attributes, event types and who has
    been revoked are as they are now. The answer is kept until the domain's revision changes or
    something begins or ends by itself.

    Args:
        only: primary keys of the principals that matter: everybody else may be left out.
    """
    moment = at or timezone.now()
    known = remembered.find(domain, moment)
    if known is not None:
        return known
    if only is not None:
        return _read(domain, moment, only)
    return remembered.keep(domain, moment, lambda fresh: _read(fresh, moment, None))


def _read(domain: Domain, at: datetime, only: Sequence[int] | None) -> Reach:
    spoken = remembered.language(domain, at)
    rules = selectors.rules_of(selectors.effective_rows(domain), spoken, at)
    people = crowd.gather(domain, roles=_roles(rules), at=at, only=only)
    visitors = guests.gather(domain, spoken.subject, at=at, only=only)
    until = selectors.next_boundary(domain, after=at) if only is None else None
    return _together(people, visitors, rules, spoken, at=at, until=until)


def _roles(rules: Iterable[Rule]) -> set[str]:
    """Names of the roles that rules ask about."""
    ways = [way for rule in rules for way in rule.conjunctions]
    names = {each.attribute for way in ways for each in way.subject}
    names |= {join.left for way in ways for join in way.joins}
    prefix = f"{ROLE}."
    return {
        name.removeprefix(prefix).partition(".")[0] for name in names if name.startswith(prefix)
    }


def _together(
    people: Crowd,
    visitors: Iterable[tuple[Opening, Crowd]],
    rules: Sequence[Rule],
    spoken: Language,
    *,
    at: datetime,
    until: datetime | None,
) -> Reach:
    """The domain's own principals and its guests."""
    parts = []
    for opening, crowded in visitors:
        left = guests.rules(opening, rules, spoken.types)
        parts.append(replace(build(crowded, left, spoken, at, until), opening=opening))
    return replace(build(people, rules, spoken, at, until), guests=tuple(parts))


def build(
    people: Crowd, rules: Iterable[Rule], spoken: Language, at: datetime, until: datetime | None
) -> Reach:
    """Answer the subject's side of every rule for everybody."""
    known = {
        name: tuple(spec.name for spec in spoken.types.attributes(name))
        for name in spoken.types.names
    }
    grants: list[Grant] = []
    rows: list[columns.Mask] = []
    for rule in rules:
        for way in rule.conjunctions:
            types = _possible(rule, way, known)
            fitting = _agreeing(people, way)
            if types and fitting.any():
                grants.append(Grant(rule, way, types))
                rows.append(fitting)
    several = len(people.owners) > people.count
    joined = {i: rows[i] for i, grant in enumerate(grants) if grant.way.joins and several}
    matrix = np.empty((len(grants), (people.count + 7) // 8), dtype=np.uint8)
    for index, fitting in enumerate(rows):
        matrix[index] = people.holders(fitting)
    return Reach(people, tuple(grants), matrix, known, at, until, joined)


def _possible(
    rule: Rule, way: PolicyConjunction, known: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The types whose events have every attribute that a conjunction tests."""
    needed = {each.attribute for each in way.event if each.op != "!has"}
    needed |= {join.right for join in way.joins}
    wanted = {name.removeprefix(EVENT) for name in needed}
    return {name: held for name, held in rule.types.items() if wanted.issubset(known[name])}


def _agreeing(people: Crowd, way: PolicyConjunction) -> columns.Mask:
    """Rows that meet a conjunction for some event at all: what joins tie together can be equal."""
    found = people.fitting(way)
    tied: dict[str, Join] = {}
    for join in way.joins:
        for literal in way.event:
            if literal.attribute == join.right:
                found &= people.values.mask(Literal(join.left, literal.op, literal.value))
        other = tied.setdefault(join.right, join)
        if other is not join:
            found &= people.values.equal(join.left, other.left)
    return found
