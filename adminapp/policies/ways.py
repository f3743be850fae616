"""Ways to satisfy policies, and how many principals have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from adminapp.policies.access import Rule, describe
from adminapp.policies.language import PolicyConjunction
from adminapp.roles.mapping import ROLE
from policyengine.attributes import Literal


@dataclass(frozen=True)
class Grant:
    """One way to satisfy a policy.

    Args:
        rule: the policy.
        way: the conjunction.
        types: each type that it may hold for, with the attributes that it permits there.
    """

    rule: Rule
    way: PolicyConjunction
    types: Mapping[str, tuple[str, ...]]

    @property
    def key(self) -> tuple[object, ...]:
        """What it permits under which conditions, whatever it is called and whoever meets it."""
        types = tuple(sorted(self.types.items()))
        return (self.rule.action, types, frozenset(self.way.event), frozenset(self.way.joins))

    @property
    def who(self) -> str:
        """Whom it means, in words."""
        found = describe(each for each in self.way.subject if not self._role(each))
        named = [f"role {name}" for name in self.roles]
        return " and ".join([*named, *filter(None, [found.removeprefix("where ")])]) or "everybody"

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that it asks for."""
        return tuple(filter(None, (self._role(each) for each in self.way.subject)))

    @property
    def condition(self) -> str:
        """What it asks of an event, in words; "" is nothing."""
        return describe((*self.way.event, *self.way.joins))

    @staticmethod
    def _role(literal: Literal) -> str:
        named = literal.attribute.startswith(f"{ROLE}.") and literal.value is True
        return literal.attribute.removeprefix(f"{ROLE}.") if named else ""

    def permits(self, action: str | None, event_type: str | None, attribute: str | None) -> bool:
        """Whether it has to do with an action, a type and an attribute; None is any."""
        if action not in (None, self.rule.action):
            return False
        if event_type is None:
            named: Iterable[tuple[str, ...]] = self.types.values()
        else:
            named = [self.types[event_type]] if event_type in self.types else []
        return any(attribute is None or attribute in names for names in named)


@dataclass(frozen=True)
class Group:
    """Principals who may do the same by the same grant.

    Args:
        grant: by what.
        principals: how many they are.
        agreement: name of the agreement that lets them in; "" for the domain's own.
    """

    grant: Grant
    principals: int
    agreement: str = ""
