"""What the planner is asked: attributes, risky sets, colluding overlays, costs.

A set of attributes is risky when they identify somebody together. The risk only grows as
attributes are added, so the least sets say it all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from policyengine.attributes import shown, unknown
from policyengine.errors import InputError
from policyengine.privacy.plan import MAX_ATTRIBUTES, check_attribute
from policyengine.privacy.protections import check_class

MAX_RISKY: Final = 10_000
"""Most risky sets."""
MAX_FILTERS: Final = 1_000
"""Most filters whose over-delivery is weighed."""
MAX_UNITS: Final = 2**50
"""Greatest sum of costs or weights, counted in the greatest unit that measures all of them."""

Number = int | float | Fraction


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of subscribers: a conjunction that is split when its attributes are.

    Args:
        attributes: what it tests.
        weight: how often filters of this kind are used.
    """

    attributes: frozenset[str]
    weight: Number = 1


@dataclass(frozen=True, slots=True)
class SplitTask:
    """A checked question to the planner.

    Args:
        attributes: all of them, in the caller's order.
        risky: the least risky sets, shortest first.
        colluding: how many overlays may collude.
        max_overlays: how many there are.
        costs: cost of encryption of each attribute.
        filters: what over-delivery is weighed for.
    """

    attributes: tuple[str, ...]
    risky: tuple[frozenset[str], ...]
    colluding: int
    max_overlays: int
    costs: Mapping[str, Fraction]
    filters: tuple[tuple[frozenset[str], Fraction], ...] = field(default=())

    @property
    def usable(self) -> int:
        """How many overlays can be of use: one for each attribute, at least one."""
        return max(1, min(self.max_overlays, len(self.attributes)))

    def must_encrypt(self, risky: frozenset[str]) -> bool:
        """Tell whether a risky set cannot be spread over more overlays than collude."""
        return min(len(risky), self.usable) <= self.colluding


def split_task(
    attributes: Sequence[str],
    risky: Iterable[Collection[str]],
    *,
    colluding: int,
    max_overlays: int,
    encrypt_cost: Mapping[str, Number] | None = None,
    filters: Iterable[Filter] = (),
) -> SplitTask:
    """Check a question to the planner and bring it to its least form.

    Args:
        attributes: names, once each.
        risky: sets of attributes that nobody may see together; doubles and supersets of
            others say nothing new.
        colluding: how many overlays may put together what they see; 0 asks for nothing.
        max_overlays: how many overlays there are, at least 1.
        encrypt_cost: cost of encrypting an attribute, 0 or more; 1 where left out.
        filters: what subscribers ask for.

    Raises:
        InputError: `unknown` (with the nearest) for a name that is no attribute, `invalid`
            for doubles, empty risky sets, negative numbers, `too-large` beyond the limits.
    """
    if len(attributes) > MAX_ATTRIBUTES:
        raise _too_many(MAX_ATTRIBUTES, "attributes")
    for name in attributes:
        check_attribute(name, "attributes")
    if len(set(attributes)) != len(attributes):
        twice = next(name for name in attributes if attributes.count(name) > 1)
        raise InputError("invalid", f"attribute {shown(twice)} is named twice", where="attributes")
    if max_overlays < 1:
        raise InputError("invalid", "there is at least one overlay", where="max_overlays")
    known = frozenset(attributes)
    costs = dict.fromkeys(attributes, Fraction(1))
    for name, cost in (encrypt_cost or {}).items():
        _check_known(name, known, "encrypt_cost")
        costs[name] = exact(cost, "encrypt_cost")
    whole_units(costs.values(), "encrypt_cost")
    return SplitTask(
        tuple(attributes),
        minimal_sets(check_risky(risky, known, colluding)),
        colluding,
        max_overlays,
        costs,
        _filters(filters, known),
    )


