"""Finding what the variables of a rule may stand for.

Meeting a rule is answering a conjunctive query, which is hard in the worst case.
So every step is counted and a search that takes too many is given up; before
that, ground conditions are looked up, conditions that share no variable are met
one after the other and not in every combination, and among those that do the one
with the fewest candidates comes first.

What is found depends on what is active and held, never on the order in which it
came to be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from policyengine.errors import InputError
from policyengine.roles.constraints import Constraint, Environment
from policyengine.roles.facts import Facts
from policyengine.roles.rules import Condition, Credential, Rule, variables_of
from policyengine.roles.terms import Atom, Bindings, Constant

SEARCH_LIMIT: Final = 200_000
"""Steps of one search: a candidate that was tried, a node of a constraint evaluated."""
NEAREST_LIMIT: Final = 5_000
"""Steps that are spent on finding the nearest rules of a refusal, all rules together."""


class Budget:
    """Steps that are left.

    Args:
        limit: how many there are.
    """

    def __init__(self, limit: int) -> None:
        self.spent = 0
        self._limit = limit

    @property
    def empty(self) -> bool:
        """Whether the steps are used up."""
        return self.spent >= self._limit

    def spend(self, steps: int) -> None:
        """Count steps.

        Raises:
            InputError: `too-large` when there are not that many left.
        """
        self.spent += steps
        if self.spent > self._limit:
            raise InputError(
                "too-large",
                f"the search was given up after {self._limit} steps; expected rules whose"
                " variables are tied to the role's parameters",
            )


@dataclass(frozen=True, slots=True)
class View:
    """What conditions are looked up in.

    Args:
        roles: active roles.
        appointments: appointments held now.
        environment: what is set.
        without: active roles that do not count.
    """

    roles: Facts
    appointments: Facts
    environment: Environment
    without: Collection[Atom] = frozenset()

    def near(self, credential: Credential, bindings: Bindings) -> int:
        """Return at most how many candidates there are."""
        return len(self._facts(credential).near(credential.atom, bindings))

    def fitting(self, credential: Credential, bindings: Bindings) -> list[Atom]:
        """Return the atoms that meet a credential, sorted."""
        found = self._facts(credential).fitting(credential.atom, bindings)
        if credential.kind == "role" and self.without:
            return [atom for atom in found if atom not in self.without]
        return found

    def _facts(self, credential: Credential) -> Facts:
        return self.roles if credential.kind == "role" else self.appointments


def solve(rule: Rule, head: Bindings, view: View, budget: Budget) -> dict[str, Constant] | None:
    """Find values for all variables of a rule under which its conditions hold.

    Args:
        rule: the rule.
        head: what the variables of its role stand for.
        view: what is active, held and set.
        budget: counts the steps.

    Returns:
        The bindings, or None when there are none.

    Raises:
        InputError: `too-large` when the budget is used up.
    """
    return _Solver(view, budget).all_of(list(rule.conditions), dict(head))


def fewest_missing(
    rule: Rule, head: Bindings, view: View, budget: Budget
) -> tuple[tuple[Condition, ...], dict[str, Constant]]:
    """Find what keeps a rule from being met, and under which bindings it is least.

    Args:
        rule: a rule that cannot be met.
        head: what the variables of its role stand for.
        view: what is active, held and set.
        budget: counts the steps; when they are used up, the best so far counts.

    Returns:
        The conditions that are missing, in the rule's order, and the bindings.
    """
    search = _Nearest(rule, view, budget)
    search.visit(0, dict(head), ())
    assert search.best is not None  # the first way through is always taken to its end
    return search.best


class _Solver:
    def __init__(self, view: View, budget: Budget) -> None:
        self._view = view
        self._budget = budget

    def all_of(
        self, conditions: list[Condition], bindings: dict[str, Constant]
    ) -> dict[str, Constant] | None:
        """Meet all conditions, or none."""
        open_ones: list[Condition] = []
        for condition in conditions:
            if not _is_bound(condition, bindings):
                open_ones.append(condition)
            elif not self._holds(condition, bindings):
                return None
        for part in _independent(open_ones, bindings):
            found = self._connected(part, bindings)
            if found is None:
                return None
            bindings = found
        return bindings

    def _connected(
        self, conditions: list[Condition], bindings: dict[str, Constant]
    ) -> dict[str, Constant] | None:
        credentials = [each for each in conditions if isinstance(each, Credential)]
        # INVARIANT: a variable of a constraint stands in a credential, too, so there is one
        first = min(credentials, key=lambda each: self._view.near(each, bindings))
        rest = [each for each in conditions if each is not first]
        self._budget.spend(1 + self._view.near(first, bindings))
        for candidate in self._view.fitting(first, bindings):
            self._budget.spend(len(conditions))
            tried = first.atom.match(candidate, bindings)
            assert tried is not None
            found = self.all_of(rest, tried)
            if found is not None:
                return found
        return None

    def _holds(self, condition: Condition, bindings: Bindings) -> bool:
        if isinstance(condition, Constraint):
            self._budget.spend(condition.size)
            return condition.problem(self._view.environment, bindings) is None
        self._budget.spend(1)
        return bool(self._view.fitting(condition, bindings))


class _Nearest:
    """Branch and bound over "this candidate" or "missing", condition by condition."""

    def __init__(self, rule: Rule, view: View, budget: Budget) -> None:
        self.best: tuple[tuple[Condition, ...], dict[str, Constant]] | None = None
        self._conditions = rule.conditions
        self._view = view
        self._budget = budget

    def visit(self, at: int, bindings: dict[str, Constant], missing: tuple[Condition, ...]) -> None:
        """Go on from one condition with what was found so far."""
        if self.best is not None and (self._budget.empty or len(missing) >= len(self.best[0])):
            return
        if at == len(self._conditions):
            self.best = (missing, bindings)
            return
        condition = self._conditions[at]
        self._budget.spent += 1
        for found in self._ways(condition, bindings):
            self.visit(at + 1, found, missing)
            if _is_bound(condition, bindings):
                return  # met without a choice: leaving it out cannot be better
        self.visit(at + 1, bindings, (*missing, condition))

    def _ways(
        self, condition: Condition, bindings: dict[str, Constant]
    ) -> Iterator[dict[str, Constant]]:
        if isinstance(condition, Credential):
            self._budget.spent += self._view.near(condition, bindings)
            for candidate in self._view.fitting(condition, bindings):
                found = condition.atom.match(candidate, bindings)
                assert found is not None
                yield found
        elif _is_bound(condition, bindings):
            self._budget.spent += condition.size
            if condition.problem(self._view.environment, bindings) is None:
                yield bindings


def _is_bound(condition: Condition, bindings: Bindings) -> bool:
    return all(name in bindings for name in variables_of(condition))


def _independent(conditions: Sequence[Condition], bindings: Bindings) -> list[list[Condition]]:
    """Split conditions into parts that share no unbound variable, in order."""
    parts: list[tuple[set[str], list[Condition]]] = []
    for condition in conditions:
        names = {name for name in variables_of(condition) if name not in bindings}
        together: list[Condition] = []
        apart = []
        for part in parts:
            if part[0] & names:
                names |= part[0]
                together.extend(part[1])
            else:
                apart.append(part)
        parts = [*apart, (names, [*together, condition])]
    return [found for _, found in parts]
