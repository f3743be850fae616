"""Revisions below which something counts for nothing: what a revocation takes away at once.

An agent that is told so needs not read what was taken: under an older revision it gives the party
nothing at all, and from that revision on it does as that one says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from policyengine.primitives.records import (
    IDENTIFIER,
    UINT,
    Integer,
    ListOf,
    Nested,
    Record,
    invalid,
)

MOST = 10_000
"""Most parties that one notice names; beyond it the whole domain waits."""


@dataclass(frozen=True)
class Floor(Record):
    """One party, and the first revision that knows what it lost.

    Args:
        name: a handle, or an agent's name.
        revision: of the domain, from 1.
    """

    name: Annotated[str, IDENTIFIER]
    revision: Annotated[int, Integer(1)]


_FLOORS = ListOf(Nested(Floor))


@dataclass(frozen=True)
class Floors(Record):
    """Who and what waits for which revision.

    Args:
        handles: clients that get and give nothing under an older revision.
        agents: agents of the overlay that nothing is taken from, or sent to, under an older one.
        revision: below it nothing of the domain is handled at all; 0 for no such limit.
    """

    handles: Annotated[tuple[Floor, ...], _FLOORS] = ()
    agents: Annotated[tuple[Floor, ...], _FLOORS] = ()
    revision: Annotated[int, UINT] = 0

    def _agree(self) -> None:
        for where, listed in (("handles", self.handles), ("agents", self.agents)):
            if len({floor.name for floor in listed}) != len(listed):
                raise invalid(where, "must not repeat an entry")

    def joined(self, other: Floors) -> Floors:
        """Both: for each party the higher revision."""
        return Floors(
            _joined((*self.handles, *other.handles)),
            _joined((*self.agents, *other.agents)),
            max(self.revision, other.revision),
        )

    def above(self, revision: int) -> Floors:
        """What still counts once a revision is in force."""
        return Floors(
            tuple(floor for floor in self.handles if floor.revision > revision),
            tuple(floor for floor in self.agents if floor.revision > revision),
            self.revision if self.revision > revision else 0,
        )

    @property
    def handle_names(self) -> frozenset[str]:
        """The handles."""
        return frozenset(floor.name for floor in self.handles)

    @property
    def agent_names(self) -> frozenset[str]:
        """The agents."""
        return frozenset(floor.name for floor in self.agents)


NO_FLOORS = Floors()


def _joined(floors: Iterable[Floor]) -> tuple[Floor, ...]:
    highest: dict[str, int] = {}
    for floor in floors:
        highest[floor.name] = max(floor.revision, highest.get(floor.name, 0))
    return tuple(Floor(name, highest[name]) for name in sorted(highest))
