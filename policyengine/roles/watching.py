"""Which active roles rest on which membership conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from policyengine.roles.constraints import Environment
from policyengine.roles.rules import Bound, Credential, Ground
from policyengine.roles.terms import Atom

_NONE: Final[dict[Atom, None]] = {}


class Watch:
    """The membership conditions of the active roles, indexed by what may end them."""

    def __init__(self) -> None:
        self._watchers: dict[Ground, dict[Atom, None]] = {}
        self._by_name: dict[str, dict[Bound, None]] = {}

    def add(self, role: Atom, conditions: Iterable[Ground]) -> None:
        """Watch conditions, each given once, for a role."""
        for condition in conditions:
            self._watchers.setdefault(condition, {})[role] = None
            if isinstance(condition, Bound):
                for name in condition.constraint.names:
                    self._by_name.setdefault(name, {})[condition] = None

    def remove(self, role: Atom, conditions: Iterable[Ground]) -> None:
        """Stop watching what `add` began to watch."""
        for condition in conditions:
            watchers = self._watchers[condition]
            del watchers[role]
            if watchers:
                continue
            del self._watchers[condition]
            if isinstance(condition, Bound):
                for name in condition.constraint.names:
                    del self._by_name[name][condition]

    def watchers(self, condition: Ground) -> tuple[Atom, ...]:
        """Return the roles that rest on a condition, the one that was first to do so first."""
        return tuple(self._watchers.get(condition, _NONE))

    def resting_on(self, role: Atom) -> frozenset[Atom]:
        """Return a role and all whose membership rests on it, near or far."""
        found = {role}
        stack = [role]
        while stack:
            near = self.watchers(Credential("role", stack.pop()))
            stack.extend(each for each in near if each not in found)
            found.update(near)
        return frozenset(found)

    def failed(
        self, names: Iterable[str], environment: Environment
    ) -> Iterator[tuple[Bound, str, int]]:
        """Test the constraints that name some values of the environment, each once.

        Yields:
            Each constraint that is not met, why, and how much work the test was;
            met ones with an empty reason.
        """
        concerned = dict.fromkeys(bound for name in names for bound in self._by_name.get(name, ()))
        for bound in concerned:
            problem = bound.constraint.problem(environment, dict(bound.bindings))
            yield bound, problem or "", bound.constraint.size
