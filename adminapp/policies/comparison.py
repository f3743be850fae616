"""Who gains and who loses what between two states of a domain.

Only principals whose grants differ are looked at, and of their grants only those that have to do
with what differs. Principals with the same grants before and after are compared once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from adminapp.policies import columns
from adminapp.policies.access import (
    Access,
    Condition,
    Holding,
    Slot,
    Slots,
    gained,
    gained_count,
    gained_lines,
    slots,
)
from policyengine.attributes import Literal

if TYPE_CHECKING:
    from adminapp.policies.reach import Reach
    from adminapp.policies.ways import Grant

_BLOCK = 2048  # principals whose grants are read at a time
_KEPT = 65_536  # results that are kept
_OWN = "\0"  # begins what stands for a principal's own value; no value can hold it

_Gain: TypeAlias = Mapping[Slot, Mapping[str, list[Condition]]]


@dataclass(frozen=True)
class ReachChange:
    """How access differs.

    Args:
        gains: what principals can do after and could not before: the first so many lines.
        losses: what they could do before and cannot after.
        gained: how many (principal, action, type, attribute) there are in all gains. A type of
            which no attribute is concerned counts once.
        lost: the same of all losses.
    """

    gains: tuple[Access, ...] = ()
    losses: tuple[Access, ...] = ()
    gained: int = 0
    lost: int = 0


def compare(before: Reach, after: Reach, *, limit: int = 1000) -> ReachChange:
    """How access differs between two states.

    Args:
        limit: the most lines of gains, and of losses.
    """
    gains, losses = _Ledger(limit), _Ledger(limit)
    for old, new in _parts(before, after):
        _compare(old, new, gains, losses)
    return ReachChange(tuple(gains.lines), tuple(losses.lines), gains.count, losses.count)


def _parts(before: Reach, after: Reach) -> Iterable[tuple[Reach, Reach]]:
    """The domain's own principals, then guests by agreement; nobody has anything without one."""
    yield before, after
    old = {each.number: each for each in before.guests}
    new = {each.number: each for each in after.guests}
    for agreement in sorted(old.keys() | new.keys()):
        one, other = old.get(agreement), new.get(agreement)
        some = one or other
        assert some is not None  # every agreement is on one side at least
        yield one or some.empty(), other or some.empty()


def _compare(before: Reach, after: Reach, gains: _Ledger, losses: _Ledger) -> None:
    people = _People(before, after)
    grants = [grant for reach in (before, after) for grant in reach.grants]
    keys = {key: index for index, key in enumerate(dict.fromkeys(each.key for each in grants))}
    sides = (_Side(before, keys, people, 0), _Side(after, keys, people, 1))
    examined = _Examined(sides, people)
    kept: dict[object, tuple[_Gain, _Gain]] = {}
    for place, pair in examined.pairs():
        plain = examined.symbolic and not people.several(place)
        texts = tuple(
            () if plain else side.bound(held, place) for side, held in zip(sides, pair, strict=True)
        )
        signature = (pair[0].tobytes(), pair[1].tobytes(), texts)
        found = kept.get(signature)
        if found is None:
            found = examined.difference(pair, place, symbolic=plain)
            if len(kept) < _KEPT:
                kept[signature] = found
        if plain and not (gains.full and losses.full):
            shown = examined.difference(pair, place, symbolic=False)
        else:
            shown = found
        gains.add(people.identity(place), found[0], shown[0])
        losses.add(people.identity(place), found[1], shown[1])


