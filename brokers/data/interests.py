"""What an agent's own clients want, in few words, and what others said that theirs want.

Source: paper 002, sections 3.1 and 4.3: subscriptions are reduced by coverage and merging
before they travel, a filter travels in clear or under any of a set of keys (formula 3),
and whoever cannot evaluate a filter forwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from brokers.data.subscriptions import Subscription, compile_filter
from brokers.snapshot import DomainSnapshot
from policyengine.attributes import And, Expression, Value, parse, to_text
from policyengine.attributes.syntax import names
from policyengine.bundles import (
    Announcement,
    Interest,
    InterestFilter,
    open_expression,
    seal_expression,
)
from policyengine.errors import InputError, PortcullisError
from policyengine.events import Filter, covers, may_hold, merge, merge_exactly
from policyengine.events import Subscription as Wanted
from policyengine.events.implication import conjuncts
from policyengine.primitives.rand import RandomSource

MOST_FILTERS = 32
"""Distinct filters on one type beyond which an agent just asks for the whole type."""
MOST_INTERESTS = 1024
"""Interests beyond which an agent just asks for whole types."""
_MOST_CONDITIONS = 64
_LONGEST = 16_384


class Reducer:
    """Reduces subscriptions to the fewest that stand for all; remembers what did not change.

    What it returns may ask for more than the subscriptions do, never for less.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, tuple[Wanted, ...]]] = {}

    def wanted(
        self, snapshot: DomainSnapshot, subscriptions: Iterable[Subscription]
    ) -> tuple[Wanted, ...]:
        """Return what the agent's own clients want of the events of a domain.

        Args:
            snapshot: the domain's policy in force.
            subscriptions: of this domain; those of clients whose home is elsewhere now,
                and of types that do not exist, are left out.
        """
        texts: dict[str, set[str]] = defaultdict(set)
        for one in subscriptions:
            if one.handle in snapshot.clients and one.type in snapshot.specs:
                texts[one.type].add(one.filter)
        whole = {name for name, asked in texts.items() if _everything(asked)}
        found: dict[str, tuple[Wanted, ...]] = {}
        for name in _super_types_first(snapshot, texts):
            above = snapshot.types.ancestors(name)
            if whole.intersection(above):
                continue  # the super-type is asked for as a whole
            if name in whole:
                found[name] = (Wanted(name),)
                continue
            general = tuple(one for kind in above for one in found.get(kind, ()))
            found[name] = self._of_type(snapshot, name, frozenset(texts[name]), general)
        if sum(map(len, found.values())) > MOST_INTERESTS:
            return tuple(Wanted(name) for name, each in found.items() if each)
        return tuple(one for each in found.values() for one in each)

    def _of_type(
        self,
        snapshot: DomainSnapshot,
        name: str,
        texts: frozenset[str],
        general: tuple[Wanted, ...],
    ) -> tuple[Wanted, ...]:
        state = (snapshot.digest, texts, general)
        known = self._known.get(name)
        if known is None or known[0] != state:
            types = snapshot.types
            asked = [_wanted(snapshot, name, text) for text in sorted(texts)]
            few = merge_exactly(types, merge(types, dict(enumerate(asked))).kept.values())
            # What is asked for of a super-type stands for what it covers of this one.
            left = (one for one in few if not any(covers(types, above, one) for above in general))
            known = (state, tuple(left))
            self._known[name] = known
        return known[1]


def _super_types_first(snapshot: DomainSnapshot, names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (len(snapshot.types.ancestors(name)), name))


def _everything(texts: set[str]) -> bool:
    return "" in texts or len(texts) > MOST_FILTERS


def _wanted(snapshot: DomainSnapshot, name: str, text: str) -> Wanted:
    try:
        expression = compile_filter(text, snapshot.specs[name])
    except InputError:
        expression = None  # it does not fit the types any more: the home agent judges it
    if expression is None:
        return Wanted(name)
    # One filter for all that is in clear and one for each set of keys, so that two
    # subscriptions that differ in one attribute can be merged.
    terms: dict[frozenset[str], list[Expression]] = defaultdict(list)
    for term in conjuncts([expression]):
        keys = _keys(snapshot, name, term)
        if keys is not None and len(to_text(term)) < _LONGEST:
            terms[keys].append(term)
    filters = [Filter(_all(found), keys) for keys, found in terms.items()]
    short = [one for one in filters if len(to_text(one.expression)) < _LONGEST]
    return Wanted(name, tuple(short[:_MOST_CONDITIONS]))


