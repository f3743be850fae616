"""Which roles are active: OASIS activation rules (Bacon et al., section 2).

A rule `r1..rn, a1..am, e1..el |- r` makes a role active when its prerequisite
roles are active, its appointments are held and its environmental constraints hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final

from policyengine.attributes import AttributeType, Value, evaluate, parse, shown
from policyengine.errors import InputError

_PREFIX: Final = "env."


@dataclass(frozen=True, slots=True)
class RoleRule:
    """One activation rule; several rules of a role are alternatives.

    Args:
        role: the role it activates.
        prerequisites: roles that must be active.
        appointments: appointments that must be held.
        constraints: an expression over the environment (`env.hour >= 9`), or `""`.
    """

    role: str
    prerequisites: tuple[str, ...] = ()
    appointments: tuple[str, ...] = ()
    constraints: str = ""


def active_roles(
    rules: Iterable[RoleRule],
    appointments: Collection[str],
    environment: Mapping[str, Value],
) -> frozenset[str]:
    """Return all roles that the rules make active.

    Args:
        rules: activation rules.
        appointments: what the principal is appointed to, now.
        environment: values of the environment, with or without `env.` before the name.

    Raises:
        InputError: `invalid` when prerequisites form a cycle; what is wrong with a
            constraint, `where` naming the role.
    """
    ordered = _ordered(tuple(rules))
    state = _environment(environment)
    active: set[str] = set()
    for rule in ordered:  # prerequisites come first, so one pass reaches the fixpoint
        held = set(rule.prerequisites) <= active and set(rule.appointments) <= set(appointments)
        if held and constraint_met(rule, state):
            active.add(rule.role)
    return frozenset(active)


def constraint_met(rule: RoleRule, environment: Mapping[str, Value]) -> bool:
    """Tell whether a rule's constraint holds.

    A constraint on a value that was never set is not met, whatever it says of it.

    Args:
        rule: the rule.
        environment: values by full name (`env.hour`).

    Raises:
        InputError: the constraint cannot be read; `where` names the role.
    """
    if not rule.constraints.strip():
        return True
    schema = {name: _declared(value) for name, value in environment.items()}
    try:
        expression = parse(rule.constraints, schema)
    except InputError as error:
        if error.kind == "unknown" and _never_set(error, environment):
            return False
        raise InputError(
            error.kind,
            f"constraint of role {shown(rule.role)}: {error.message}",
            at=error.at,
            where=rule.role,
            suggestion=error.suggestion,
        ) from error
    return evaluate(expression, environment)


def _ordered(rules: tuple[RoleRule, ...]) -> list[RoleRule]:
    graph: dict[str, set[str]] = {}
    for rule in rules:
        graph.setdefault(rule.role, set()).update(rule.prerequisites)
    try:
        order = {role: at for at, role in enumerate(TopologicalSorter(graph).static_order())}
    except CycleError as error:
        cycle = " needs ".join(shown(role) for role in reversed(error.args[1]))
        raise InputError(
            "invalid", f"the roles need one another in a cycle: {cycle}", where=error.args[1][0]
        ) from error
    return sorted(rules, key=lambda rule: order[rule.role])


def _environment(environment: Mapping[str, Value]) -> dict[str, Value]:
    return {
        name if name.startswith(_PREFIX) else _PREFIX + name: value
        for name, value in environment.items()
    }


def _declared(value: Value) -> AttributeType:
    if isinstance(value, bool):
        return AttributeType("bool")
    # numbers of the environment compare by value: 9 and 9.0 are the same hour
    return AttributeType("string" if isinstance(value, str) else "float")


def _never_set(error: InputError, environment: Mapping[str, Value]) -> bool:
    return error.where is not None and error.where not in environment