def check_risky(
    risky: Iterable[Collection[str]], known: Collection[str], colluding: int
) -> tuple[frozenset[str], ...]:
    """Check risky sets against the attributes that there are.

    Raises:
        InputError: `unknown`, with the nearest, for a name that is no attribute; `invalid`
            for an empty set or `colluding` below 0; `too-large` for too many sets.
    """
    if colluding < 0:
        raise InputError("invalid", "no fewer than 0 overlays collude", where="colluding")
    sets: list[frozenset[str]] = []
    for one in risky:
        if len(sets) == MAX_RISKY:
            raise _too_many(MAX_RISKY, "risky")
        if not one:
            raise InputError("invalid", "an empty set of attributes is never risky", where="risky")
        for name in one:
            _check_known(name, known, "risky")
        sets.append(frozenset(one))
    return tuple(sets)


def minimal_sets(sets: Iterable[frozenset[str]]) -> tuple[frozenset[str], ...]:
    """Leave out doubles and sets that contain another one; shortest first, then by name.

    A plan that protects a set protects all sets that contain it.
    """
    by_first: dict[str, list[frozenset[str]]] = {}
    kept: list[frozenset[str]] = []
    for one in sorted(set(sets), key=lambda one: (len(one), sorted(one))):
        # A kept set that this one contains has its first member among this one's.
        if any(other <= one for name in one for other in by_first.get(name, ())):
            continue
        by_first.setdefault(min(one), []).append(one)
        kept.append(one)
    return tuple(kept)


def risky_by_class(classes: Mapping[str, str]) -> tuple[frozenset[str], ...]:
    """Return the risky sets that the classes alone give, before any data are looked at.

    An identifying or confidential attribute is risky by itself, the quasi-identifying ones
    all together (paper 004, section 4.4).

    Args:
        classes: attribute -> class.

    Raises:
        InputError: `unknown` for a class that does not exist.
    """
    for pia in classes.values():
        check_class(pia)
    alone = [
        frozenset((name,))
        for name, pia in sorted(classes.items())
        if pia in ("identifying", "confidential")
    ]
    quasi = frozenset(name for name, pia in classes.items() if pia == "quasi-identifying")
    return (*alone, quasi) if len(quasi) > 1 else tuple(alone)


def exact(number: Number, where: str) -> Fraction:
    """Return a cost or a weight as the fraction that its shortest decimal text says.

    Raises:
        InputError: `invalid` for a negative or endless number, `too-large` for one that
            no plan can be counted in.
    """
    if (isinstance(number, float) and not math.isfinite(number)) or number < 0:
        raise InputError("invalid", f"{shown(number)} is no cost; expected 0 or more", where=where)
    if number > MAX_UNITS:
        raise InputError("too-large", "the number is too large", where=where)
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def whole_units(numbers: Iterable[Fraction], where: str) -> tuple[int, ...]:
    """Count fractions in the greatest unit that measures all of them.

    Raises:
        InputError: `too-large` when their sum is over `MAX_UNITS` units.
    """
    every = tuple(numbers)
    scale = math.lcm(*(number.denominator for number in every))
    units = [int(number * scale) for number in every]
    shared = math.gcd(*units) or 1
    counted = tuple(unit // shared for unit in units)
    if sum(counted) > MAX_UNITS:
        raise InputError("too-large", "the numbers are too far apart to be added up", where=where)
    return counted


def _filters(
    filters: Iterable[Filter], known: frozenset[str]
) -> tuple[tuple[frozenset[str], Fraction], ...]:
    weights: dict[frozenset[str], Fraction] = {}
    for number, one in enumerate(filters):
        if number == MAX_FILTERS:
            raise _too_many(MAX_FILTERS, "filters")
        for name in one.attributes:
            _check_known(name, known, "filters")
        weight = exact(one.weight, "filters")
        if len(one.attributes) > 1 and weight:  # one attribute is never split
            weights[one.attributes] = weights.get(one.attributes, Fraction(0)) + weight
    whole_units(weights.values(), "filters")
    return tuple(sorted(weights.items(), key=lambda item: sorted(item[0])))


def _check_known(name: str, known: Collection[str], where: str) -> None:
    if name not in known:
        raise unknown("attribute", name, known, where=where)


def _too_many(limit: int, where: str) -> InputError:
    return InputError("too-large", f"at most {limit} {where.replace('_', ' ')}", where=where)
