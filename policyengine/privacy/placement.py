"""Where attributes stand while a plan is being made: the greedy plan, its cost, its bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TypeAlias

from policyengine.privacy.plan import SplitPlan
from policyengine.privacy.risky import SplitTask

Placement: TypeAlias = dict[str, int | None]
"""Attribute -> number of its overlay; None is encrypted."""


def to_plan(placement: Placement) -> SplitPlan:
    """Make a plan: overlays sorted by their attributes, empty ones left out."""
    groups: dict[int, set[str]] = {}
    for name, overlay in placement.items():
        if overlay is not None:
            groups.setdefault(overlay, set()).add(name)
    encrypted = frozenset(name for name, overlay in placement.items() if overlay is None)
    ordered = sorted(groups.values(), key=sorted)
    return SplitPlan(tuple(frozenset(group) for group in ordered), encrypted)


def cost_of(task: SplitTask, placement: Mapping[str, int | None]) -> Fraction:
    """Return what is paid for encryption."""
    encrypted = (task.costs[name] for name, overlay in placement.items() if overlay is None)
    return sum(encrypted, Fraction(0))


def overlays_of(placement: Mapping[str, int | None]) -> int:
    """Return how many overlays carry something in clear."""
    return len({overlay for overlay in placement.values() if overlay is not None})


def over_delivery(task: SplitTask, placement: Mapping[str, int | None]) -> Fraction:
    """Return how many parts too many are delivered, weighted.

    A filter over attributes of several overlays is tested on each of them alone, so that
    each delivers parts which the others' tests would have held back.
    """
    total = Fraction(0)
    for attributes, weight in task.filters:
        touched = {placement[name] for name in attributes} - {None}
        total += weight * max(0, len(touched) - 1)
    return total


def rank(
    task: SplitTask, placement: Mapping[str, int | None]
) -> tuple[Fraction, int, Fraction, int]:
    """Return what plans are compared by, lower first.

    Cost of encryption, number of overlays, over-delivery, number of encrypted attributes.
    """
    hidden = sum(overlay is None for overlay in placement.values())
    return (
        cost_of(task, placement),
        overlays_of(placement),
        over_delivery(task, placement),
        hidden,
    )


def least_cost(task: SplitTask) -> Fraction:
    """Return a bound from below: risky sets that no spreading helps and that share nothing."""
    taken: set[str] = set()
    bound = Fraction(0)
    for one in task.risky:
        if task.must_encrypt(one) and taken.isdisjoint(one):
            taken |= one
            bound += min(task.costs[name] for name in one)
    return bound


def greedy(task: SplitTask) -> Placement:
    """Make a good plan quickly; at two colluding overlays and more it over-encrypts.

    Dear and often risky attributes are placed first, each on the first overlay from which
    all its risky sets can still be spread far enough; else it is encrypted. At the end
    whatever turns out not to need it is decrypted again.
    """
    around = _around(task)
    placement: Placement = dict.fromkeys(_hitting(task), None)
    left = [name for name in task.attributes if name not in placement]
    for name in sorted(left, key=lambda name: (-task.costs[name], -len(around[name]), name)):
        placement[name] = _place(task, placement, name, around[name])
    return settled(task, placement)


def settled(task: SplitTask, placement: Placement) -> Placement:
    """Decrypt what costs something and turns out not to need it."""
    around, after = _around(task), dict(placement)
    hidden = [name for name, overlay in after.items() if overlay is None and task.costs[name]]
    for name in sorted(hidden, key=lambda name: (-task.costs[name], name)):
        del after[name]
        after[name] = _place(task, after, name, around[name])
    return after


def _around(task: SplitTask) -> dict[str, list[frozenset[str]]]:
    around: dict[str, list[frozenset[str]]] = {name: [] for name in task.attributes}
    for one in task.risky:
        for name in one:
            around[name].append(one)
    return around


def _hitting(task: SplitTask) -> list[str]:
    """Choose attributes to encrypt until each set that no spreading helps has one."""
    left = [one for one in task.risky if task.must_encrypt(one)]
    chosen: list[str] = []
    while left:
        count: dict[str, int] = {}
        for one in left:
            for name in one:
                count[name] = count.get(name, 0) + 1
        best = min(count, key=lambda name: (task.costs[name] / count[name], name))
        chosen.append(best)
        left = [one for one in left if best not in one]
    return chosen


def _place(
    task: SplitTask, placement: Placement, name: str, risky: Iterable[frozenset[str]]
) -> int | None:
    """Return the first overlay that leaves every risky set enough to spread over, or None."""
    forbidden: set[int] = set()
    for one in risky:
        others = [placement.get(other, -1) for other in one if other != name]
        if None in others:
            continue
        touched = {overlay for overlay in others if overlay is not None and overlay >= 0}
        open_places = others.count(-1)
        if len(touched) + open_places + 1 <= task.colluding or task.must_encrypt(one):
            return None
        if len(touched) + open_places <= task.colluding:  # it has to be a new overlay
            forbidden |= touched
    return next((overlay for overlay in range(task.usable) if overlay not in forbidden), None)
