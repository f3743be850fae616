"""What a set of rules says that its author hardly meant.

A policy with findings works: nothing here can make a role active that should not
be. It is for the person who writes the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from policyengine.attributes import nearest, shown
from policyengine.roles.policy import RolePolicy
from policyengine.roles.rules import Rule, variables_of
from policyengine.roles.terms import Signature

FindingKind: TypeAlias = Literal["undeclared", "unreachable", "unbound", "duplicate", "ambiguous"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth a second look.

    Args:
        kind: `undeclared` (a prerequisite that no rule activates), `unreachable` (a
            role that needs itself, or what can never be active), `unbound` (a
            parameter that no condition speaks of, so that whoever activates the role
            chooses it), `duplicate` (a rule or a condition that stands there twice),
            `ambiguous` (one name for a role and an appointment).
        where: the rule: `rules[2]` or `privileges[0]`.
        message: what was found.
        suggestion: the name that was meant, perhaps.
    """

    kind: FindingKind
    where: str
    message: str
    suggestion: str | None = None


def findings(policy: RolePolicy) -> tuple[Finding, ...]:
    """Look through the rules of a policy, in order.

    Args:
        policy: the rules.
    """
    reachable = _reachable(policy)
    appointments = _appointments(policy)
    found: list[Finding] = []
    for name, rules in (("rules", policy.rules), ("privileges", policy.privileges)):
        earlier: dict[Rule, int] = {}
        for place, rule in enumerate(rules):
            where = f"{name}[{place}]"
            found.extend(_undeclared(rule, where, policy))
            found.extend(_repeated(rule, where, name, earlier))
            earlier.setdefault(rule, place)
            if name == "rules":
                found.extend(_about_role(rule, where, reachable, appointments))
    return tuple(found)


def _undeclared(rule: Rule, where: str, policy: RolePolicy) -> Iterator[Finding]:
    missing = dict.fromkeys(
        each.atom.signature
        for each in rule.credentials
        if each.kind == "role" and each.atom.signature not in policy.roles
    )
    for name, count in missing:
        counts = sorted(size for other, size in policy.roles if other == name)
        if counts:
            known = " or ".join(str(size) for size in counts)
            message = f"no rule activates {shown(name)} with {count} parameters, only with {known}"
            yield Finding("undeclared", where, message, name)
        else:
            close = nearest(name, (other for other, _ in policy.roles))
            yield Finding("undeclared", where, f"no rule activates {shown(name)}", close)


def _repeated(rule: Rule, where: str, name: str, earlier: dict[Rule, int]) -> Iterator[Finding]:
    if rule in earlier:
        yield Finding("duplicate", where, f"the rule says what {name}[{earlier[rule]}] says")
    seen = set()
    for condition in rule.conditions:
        if condition in seen:
            text = condition.text.strip()
            yield Finding("duplicate", where, f"the condition {text} stands there twice")
        seen.add(condition)


def _about_role(
    rule: Rule, where: str, reachable: frozenset[Signature], appointments: frozenset[Signature]
) -> Iterator[Finding]:
    named = shown(rule.role.name)
    if rule.role.signature not in reachable:
        message = f"{named} can never be active: it needs itself, or what no rule activates"
        yield Finding("unreachable", where, message)
    if rule.role.signature in appointments:
        message = f"{named} is the name of a role and of an appointment"
        yield Finding("ambiguous", where, message)
    asked = {name for each in rule.conditions for name in variables_of(each)}
    free = [shown(name) for name in rule.role.variables if name not in asked]
    if free:
        message = f"whoever activates {named} chooses {' and '.join(free)}: no condition names it"
        yield Finding("unbound", where, message)


def _appointments(policy: RolePolicy) -> frozenset[Signature]:
    return frozenset(
        each.atom.signature
        for rule in policy.rules
        for each in rule.credentials
        if each.kind == "appointment"
    )


def _reachable(policy: RolePolicy) -> frozenset[Signature]:
    """Return the roles that a chain of rules leads to, whatever their parameters."""
    waiting: dict[Signature, list[int]] = {}
    open_ones: list[set[Signature]] = []
    for place, rule in enumerate(policy.rules):
        needs = {each.atom.signature for each in rule.credentials if each.kind == "role"}
        open_ones.append(needs)
        for signature in needs:
            waiting.setdefault(signature, []).append(place)
    stack = [rule.role.signature for rule in policy.rules if rule.initial]
    reached: set[Signature] = set()
    while stack:
        signature = stack.pop()
        if signature in reached:
            continue
        reached.add(signature)
        for place in waiting.get(signature, ()):
            open_ones[place].discard(signature)
            if not open_ones[place]:
                stack.append(policy.rules[place].role.signature)
    return frozenset(reached)
