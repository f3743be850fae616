"""All roles that many principals could activate, all principals at once.

A session activates one role after another. Here everything is found that could be
active: the least fixpoint of the rules over what each principal is appointed to. It
exists, and no order matters, because rules ask only that something is there (paper
002, section 3.2: "OASIS has no negative rules") and prerequisites form no circle.

Roles and appointments without parameters are columns, one bit for each principal, so
that a rule over them costs a few bit operations however many principals there are.
Those with parameters are kept by principal, and rules over them are joins of what that
principal has: two principals never meet in one join.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final, TypeAlias

from bitarray import bitarray
from bitarray.util import ones, zeros

from policyengine.attributes import shown
from policyengine.errors import InputError
from policyengine.roles.constraints import Environment
from policyengine.roles.rules import Credential, CredentialKind, Rule
from policyengine.roles.terms import Constant, Signature, Term, Variable

JOIN_LIMIT: Final = 10_000
"""How many ways one rule may be met by one principal, parts of a rule included."""

Terms: TypeAlias = tuple[Constant, ...]
"""Values of the parameters of a role or appointment."""
_Known: TypeAlias = dict[str, Constant]
_Rows: TypeAlias = dict[int, set[Terms]]
_Name: TypeAlias = tuple[CredentialKind, Signature]


@dataclass(frozen=True, slots=True)
class Crowd:
    """What the principals could activate.

    Args:
        count: how many principals there are; each is a position from 0.
        columns: roles without parameters that somebody has: one bit for each principal.
        rows: roles with parameters that somebody has: by position, the values.
        overfull: principals for whom a rule could be met in over `JOIN_LIMIT` ways. They
            have no role at all.
    """

    count: int
    columns: Mapping[str, bitarray]
    rows: Mapping[Signature, Mapping[int, Collection[Terms]]]
    overfull: frozenset[int]


def crowd(
    rules: Iterable[Rule],
    appointments: Iterable[tuple[int, str, Terms]],
    count: int,
    environment: Environment,
) -> Crowd:
    """Find what every principal could activate now.

    Args:
        rules: activation rules.
        appointments: what is held: position of the principal, name, values.
        count: how many principals there are.
        environment: what is set, by full name (`env.hour`).

    Raises:
        InputError: `invalid` when prerequisites form a circle, or when no prerequisite and
            no appointment of a rule names a parameter of its role: there would be no end
            of such roles.
    """
    ordered = in_order(rules)
    for rule in ordered:
        _check_finite(rule)
    found = _Crowd(count)
    for position, name, terms in appointments:
        found.add("appointment", (name, len(terms)), position, terms)
    for rule in ordered:
        found.apply(rule, environment)
    return found.result()


def in_order(rules: Iterable[Rule]) -> list[Rule]:
    """Sort rules so that those of a role come after those of the roles that it needs.

    Raises:
        InputError: `invalid` when prerequisites form a circle.
    """
    every = list(rules)
    graph: dict[Signature, set[Signature]] = {}
    for rule in every:
        needs = (each.atom.signature for each in rule.credentials if each.kind == "role")
        graph.setdefault(rule.role.signature, set()).update(needs)
    try:
        order = {role: at for at, role in enumerate(TopologicalSorter(graph).static_order())}
    except CycleError as error:
        circle = [name for name, _ in error.args[1]]
        text = " needs ".join(shown(name) for name in reversed(circle))
        raise InputError(
            "invalid", f"the roles need one another in a cycle: {text}", where=circle[0]
        ) from error
    return sorted(every, key=lambda rule: order[rule.role.signature])


def free_parameters(rule: Rule) -> tuple[str, ...]:
    """Return the variables of a rule's role that none of its credentials names.

    Whoever activates the role would choose what they stand for.
    """
    named = {name for each in rule.credentials for name in each.atom.variables}
    return tuple(name for name in rule.role.variables if name not in named)


def _check_finite(rule: Rule) -> None:
    free = free_parameters(rule)
    if free:
        listed = " and ".join(shown(name) for name in free)
        raise InputError(
            "invalid",
            f"whoever activates {shown(rule.role.name)} chooses {listed}: no prerequisite and no"
            " appointment names it",
            where=rule.role.name,
        )


class _Crowd:
    def __init__(self, count: int) -> None:
        self._count = count
        self._columns: dict[_Name, bitarray] = {}
        self._rows: dict[_Name, _Rows] = {}
        self._overfull: set[int] = set()

    def add(self, kind: CredentialKind, signature: Signature, position: int, terms: Terms) -> None:
        """Note what one principal has."""
        name = (kind, signature)
        if terms:
            self._rows.setdefault(name, {}).setdefault(position, set()).add(terms)
            return
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = zeros(self._count)
        column[position] = 1

    def apply(self, rule: Rule, environment: Environment) -> None:
        """Give a rule's role to all who meet it."""
        plain = [each for each in rule.credentials if not each.atom.terms]
        joined = [each for each in rule.credentials if each.atom.terms]
        fixed = [each for each in rule.constraints if not each.variables]
        if any(each.problem(environment, {}) is not None for each in fixed):
            return
        mask = self._all_of(plain)
        if mask is None:
            return
        name: _Name = ("role", rule.role.signature)
        if not joined:
            self._grant(name, mask, tuple(_constant(term) for term in rule.role.terms))
            return
        for position in self._positions(joined, mask):
            for terms in self._met(rule, joined, position, environment):
                self.add(*name, position, terms)

    def result(self) -> Crowd:
        """Leave out who had too much."""
        columns = {
            name: column
            for (kind, (name, _)), column in self._columns.items()
            if kind == "role" and column.any()
        }
        for position in self._overfull:
            for column in columns.values():
                column[position] = 0
        rows = {
            signature: {at: terms for at, terms in held.items() if at not in self._overfull}
            for (kind, signature), held in self._rows.items()
            if kind == "role"
        }
        return Crowd(self._count, columns, rows, frozenset(self._overfull))

    def _all_of(self, credentials: Iterable[Credential]) -> bitarray | None:
        """Return who has all of some things without parameters; None is nobody."""
        mask: bitarray | None = None
        for each in credentials:
            column = self._columns.get((each.kind, each.atom.signature))
            if column is None:
                return None
            mask = column.copy() if mask is None else mask & column
        if mask is None:
            mask = ones(self._count)
        return mask

    def _grant(self, name: _Name, mask: bitarray, terms: Terms) -> None:
        if terms:
            for position in mask.search(bitarray("1")):
                self.add(*name, position, terms)
        elif name in self._columns:
            self._columns[name] |= mask
        else:
            self._columns[name] = mask

    def _positions(self, credentials: Sequence[Credential], mask: bitarray) -> list[int]:
        """Return who has something of the name of every credential."""
        held = [self._rows.get((each.kind, each.atom.signature), {}) for each in credentials]
        least = min(held, key=len)
        return [at for at in least if mask[at] and all(at in rows for rows in held)]

    def _met(
        self, rule: Rule, credentials: Sequence[Credential], at: int, environment: Environment
    ) -> Iterator[Terms]:
        """Yield the values of a role's parameters for which one principal meets a rule."""
        ways: list[_Known] = [{}]
        for each in credentials:
            rows = self._rows[each.kind, each.atom.signature][at]
            if len(ways) * len(rows) > JOIN_LIMIT:
                self._overfull.add(at)
                return
            ways = [
                found
                for known in ways
                for row in rows
                if (found := _matched(each.atom.terms, row, known)) is not None
            ]
        tied = [each for each in rule.constraints if each.variables]
        for known in ways:
            if all(each.problem(environment, known) is None for each in tied):
                yield tuple(
                    known[term.name] if isinstance(term, Variable) else term
                    for term in rule.role.terms
                )


def _matched(terms: Sequence[Term], row: Terms, known: _Known) -> _Known | None:
    found = known
    for term, value in zip(terms, row, strict=True):
        if not isinstance(term, Variable):
            if term != value:
                return None
            continue
        bound = found.get(term.name)
        if bound is None:
            found = {**found, term.name: value}
        elif bound != value:
            return None
    return found


def _constant(term: Term) -> Constant:
    # INVARIANT: `_check_finite` has refused variables that no credential names
    assert not isinstance(term, Variable)
    return term
