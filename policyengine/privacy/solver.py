"""The split as an integer program, solved by CP-SAT.

`x[a,o]`: attribute a travels in clear on overlay o; `e[a]`: it is encrypted; one of them
holds. `y[h,o]`: risky set h touches overlay o. Each risky set touches more overlays than
collude, or has an encrypted member:
`sum_o y[h,o] + (c+1) * sum_(a in h) e[a] >= c+1`, with `y[h,o] <= sum_(a in h) x[a,o]`.

ortools takes a second to load and is loaded by the first plan that needs it. It is run with
one worker and a fixed seed, which starts no threads and gives one answer to one question.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from policyengine.privacy.placement import Placement
from policyengine.privacy.risky import SplitTask, whole_units

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, CpSolver, IntVar, LinearExpr

MAX_CELLS: Final = 150_000
"""Most pairs of a risky set (or filter) and an overlay that are put before the solver."""
_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class Solved:
    """What one run found.

    Args:
        placement: the best placement, or None where the time was too short for any.
        bound: no placement has a lower objective.
        optimal: whether the placement's objective is proven to be the lowest.
        seconds: time taken.
    """

    placement: Placement | None
    bound: int
    optimal: bool
    seconds: float


class SplitModel:
    """The integer program of one question.

    Args:
        task: the question.
        overlays: how many overlays may be used.
    """

    def __init__(self, task: SplitTask, overlays: int) -> None:
        from ortools.sat.python import cp_model

        self._task, self._overlays = task, overlays
        self._model: CpModel = cp_model.CpModel()
        self._x: dict[str, list[IntVar]] = {}
        self._e: dict[str, IntVar] = {}
        self._used = [self._bool() for _ in range(overlays)]
        self._free: list[str] = []
        self._build_places()
        for one in task.risky:
            self._build_risky(one)
        split = [self._build_filter(names) for names, _ in task.filters]
        self._units = dict(
            zip(self._e, whole_units((task.costs[name] for name in self._e), "costs"), strict=True)
        )
        weights = whole_units((weight for _, weight in task.filters), "filters")
        weighted = cp_model.LinearExpr.weighted_sum
        hidden = list(self._e.values())
        self.cost: LinearExpr = weighted(hidden, list(self._units.values()))
        """Cost of encryption, in whole units."""
        self.overlays: LinearExpr = weighted(self._used, [1] * overlays)
        """How many overlays are used."""
        scaled = [weight * (len(hidden) + 1) for weight in weights]
        self.over_delivery: LinearExpr = weighted([*split, *hidden], [*scaled, *[1] * len(hidden)])
        """Over-delivery; between equals, how many attributes are encrypted."""

    @property
    def unit(self) -> Fraction:
        """What one unit of `cost` stands for."""
        each = ((self._task.costs[name], unit) for name, unit in self._units.items() if unit)
        return next((cost / unit for cost, unit in each), Fraction(1))

    def minimise(self, objective: LinearExpr, hint: Placement, seconds: float) -> Solved:
        """Find the placement with the lowest objective among those that are still allowed.

        Args:
            objective: `cost`, `overlays` or `over_delivery`.
            hint: where to begin.
            seconds: time limit.
        """
        from ortools.sat.python import cp_model

        self._model.minimize(objective)
        self._give_hint(hint)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = _SEED
        solver.parameters.max_time_in_seconds = seconds
        status = solver.solve(self._model)
        optimal = status == cp_model.OPTIMAL
        found = optimal or status == cp_model.FEASIBLE
        return Solved(
            self._read(solver) if found else None,
            max(0, round(solver.best_objective_bound)) if found else 0,
            optimal,
            solver.wall_time,
        )

    def at_most(self, expression: LinearExpr, limit: int) -> None:
        """Allow only what is as good as `limit` in an earlier objective."""
        self._model.add(expression <= limit)

    def _bool(self) -> IntVar:
        return self._model.new_bool_var("")

    def _build_places(self) -> None:
        degree = dict.fromkeys(self._task.attributes, 0)
        for one in (*self._task.risky, *(names for names, _ in self._task.filters)):
            for name in one:
                degree[name] += 1
        # What no risky set and no filter speaks of joins the first overlay.
        self._free = [name for name in degree if not degree[name] and self._task.costs[name]]
        placed = sorted(set(degree) - set(self._free), key=lambda name: (-degree[name], name))
        first = 1
        if self._free:
            self._model.add(self._used[0] == 1)
            first = 2
        for number, name in enumerate(placed):
            # Overlays are alike: number them by the first attribute that stands there.
            self._x[name] = [self._bool() for _ in range(min(self._overlays, number + first))]
            self._e[name] = self._bool()
            self._model.add_exactly_one([*self._x[name], self._e[name]])
            for place, used in zip(self._x[name], self._used, strict=False):
                self._model.add_implication(place, used)
        for before, after in zip(self._used, self._used[1:], strict=False):
            self._model.add_implication(after, before)

    def _build_risky(self, risky: frozenset[str]) -> None:
        hidden = [self._e[name] for name in sorted(risky)]
        if self._task.must_encrypt(risky):
            self._model.add_bool_or(hidden)
            return
        touches = []
        for overlay in range(self._overlays):
            if places := self._places(risky, overlay):
                touches.append(self._bool())
                self._model.add(touches[-1] <= sum(places))
        needed = self._task.colluding + 1
        self._model.add(sum(touches) + needed * sum(hidden) >= needed)

    def _build_filter(self, names: frozenset[str]) -> IntVar:
        """Return how many overlays beyond the first a filter stands on."""
        touches = []
        for overlay in range(self._overlays):
            if places := self._places(names, overlay):
                touches.append(self._bool())
                for place in places:
                    self._model.add_implication(place, touches[-1])
        beyond = self._model.new_int_var(0, max(0, len(touches) - 1), "")
        self._model.add(beyond >= sum(touches) - 1)
        return beyond

    def _places(self, names: frozenset[str], overlay: int) -> list[IntVar]:
        rows = (self._x[name] for name in sorted(names))
        return [row[overlay] for row in rows if overlay < len(row)]

    def _give_hint(self, hint: Placement) -> None:
        # The model numbers overlays by their first attribute.
        numbers: dict[int | None, int] = {hint[name]: 0 for name in self._free}
        self._model.clear_hints()
        for name, row in self._x.items():
            overlay = hint[name]
            self._model.add_hint(self._e[name], overlay is None)
            place = None if overlay is None else numbers.setdefault(overlay, len(numbers))
            for number, variable in enumerate(row):
                self._model.add_hint(variable, number == place)

    def _read(self, solver: CpSolver) -> Placement:
        placement: Placement = dict.fromkeys(self._free, 0)
        for name, row in self._x.items():
            placement[name] = next(
                (number for number, place in enumerate(row) if solver.boolean_value(place)), None
            )
        return placement
