"""Routing tables: only subscriptions that no other one covers need to travel on.

A broker forwards the most general subscriptions and remembers which ones they stand for
(paper 002, section 3.1, after Carzaniga et al.). When a general one leaves, those that it
stood for come back. Beyond coverage, two subscriptions that differ in one filter may be
merged into one; a merger is exact when it matches nothing more than the two did.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from policyengine.attributes import And, Expression, Or, Test, Value
from policyengine.attributes.syntax import TestOp
from policyengine.errors import InputError
from policyengine.events.coverage import Filter, Subscription, covers
from policyengine.events.implication import conjuncts, implies
from policyengine.events.types import EventTypes

Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Change(Generic[Id]):
    """What a step changed among the subscriptions that travel on.

    Args:
        forwarded: those that travel on from now on, in order of arrival.
        withdrawn: those that no longer do.
    """

    forwarded: tuple[Id, ...] = ()
    withdrawn: tuple[Id, ...] = ()


class RoutingTable(Generic[Id]):
    """Subscriptions, and the fewest of them that stand for all.

    Among subscriptions that cover each other the one that came first travels on.

    Args:
        types: the known types.
    """

    def __init__(self, types: EventTypes) -> None:
        self._types = types
        self._all: dict[Id, Subscription] = {}
        self._arrived: dict[Id, int] = {}
        self._under: dict[Id, list[Id]] = {}  # who travels on -> whom it stands for
        self._count = 0

    @property
    def kept(self) -> dict[Id, Subscription]:
        """The subscriptions that travel on, in order of arrival."""
        return {each: self._all[each] for each in self._sorted(self._under)}

    def represented(self, kept: Id) -> tuple[Id, ...]:
        """Return whom a subscription that travels on stands for, in order of arrival.

        Raises:
            InputError: `unknown` when it does not travel on.
        """
        if kept not in self._under:
            raise InputError("unknown", f"`{kept}` does not travel on", where="id")
        return self._sorted(self._under[kept])

    def insert(self, each: Id, subscription: Subscription) -> Change[Id]:
        """Add a subscription.

        Args:
            each: its id.
            subscription: what is asked for.

        Returns:
            Nothing when another one covers it; else itself, and those that it covers.

        Raises:
            InputError: `invalid` for an id that is there already, `unknown` for a type
                that does not exist.
        """
        if each in self._all:
            raise InputError("invalid", f"`{each}` is there already", where="id")
        self._types.spec(subscription.type)
        self._all[each] = subscription
        self._arrived[each] = self._count
        self._count += 1
        return self._place(each)

    def remove(self, each: Id) -> Change[Id]:
        """Take a subscription out; what it alone stood for comes back.

        Args:
            each: its id.

        Raises:
            InputError: `unknown` for an id that is not there.
        """
        if each not in self._all:
            raise InputError("unknown", f"`{each}` is no subscription", where="id")
        del self._all[each], self._arrived[each]
        if each not in self._under:
            for below in self._under.values():
                if each in below:
                    below.remove(each)
            return Change()
        orphans = self._sorted(self._under.pop(each))
        for orphan in orphans:
            self._place(orphan)
        return Change(tuple(one for one in orphans if one in self._under), (each,))

    def _place(self, each: Id) -> Change[Id]:
        subscription = self._all[each]
        for other in self._sorted(self._under):
            if covers(self._types, self._all[other], subscription):
                self._under[other].append(each)
                return Change()
        below = [
            other for other in self._sorted(self._under)
            if covers(self._types, subscription, self._all[other])
        ]  # fmt: skip
        stands_for = [*below]
        for other in below:
            stands_for += self._under.pop(other)  # covered by what is covered
        self._under[each] = stands_for
        return Change((each,), tuple(below))

    def _sorted(self, ids: Iterable[Id]) -> tuple[Id, ...]:
        return tuple(sorted(ids, key=self._arrived.__getitem__))


def merge(types: EventTypes, subscriptions: Mapping[Id, Subscription]) -> RoutingTable[Id]:
    """Build the table of some subscriptions.

    Args:
        types: the known types.
        subscriptions: by id, in order of arrival.

    Raises:
        InputError: `unknown` for a type that does not exist.
    """
    table: RoutingTable[Id] = RoutingTable(types)
    for each, subscription in subscriptions.items():
        table.insert(each, subscription)
    return table


@dataclass(frozen=True, slots=True)
class Merger:
    """One subscription in place of two.

    Args:
        subscription: covers both.
        exact: whether it is certain that it matches nothing that neither matches.
    """

    subscription: Subscription
    exact: bool


def merger(types: EventTypes, first: Subscription, second: Subscription) -> Merger | None:
    """Merge two subscriptions of one type that differ in the tests of one attribute.

    Sets and single values of the attribute become one set; intervals become the interval
    from the lower beginning to the higher end, which is exact when they touch or overlap.

    Args:
        types: the known types.
        first: one subscription.
        second: another one; the two may also cover one another.

    Returns:
        None when they do not differ in one attribute's tests of one filter, under the
        same keys, or these have no simple common form.

    Raises:
        InputError: `unknown` for a type that does not exist.
    """
    for general, special in ((first, second), (second, first)):
        if covers(types, general, special):
            return Merger(general, exact=True)
    rest = [one for one in first.filters if one in second.filters]
    mine = [one for one in first.filters if one not in rest]
    other = [one for one in second.filters if one not in rest]
    if first.type != second.type or len(mine) != 1 or len(other) != 1:
        return None
    if mine[0].keys != other[0].keys:
        return None
    hull = _hull(mine[0].expression, other[0].expression)
    if hull is None:
        return None
    merged = Filter(hull, mine[0].keys)
    both = Or((mine[0].expression, other[0].expression))
    exact = implies([hull], both, types.schema(first.type))
    filters = tuple(merged if one is mine[0] else one for one in first.filters)
    return Merger(Subscription(first.type, filters), exact)


def merge_exactly(
    types: EventTypes, subscriptions: Iterable[Subscription]
) -> tuple[Subscription, ...]:
    """Merge as long as an exact merger of two is left.

    The result matches what the subscriptions together match, no more and no less.

    Args:
        types: the known types.
        subscriptions: in order of arrival.

    Raises:
        InputError: `unknown` for a type that does not exist.
    """
    kept: list[Subscription] = []
    for subscription in subscriptions:
        types.spec(subscription.type)
        new, at = subscription, 0
        while at < len(kept):
            found = merger(types, kept[at], new)
            if found is not None and found.exact:
                new = found.subscription  # it may now merge with one that was passed by
                del kept[at]
                at = 0
            else:
                at += 1
        kept.append(new)
    return tuple(kept)


def _hull(first: Expression, second: Expression) -> Expression | None:
    """Return the simplest expression that both imply, when they differ in one attribute."""
    ours, theirs = list(conjuncts([first])), list(conjuncts([second]))
    common = [term for term in ours if term in theirs]
    differing = [term for term in (*ours, *theirs) if term not in common and isinstance(term, Test)]
    if len(differing) != sum(term not in common for term in (*ours, *theirs)):
        return None  # something else than single tests differs
    left = [term for term in differing if term in ours]
    right = [term for term in differing if term in theirs]
    if not left or not right or len({term.attribute for term in differing}) != 1:
        return None
    joined = _set(left, right) or _interval(left, right)
    return None if joined is None else And((*common, *joined))


def _set(left: list[Test], right: list[Test]) -> list[Test] | None:
    if len(left) != 1 or len(right) != 1 or not {left[0].op, right[0].op} <= {"==", "in"}:
        return None
    members: dict[Value, None] = {}
    for test in (left[0], right[0]):
        values = test.value if isinstance(test.value, tuple) else (test.value,)
        members.update((value, None) for value in values if value is not None)
    return [Test(left[0].attribute, "in", tuple(members))]


def _interval(left: list[Test], right: list[Test]) -> list[Test] | None:
    name = left[0].attribute
    sides = [[_ends(test) for test in tests] for tests in (left, right)]
    if any(ends is None for side in sides for ends in side):
        return None
    joined: list[Test] = []
    for way, ops in enumerate(_OPS):
        # within one side the tightest end counts, of the two sides the loosest
        tight, loose = (max, min) if way == 0 else (min, max)
        set_ends = [[end for ends in side if ends and (end := ends[way])] for side in sides]
        bounds = [tight(own) for own in set_ends if own]
        if len(bounds) == len(sides):
            value, closed = loose(bounds)
            joined.append(Test(name, ops[abs(closed)], value))
    return joined or [Test(name, "has")]


_End: TypeAlias = tuple[Any, int]
"""A number, and 0 for an open end; else -1 for a beginning and 1 for an end that is closed.

So ends at one number are in order: a closed beginning lies before an open one.
"""
_OPS: Final[tuple[tuple[TestOp, TestOp], ...]] = ((">", ">="), ("<", "<="))


def _ends(test: Test) -> tuple[_End | None, _End | None] | None:
    """Return where the numbers of a test begin and end; None for a test of another kind."""
    values = test.value if isinstance(test.value, tuple) else (test.value,)
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) != len(values) or not numbers or isinstance(numbers[0], bool):
        return None
    match test.op:
        case "==" | "in":
            return (min(numbers), -1), (max(numbers), 1)
        case ">" | ">=":
            return (numbers[0], -int(test.op == ">=")), None
        case "<" | "<=":
            return None, (numbers[0], int(test.op == "<="))
        case _:
            return None
