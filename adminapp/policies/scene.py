"""What findings are made from: a domain's policies and everything that they say, read once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from adminapp.policies.access import describe
from adminapp.policies.grants import Grant, advertising, grants
from adminapp.policies.language import Language, PolicyConjunction
from adminapp.policies.models import Policy
from policyengine.attributes import Schema
from policyengine.errors import InputError


@dataclass(frozen=True)
class Scene:
    """The effective model of a domain, as far as findings ask for it.

    Args:
        rows: its policies, inherited ones included.
        spoken: its language.
        now: the moment.
    """

    rows: tuple[Policy, ...]
    spoken: Language
    now: datetime

    @cached_property
    def live(self) -> tuple[Policy, ...]:
        """Policies that are in force, or will be."""
        return tuple(
            row
            for row in self.rows
            if row.enabled and (row.valid_until is None or row.valid_until > self.now)
        )

    @property
    def unfit(self) -> dict[str, str]:
        """Why policies do not fit the model, by name."""
        return self._judged[1]

    @property
    def grants(self) -> dict[str, tuple[Grant, ...]]:
        """What the others permit whatever the environment says, by name."""
        return self._judged[0]

    @cached_property
    def fit(self) -> tuple[Policy, ...]:
        """Live policies that fit the model."""
        return tuple(row for row in self.live if row.name in self.grants)

    @cached_property
    def _judged(self) -> tuple[dict[str, tuple[Grant, ...]], dict[str, str]]:
        timeless = self.spoken.timeless()
        advertised = advertising(self.rows, timeless, self.live)
        held: dict[str, tuple[Grant, ...]] = {}
        unfit: dict[str, str] = {}
        for row in self.live:
            try:
                held[row.name] = grants(row, timeless, advertised)
            except InputError as error:
                unfit[row.name] = error.message
        return held, unfit

    def ways(self, row: Policy) -> tuple[PolicyConjunction, ...]:
        """The normal form of a policy's own condition."""
        return self.spoken.ways(row.expression, row.event_type.name)

    def schema(self, kind: str, *parts: Iterable[PolicyConjunction]) -> Schema:
        """Types of all that some normal forms name; they are about one type's family."""
        return self.spoken.known((way for part in parts for way in part), kind)

    def related(self, one: Policy, other: Policy) -> bool:
        """Whether two policies can be about the same events at the same time."""
        return (
            one.action == other.action
            and other.event_type.name in self.family(one.event_type.name)
            and overlaps(one, other)
        )

    def above(self, kind: str) -> tuple[str, ...]:
        """A type and those above it."""
        return (kind, *self.spoken.types.ancestors(kind))

    def family(self, kind: str) -> frozenset[str]:
        """A type, those above it and those below it: the types that share events with it."""
        if kind not in self._families:
            below = self.spoken.types.subtree(kind)
            self._families[kind] = frozenset({*self.above(kind), *below})
        return self._families[kind]

    @cached_property
    def _families(self) -> dict[str, frozenset[str]]:
        return {}

    def top(self, one: str, other: str) -> str:
        """Of two types of one family the upper one, which knows every attribute."""
        return other if other in self.above(one) else one


def overlaps(one: Policy, other: Policy) -> bool:
    """Whether two policies are valid at some moment together."""
    starts = [row.valid_from for row in (one, other) if row.valid_from]
    ends = [row.valid_until for row in (one, other) if row.valid_until]
    return not starts or not ends or max(starts) < min(ends)


def covers(outer: Policy, inner: Policy) -> bool:
    """Whether one policy is valid whenever another is."""
    begins = outer.valid_from is None or (
        inner.valid_from is not None and outer.valid_from <= inner.valid_from
    )
    ends = outer.valid_until is None or (
        inner.valid_until is not None and outer.valid_until >= inner.valid_until
    )
    return begins and ends


def as_often(outer: Policy, inner: Policy) -> bool:
    """Whether one policy lets somebody publish at least as often as another does."""
    wider, narrower = _limit(outer), _limit(inner)
    if wider is None:
        return True
    return narrower is not None and wider[0] >= narrower[0] and wider[1] <= narrower[1]


def _limit(row: Policy) -> tuple[int, int] | None:
    if row.limit_count is None or row.limit_seconds is None:
        return None
    return row.limit_count, row.limit_seconds


def including(
    held: Iterable[Grant], attribute: str | None, above: Collection[str]
) -> Iterator[PolicyConjunction]:
    """The ways in which grants permit an attribute, None the event as such.

    Args:
        above: the type that it is about, and those above it.
    """
    for grant in held:
        if grant.root in above and (
            attribute is None or grant.attributes is None or attribute in grant.attributes
        ):
            yield from grant.conjunctions


def who(way: PolicyConjunction) -> str:
    """Whom a way means and when, in words."""
    found = describe((*way.subject, *way.environment, *way.joins, *way.event))
    return found.removeprefix("where ") or "everybody"


DONE = {"publish": "written", "subscribe": "read"}
"""What an action lets happen to attributes."""
