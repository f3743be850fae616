"""The split planner: how to encrypt little, on few overlays, against some that collude.

Paper 004, section 4.4, leaves open how the groups are chosen (and section 2.1 how to need
few overlays). Risk only grows with attributes, so a plan is safe when every least risky set
stands on more overlays than collude, or has an encrypted member.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from policyengine.attributes import shown
from policyengine.errors import InputError
from policyengine.privacy.placement import (
    Placement,
    cost_of,
    greedy,
    least_cost,
    over_delivery,
    overlays_of,
    rank,
    settled,
    to_plan,
)
from policyengine.privacy.plan import SplitPlan
from policyengine.privacy.risky import Filter, Number, SplitTask, split_task
from policyengine.privacy.solver import MAX_CELLS, SplitModel

MAX_SECONDS: Final = 3600.0
"""Longest time limit."""
_FIRST_SHARE: Final = 0.7  # of the time, for the cost; the rest is for what comes after it


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what is proven about it.

    Args:
        plan: the plan; it is safe whether it is optimal or not.
        optimal: whether no plan encrypts for less, none of those uses fewer overlays, and
            none of those over-delivers less.
        cost: what is paid for encryption.
        cost_bound: no plan pays less.
        overlays_bound: no plan of the same cost uses fewer overlays.
        over_delivery: weighted number of parts that are delivered in vain.
        notes: why each encrypted attribute is, one plain sentence each.
    """

    plan: SplitPlan
    optimal: bool
    cost: Fraction
    cost_bound: Fraction
    overlays_bound: int
    over_delivery: Fraction
    notes: tuple[str, ...]

    @property
    def gap(self) -> float:
        """How far from the bound the plan may be, 0 to 1, in the first thing not proven."""
        if self.cost > self.cost_bound:
            return float((self.cost - self.cost_bound) / self.cost)
        overlays = len(self.plan.overlays)
        return (overlays - self.overlays_bound) / overlays if overlays else 0.0


@dataclass(slots=True)
class _Search:
    """The best placement so far, and what is proven."""

    task: SplitTask
    best: Placement
    seconds: float
    cost_bound: Fraction
    overlays_bound: int
    optimal: bool = False

    def offer(self, placement: Placement | None, seconds: float) -> None:
        """Take a placement when it is better, and the time that it took."""
        self.seconds -= seconds
        if placement is not None:
            offered = settled(self.task, placement)
            self.best = min(self.best, offered, key=lambda one: rank(self.task, one))

    @property
    def cost(self) -> Fraction:
        """Cost of the best placement."""
        return cost_of(self.task, self.best)


def plan_split(
    attributes: Sequence[str],
    risky: Iterable[Collection[str]],
    *,
    colluding: int,
    max_overlays: int,
    encrypt_cost: Mapping[str, Number] | None = None,
    filters: Iterable[Filter] = (),
    time_limit: float = 10.0,
) -> Planned:
    """Make a split plan: least cost of encryption, then fewest overlays, then least over-delivery.

    There always is a plan, as encrypting is always possible. One question has one answer,
    unless the time limit ends the search, which then stops where the machine got to.

    Args:
        attributes: names, once each.
        risky: sets of attributes that nobody may see together.
        colluding: how many overlays may put together what they see; 0 asks for nothing.
        max_overlays: how many overlays there are, at least 1.
        encrypt_cost: cost of encrypting an attribute (matching and publishing), 0 or more;
            1 where left out.
        filters: what subscribers ask for together, and how often.
        time_limit: seconds of solving, beside putting the question; 0 takes the greedy plan.

    Raises:
        InputError: as `split_task`; `invalid` or `too-large` for a time limit.
    """
    if not time_limit >= 0:
        raise InputError("invalid", "a time limit is 0 seconds or more", where="time_limit")
    if time_limit > MAX_SECONDS:
        raise InputError("too-large", f"at most {MAX_SECONDS:.0f} seconds", where="time_limit")
    task = split_task(
        attributes,
        risky,
        colluding=colluding,
        max_overlays=max_overlays,
        encrypt_cost=encrypt_cost,
        filters=filters,
    )
    best = greedy(task)
    search = _Search(task, best, time_limit, least_cost(task), _fewest(task, best))
    bounds = (search.cost_bound, search.overlays_bound, Fraction(0))
    if rank(task, best)[:3] == bounds:
        search.optimal = True
    elif time_limit and _cells(task, best) <= MAX_CELLS:
        _solve(search)
    plan = to_plan(search.best)
    return Planned(
        plan,
        search.optimal,
        search.cost,
        search.cost_bound,
        search.overlays_bound,
        over_delivery(task, search.best),
        tuple(_why(task, plan, name) for name in sorted(plan.encrypted)),
    )


def _solve(search: _Search) -> None:
    task = search.task
    model = SplitModel(task, _useful(task, search.best))
    if search.cost > search.cost_bound:
        solved = model.minimise(model.cost, search.best, search.seconds * _FIRST_SHARE)
        search.offer(solved.placement, solved.seconds)
        search.cost_bound = max(search.cost_bound, solved.bound * model.unit)
    model.at_most(model.cost, int(search.cost / model.unit))
    solved = model.minimise(model.overlays, search.best, max(0.0, search.seconds))
    search.offer(solved.placement, solved.seconds)
    search.overlays_bound = max(search.overlays_bound, solved.bound)
    model.at_most(model.overlays, overlays_of(search.best))
    search.optimal = search.cost == search.cost_bound and solved.optimal
    if not task.filters and len(set(task.costs.values())) == 1:
        return  # the cost says how many are encrypted
    solved = model.minimise(model.over_delivery, search.best, max(0.0, search.seconds))
    search.offer(solved.placement, solved.seconds)
    search.optimal = search.optimal and (solved.optimal or not task.filters)


def _fewest(task: SplitTask, best: Placement) -> int:
    """Return a bound from below on the overlays of plans that cost as much as this one."""
    cost = cost_of(task, best)
    if task.risky and not cost and all(task.costs.values()):
        return task.colluding + 1  # nothing is encrypted, so something is spread
    return 1 if cost < sum(task.costs.values()) else 0  # something travels in clear


def _useful(task: SplitTask, best: Placement) -> int:
    """Return how many overlays the cheapest plan with the fewest of them can use."""
    if not cost_of(task, best):
        return max(1, overlays_of(best))
    return task.usable


def _cells(task: SplitTask, best: Placement) -> int:
    return (len(task.risky) + len(task.filters)) * _useful(task, best)


def _why(task: SplitTask, plan: SplitPlan, name: str) -> str:
    """Explain why an attribute is encrypted."""
    here = shown(name)
    if not task.costs[name]:
        return f"{here} is encrypted, as that costs nothing"
    alone = [one for one in task.risky if one & plan.encrypted == {name}]
    needed = task.colluding + 1
    short = [one for one in alone if len(one) <= task.colluding]
    if short and len(short[0]) == 1:
        return f"{here} is encrypted, as it is risky by itself"
    if short:
        return (
            f"{here} is encrypted, as {_listed(short[0])} are risky together and too few to be"
            f" spread over {needed} overlays, which {task.colluding} colluding ones ask for"
        )
    return (
        f"{here} is encrypted, as {_listed(alone[0])} are risky together and cannot be spread"
        f" over {needed} of {min(task.max_overlays, len(task.attributes))} overlays with the rest"
    )


def _listed(names: frozenset[str]) -> str:
    shortened = [shown(name) for name in sorted(names)[:8]]
    return ", ".join(shortened) + (", …" if len(names) > 8 else "")
