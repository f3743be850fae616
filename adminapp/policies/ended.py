"""By which policies somebody had what a change took away.

A loss says what somebody may not do any more. Who reads logs knows only by which policies
something passed, so for each of those it is told whether it gives that party nothing of the type
any longer, or a part still.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from adminapp.policies.access import Access

if TYPE_CHECKING:
    from adminapp.policies.reach import Reach

_Bits: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Ended:
    """What a policy gave, and to whom it does so no more.

    Args:
        action: publish or subscribe.
        type: name of the event type.
        policy: name of the policy.
        agreement: primary key of the agreement that let them in; 0 for the domain's own.
        wholly: handles of those to whom it gives nothing of the type any more.
        partly: of those to whom it gives less of it than it did, or may.
    """

    action: str
    type: str
    policy: str
    agreement: int
    wholly: tuple[str, ...]
    partly: tuple[str, ...]


def ended(before: Reach, after: Reach, losses: Iterable[Access]) -> list[Ended]:
    """By which policies they had what they lost.

    Args:
        before: what everybody could do.
        after: what everybody can do now.
        losses: from `compare`.
    """
    lost: dict[tuple[str, str], dict[tuple[str, str], set[str]]] = {}
    for line in losses:
        slots = lost.setdefault((line.agreement, line.domain), {})
        slots.setdefault((line.action, line.type), set()).add(line.handle)
    left = {part.number: _Part(part) for part in after.parts}
    return [
        found
        for part in before.parts
        if (slots := lost.get((part.agreement, part.crowd.domain)))
        for known in (_Part(part),)
        for slot, handles in slots.items()
        for found in _of_slot(known, left.get(part.number), slot, sorted(handles))
    ]


def giving(
    part: Reach,
    action: str,
    type: str,  # noqa: A002
    policy: str,
    handles: Sequence[str],
) -> frozenset[str]:
    """To which of some principals a policy gives something of a type, on a condition at least."""
    asked = _Part(part).asked(handles)
    return frozenset(_those(handles, asked.have(part.chosen(action, type, None, policy))))


def _of_slot(
    before: _Part, after: _Part | None, slot: tuple[str, str], handles: list[str]
) -> Iterator[Ended]:
    old = before.asked(handles)
    new = None if after is None else after.asked(handles)
    chosen = before.reach.chosen(*slot, None).tolist()
    for policy in sorted({before.reach.grants[index].rule.policy for index in chosen}):
        nobody = np.zeros(len(handles), dtype=np.bool_)
        now = [] if new is None else new.reach.chosen(*slot, None, policy).tolist()
        still = nobody if new is None else new.have(now)
        touched = nobody.copy()
        for index in chosen:
            grant = before.reach.grants[index]
            if grant.rule.policy != policy:
                continue
            had = old.have([index])
            if new is not None and not grant.way.joins:
                # With joins it may stand for fewer values, which nobody can tell from here.
                same = [each for each in now if new.reach.grants[each].key == grant.key]
                had &= ~new.have(same)
            touched |= had
        if touched.any():
            yield Ended(
                *slot,
                policy,
                before.reach.number,
                tuple(_those(handles, touched & ~still)),
                tuple(_those(handles, touched & still)),
            )


class _Part:
    """The domain's own principals, or those of an agreement, by handle."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self._places = {handle: place for place, handle in enumerate(reach.crowd.handles)}

    def asked(self, handles: Sequence[str]) -> _Asked:
        """Some of them; who is none of them has nothing."""
        places = (self._places.get(handle, -1) for handle in handles)
        return _Asked(self.reach, np.fromiter(places, dtype=np.intp, count=len(handles)))


@dataclass(frozen=True)
class _Asked:
    reach: Reach
    places: NDArray[np.intp]

    def have(self, grants: Sequence[int] | NDArray[np.intp]) -> _Bits:
        """Which of them have one of some grants."""
        at = self.places
        if not len(grants) or not self.reach.crowd.count:
            return np.zeros(len(at), dtype=np.bool_)
        rows = self.reach.matrix[np.asarray(grants, dtype=np.intp)]
        found: _Bits = (rows[:, at >> 3] >> (7 - (at & 7)) & 1).any(axis=0)
        return found & (at >= 0)


def _those(handles: Sequence[str], held: _Bits) -> Iterator[str]:
    return (handle for handle, has in zip(handles, held.tolist(), strict=True) if has)