class _Ledger:
    """Lines up to a limit, and a count of everything."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.lines: list[Access] = []
        self.count = 0

    @property
    def full(self) -> bool:
        return len(self.lines) >= self._limit

    def add(self, who: tuple[str, str, str, str], found: _Gain, shown: _Gain) -> None:
        self.count += gained_count(found)
        if found and not self.full:
            made = [line.of(*who) for line in gained_lines(shown)]
            self.lines += made[: self._limit - len(self.lines)]


class _People:
    """The principals of both states in one order, that of their names."""

    def __init__(self, before: Reach, after: Reach) -> None:
        self._crowds = (before.crowd, after.crowd)
        self._agreement = after.agreement
        self.same = before.crowd.pks == after.crowd.pks
        if self.same:
            same = np.arange(before.crowd.count)
            self.positions = (same, same)
        else:
            self.positions = self._merged()
        self.count = len(self.positions[0])

    def _merged(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        places = [{pk: at for at, pk in enumerate(crowd.pks)} for crowd in self._crowds]
        named = {pk: crowd.names[at] for crowd in self._crowds for at, pk in enumerate(crowd.pks)}
        every = sorted(named, key=lambda pk: (named[pk], pk))
        first, second = (
            np.array([place.get(pk, -1) for pk in every], dtype=np.intp) for place in places
        )
        return first, second

    def identity(self, place: int) -> tuple[str, str, str, str]:
        """Name, handle, domain and agreement of a principal, as they are after, if it is there."""
        at, crowd = int(self.positions[1][place]), self._crowds[1]
        if at < 0:
            at, crowd = int(self.positions[0][place]), self._crowds[0]
        return crowd.names[at], crowd.handles[at], crowd.domain, self._agreement

    def several(self, place: int) -> bool:
        """Whether the principal has other values before and after, or several at once."""
        return bool(self.unlike[place])

    @cached_property
    def unlike(self) -> NDArray[np.bool_]:
        """Principals whose values in joins must be looked at one by one."""
        return np.zeros(self.count, dtype=np.bool_)


class _Side:
    """One of the two states, its grants numbered as in both and its principals in one order."""

    def __init__(
        self, reach: Reach, keys: Mapping[object, int], people: _People, number: int
    ) -> None:
        self.reach = reach
        self.positions = people.positions[number]
        self.originals: dict[int, list[int]] = {}
        self._same = people.same
        width = (people.count + 7) // 8
        self.matrix = np.zeros((len(keys), width), dtype=np.uint8)
        for index, grant in enumerate(reach.grants):
            key = keys[grant.key]
            self.originals.setdefault(key, []).append(index)
            self.matrix[key] |= self._ordered(reach.matrix[index])

    def _ordered(self, mask: columns.Mask) -> columns.Mask:
        if self._same:
            return mask
        count = self.reach.crowd.count
        bits = np.append(np.unpackbits(mask, count=count).astype(np.bool_), False)
        return np.packbits(bits[self.positions])

    def grant(self, key: int) -> Grant | None:
        """What stands under a number here, if anything does."""
        found = self.originals.get(key)
        return None if found is None else self.reach.grants[found[0]]

    def holdings(self, held: Iterable[int], place: int, *, symbolic: bool) -> list[Holding]:
        """What a principal has here."""
        position = int(self.positions[place])
        found: list[Holding] = []
        for key in held:
            grant = self.grant(int(key))
            assert grant is not None  # nobody holds what is not here
            if symbolic and grant.way.joins:
                found.append(Holding("", grant.rule.action, grant.types, _own(grant)))
            else:
                found += self.reach.holdings(self.originals[int(key)], position)
        return found

    def bound(self, held: Iterable[int], place: int) -> tuple[Condition, ...]:
        """The conditions that are this principal's own."""
        position = int(self.positions[place])
        return tuple(
            holding.condition
            for key in held
            if self.reach.grants[self.originals[int(key)][0]].way.joins
            for holding in self.reach.holdings(self.originals[int(key)], position)
        )


