"""Granting a role or a privilege, or saying what the nearest rule lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from policyengine.attributes import shown
from policyengine.roles.outcomes import Activation, Denial, Missing, Outcome, joined, lacking
from policyengine.roles.rules import Condition, Credential, Rule, grounded
from policyengine.roles.search import (
    NEAREST_LIMIT,
    SEARCH_LIMIT,
    Budget,
    View,
    fewest_missing,
    solve,
)
from policyengine.roles.terms import Atom, Bindings, Constant

_LISTED = 4


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is granted.

    Args:
        asked: the role or privilege.
        activation: why it is, or None.
        missing: the number of the nearest rule and what it lacks, or None.
        numbers: how many rules there are for this name and number of parameters.
        work: steps that it took.
    """

    asked: Atom
    activation: Activation | None
    missing: tuple[int, tuple[Missing, ...]] | None
    numbers: int
    work: int

    def outcome(self, word: str) -> Outcome:
        """Put it in words.

        Args:
            word: what the thing becomes: `active` or `permitted`.
        """
        named = shown(self.asked.text)
        if self.activation is not None:
            reason = f"{named} is {word} by rule {self.activation.rule}{self.activation.grounds}"
            return Outcome(True, reason, activation=self.activation)
        number, missing = self.missing or (None, ())
        reason = f"{named} is not {word}: {self._lack()}"
        return Outcome(False, reason, denial=Denial(self.asked, number, missing, reason))

    def _lack(self) -> str:
        if self.missing is None:
            named = shown(self.asked.name)
            count = len(self.asked.terms)
            plural = "" if count == 1 else "s"
            if self.numbers:
                return f"the rules for {named} are for other parameters"
            return f"no rule is for {named} with {count} parameter{plural}"
        number, missing = self.missing
        reasons = joined(each.why for each in missing[:_LISTED])
        more = f" (and {len(missing) - _LISTED} more)" if len(missing) > _LISTED else ""
        nearest = "the nearest of them" if self.numbers > 1 else "the only one"
        return f"by rule {number}, {nearest}, {reasons}{more}"


def decide(asked: Atom, rules: Sequence[tuple[int, Rule]], view: View, now: int) -> Decision:
    """Find the first rule that grants a role or a privilege.

    "Satisfying any one rule indicates success" (paper 002, section 3.2).

    Args:
        asked: a ground atom.
        rules: the rules of its signature with their numbers.
        view: what is active, held and set.
        now: the time, in seconds.

    Raises:
        InputError: `too-large` when the search takes over `SEARCH_LIMIT` steps.
    """
    budget = Budget(SEARCH_LIMIT)
    fitting: list[tuple[int, Rule, dict[str, Constant]]] = []
    for number, rule in rules:
        budget.spend(1)
        head = rule.role.match(asked, {})
        if head is None:
            continue
        bindings = solve(rule, head, view, budget)
        if bindings is not None:
            activation = _activation(asked, number, rule, bindings, now)
            return Decision(asked, activation, None, len(rules), budget.spent)
        fitting.append((number, rule, head))
    missing, spent = _nearest(fitting, view)
    return Decision(asked, None, missing, len(rules), budget.spent + spent)


def _activation(asked: Atom, number: int, rule: Rule, bindings: Bindings, now: int) -> Activation:
    return Activation(
        asked,
        number,
        tuple(sorted(bindings.items())),
        tuple(dict.fromkeys(grounded(each, bindings) for each in rule.conditions)),
        tuple(dict.fromkeys(grounded(each, bindings) for each in rule.membership)),
        now,
    )


def _nearest(
    rules: Sequence[tuple[int, Rule, dict[str, Constant]]], view: View
) -> tuple[tuple[int, tuple[Missing, ...]] | None, int]:
    best: tuple[int, tuple[Condition, ...], Bindings] | None = None
    budget = Budget(NEAREST_LIMIT)
    for number, rule, head in rules:
        if best is not None and budget.empty:
            break
        missing, bindings = fewest_missing(rule, head, view, budget)
        if best is None or len(missing) < len(best[1]):
            best = number, missing, bindings
    if best is None:
        return None, budget.spent
    nearest, lacked, known = best
    return (nearest, tuple(_missing(each, known, view) for each in lacked)), budget.spent


def _missing(condition: Condition, bindings: Bindings, view: View) -> Missing:
    if isinstance(condition, Credential):
        return lacking(condition, grounded(condition, bindings), None)
    if any(name not in bindings for name in condition.variables):
        return lacking(condition, None, None)
    problem = condition.problem(view.environment, bindings)
    return lacking(condition, grounded(condition, bindings), problem)
