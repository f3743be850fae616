"""What the rules of a domain say that their author hardly meant. A model with findings works."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from adminapp.identity.models import Domain
from adminapp.roles import selectors
from policyengine.attributes import nearest
from policyengine.roles import RolePolicy, Rule
from policyengine.roles import findings as engine_findings

_PLACE = re.compile(r"rules\[(\d+)\]")


@dataclass(frozen=True)
class RoleFinding:
    """Something worth a second look.

    Args:
        role: name of the role.
        rule: which of its rules, from 0; None is the role itself.
        kind: as the engine's findings have them, and `unruled` (no rule activates the role),
            `unset` (a constraint speaks of a value that nobody set).
        message: what was found.
        suggestion: the name that was meant, perhaps.
    """

    role: str
    rule: int | None
    kind: str
    message: str
    suggestion: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "rule": self.rule,
            "kind": self.kind,
            "detail": self.message,
            "suggestion": self.suggestion,
        }


def findings(domain: Domain) -> list[RoleFinding]:
    """Look through the rules that hold in a domain, in a constant number of queries."""
    rules = selectors.rules(domain)
    numbers: dict[str, int] = {}
    places: list[tuple[str, int]] = []
    for rule in rules:
        number = numbers.get(rule.role.name, 0)
        numbers[rule.role.name] = number + 1
        places.append((rule.role.name, number))
    found = [
        RoleFinding(name, None, "unruled", f"`{name}` has no rule, so nobody can ever have it")
        for name in selectors.role_names(domain)
        if name not in numbers
    ]
    for each in engine_findings(RolePolicy(rules)):
        place = _PLACE.match(each.where)
        if place is not None and each.kind != "unbound":  # refused when saved
            role, number = places[int(place[1])]
            message = _renumbered(each.message, places)
            found.append(RoleFinding(role, number, each.kind, message, each.suggestion))
    known = selectors.environment_names(domain)
    for rule, (role, number) in zip(rules, places, strict=True):
        found.extend(_unset(known, rule, role, number))
    return sorted(found, key=lambda each: (each.role, -1 if each.rule is None else each.rule))


def _renumbered(message: str, places: list[tuple[str, int]]) -> str:
    """The engine counts all rules of a domain, people those of a role."""
    return _PLACE.sub(
        lambda found: "rule {1} of `{0}`".format(*_counted(places[int(found[1])])), message
    )


def _counted(place: tuple[str, int]) -> tuple[str, int]:
    return place[0], place[1] + 1


def _unset(known: Collection[str], rule: Rule, role: str, number: int) -> Iterator[RoleFinding]:
    names = (name for each in rule.constraints for name in each.names)
    for name in dict.fromkeys(names):
        if name not in known:
            message = f"`{name}` was never set, so the rule is never met"
            yield RoleFinding(role, number, "unset", message, nearest(name, known))