class _Examined:
    """Which principals and grants differ."""

    def __init__(self, sides: tuple[_Side, _Side], people: _People) -> None:
        self._sides = sides
        self._people = people
        self._grants = _either(sides)
        unlike = self._unlike()
        changed = sides[0].matrix ^ sides[1].matrix
        for key, grant in enumerate(self._grants):
            if grant.way.joins:
                changed[key] |= np.packbits(unlike) & (sides[0].matrix[key] | sides[1].matrix[key])
        differing = np.flatnonzero(changed.any(axis=1))
        self._concerned: set[Slot] = {
            (self._grants[key].rule.action, name)
            for key in differing
            for name in self._grants[key].types
        }
        self._relevant = np.array(
            [key for key, grant in enumerate(self._grants) if self._concerns(grant)], dtype=np.intp
        )
        anybody = np.bitwise_or.reduce(changed, axis=0)
        self._places = columns.positions_of(anybody, people.count)

    def _concerns(self, grant: Grant) -> bool:
        return any((grant.rule.action, name) in self._concerned for name in grant.types)

    def _unlike(self) -> NDArray[np.bool_]:
        """Principals whose values in joins differ between the states, or are several."""
        unlike = self._people.unlike
        names = {join.left for grant in self._grants for join in grant.way.joins}
        first, second = self._sides
        for name in names:
            one = first.reach.crowd.values.column(name)
            other = second.reach.crowd.values.column(name)
            unlike |= columns.differ(one, first.positions, other, second.positions)
        for side in self._sides:
            crowd = side.reach.crowd
            further = np.zeros(crowd.count + 1, dtype=np.bool_)
            further[crowd.owners[crowd.count :]] = True
            unlike |= further[side.positions]
        return unlike

    @cached_property
    def symbolic(self) -> bool:
        """Whether conditions can be compared without the values of joins.

        They can when an attribute of the event is tied to one attribute of the subject only, and
        no policy compares it with a value of its own: equal conditions then look equal.
        """
        tied: dict[str, set[str]] = {}
        fixed: set[str] = set()
        for key in self._relevant:
            way = self._grants[key].way
            fixed.update(each.attribute for each in way.event if each.op == "==")
            for join in way.joins:
                tied.setdefault(join.right, set()).add(join.left)
        return not fixed & tied.keys() and all(len(names) == 1 for names in tied.values())

    def pairs(self) -> Iterable[tuple[int, tuple[NDArray[np.intp], NDArray[np.intp]]]]:
        """For each principal that differs what it has in the one state and in the other."""
        for start in range(0, len(self._places), _BLOCK):
            block = self._places[start : start + _BLOCK]
            old, new = (self._having(side, block) for side in self._sides)
            for place, first, second in zip(block.tolist(), old, new, strict=True):
                yield place, (self._relevant[first], self._relevant[second])

    def _having(self, side: _Side, block: NDArray[np.intp]) -> NDArray[np.bool_]:
        bits = side.matrix[self._relevant[:, None], block >> 3] >> (7 - (block & 7)) & 1
        return np.ascontiguousarray(bits.T, dtype=np.bool_)

    def difference(
        self, pair: tuple[NDArray[np.intp], NDArray[np.intp]], place: int, *, symbolic: bool
    ) -> tuple[_Gain, _Gain]:
        """What a principal gains and loses."""
        old, new = (
            self._slots(side.holdings(held, place, symbolic=symbolic))
            for side, held in zip(self._sides, pair, strict=True)
        )
        return gained(old, new), gained(new, old)

    def _slots(self, holdings: list[Holding]) -> Slots:
        return slots(holdings, self._concerned)


def _either(sides: tuple[_Side, _Side]) -> list[Grant]:
    found: list[Grant] = []
    for key in range(len(sides[0].matrix)):
        grant = sides[0].grant(key) or sides[1].grant(key)
        assert grant is not None  # every number stands for a grant of one of them
        found.append(grant)
    return found


def _own(grant: Grant) -> Condition:
    own = (Literal(join.right, "==", f"{_OWN}{join.left}") for join in grant.way.joins)
    return tuple(dict.fromkeys((*grant.way.event, *own)))