def _all(terms: list[Expression]) -> Expression:
    return terms[0] if len(terms) == 1 else And(tuple(terms))


def _keys(snapshot: DomainSnapshot, name: str, term: Expression) -> frozenset[str] | None:
    """The keys that each show all that a term tests; none for one in clear, None if it cannot go.

    INVARIANT: what is tested under keys never travels in clear.
    """
    tested = names(term)
    protected = [spec for spec in snapshot.specs[name] if spec.name in tested and spec.keys]
    if not protected:
        return frozenset()
    common = set.intersection(*(set(spec.keys) for spec in protected))
    return frozenset(common & set(snapshot.sealing_keys())) or None


def written(
    snapshot: DomainSnapshot, wanted: Iterable[Wanted], *, random: RandomSource
) -> tuple[Interest, ...]:
    """Write interests as they travel, conditions on protected attributes under their keys.

    Args:
        snapshot: the domain's policy in force.
        wanted: from `Reducer.wanted`.
        random: source of nonces.
    """
    keys = snapshot.sealing_keys()

    def condition(one: Filter) -> InterestFilter:
        text = to_text(one.expression)
        if not one.keys:
            return InterestFilter(text)
        sealing = {name: keys[name] for name in sorted(one.keys)}
        sealed = seal_expression(
            text, sealing, domain=snapshot.domain, agent=snapshot.agent, random=random
        )
        return InterestFilter("", sealed)

    return tuple(
        Interest(one.type, tuple(condition(each) for each in one.filters)) for one in wanted
    )


@dataclass(frozen=True)
class HeldInterest:
    """What another agent said that it wants, read with the keys held here.

    Args:
        scope: the types that it spoke of; of all others it may want everything.
        by_type: event type -> for each interest in it the conditions that can be read.
        always: whether it wants something of which this agent knows no type.
    """

    scope: frozenset[str]
    by_type: Mapping[str, tuple[tuple[Expression, ...], ...]]
    always: bool

    @classmethod
    def read(cls, snapshot: DomainSnapshot, announcement: Announcement) -> HeldInterest:
        """Read an announcement against the policy in force.

        Args:
            snapshot: the domain's policy in force here.
            announcement: verified.
        """
        by_type: dict[str, list[tuple[Expression, ...]]] = defaultdict(list)
        always = False
        for interest in announcement.interests:
            if interest.type not in snapshot.specs:
                always = True
                continue
            conditions = (
                _read(snapshot, announcement.agent, interest.type, one) for one in interest.filters
            )
            readable = tuple(one for one in conditions if one is not None)
            for name in snapshot.types.subtree(interest.type):
                by_type[name].append(readable)
        merged = {name: tuple(found) for name, found in by_type.items()}
        return cls(frozenset(announcement.scope), merged, always)

    def may_want(
        self, event_type: str, values: Callable[[], Mapping[str, Value]], *, whole: bool
    ) -> bool:
        """Whether the agent may deliver an event to a client of its own.

        Args:
            event_type: the event's type.
            values: what can be read of the event here; asked only where conditions count.
            whole: False for a part of a split event, whose filters only the client meets.
        """
        if self.always or event_type not in self.scope:
            return True
        return any(
            not (whole and conditions) or all(may_hold(one, values()) for one in conditions)
            for conditions in self.by_type.get(event_type, ())
        )


def _read(
    snapshot: DomainSnapshot, agent: str, name: str, condition: InterestFilter
) -> Expression | None:
    try:
        text: str | None = condition.expression
        if condition.sealed:
            text = open_expression(
                condition.sealed, snapshot.opening_keys(), domain=snapshot.domain, agent=agent
            )
        return None if text is None else parse(text, snapshot.types.schema(name))
    except PortcullisError:
        return None  # unreadable: it may be met
