"""What stands on event types, told by the areas above.

The catalog must not know policies, and still may not break one. So an area that uses types
registers where it says what is in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from adminapp.identity.models import Domain


@dataclass(frozen=True)
class Use:
    """Something in force that stands on an event type and the types below it.

    Args:
        kind: what it is (`policy`).
        name: its name.
        owner: name of the domain that it belongs to.
        event_type: the type that it names.
        tests: attributes that its condition tests.
        carries: attributes that it lets through; None is all.
        says: what it lets happen and for how many, for a person; asked only when it would break.
    """

    kind: str
    name: str
    owner: str
    event_type: str
    tests: frozenset[str]
    carries: frozenset[str] | None
    says: Callable[[], str]

    def needs(self, attribute: str) -> bool:
        """Whether it tests an attribute or lets it through."""
        return attribute in self.tests or self.carries is None or attribute in self.carries


Uses: TypeAlias = Callable[[Domain], Iterable[Use]]

_uses: list[Uses] = []


def add_uses(uses: Uses) -> None:
    """Have `uses` say what stands on the types in force in a domain."""
    if uses not in _uses:
        _uses.append(uses)


def uses(domain: Domain) -> list[Use]:
    """Everything in force in a domain that stands on its types."""
    return [use for each in _uses for use in each(domain)]
