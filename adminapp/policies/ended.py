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
    left = {part.number: part for part in after.parts}
    return [
        found
        for part in before.parts
        for (action, name), handles in lost.get((part.agreement, part.crowd.domain), {}).items()
        for found in _of_slot(part, left.get(part.number), (action, name), sorted(handles))
    ]


def giving(
    part: Reach,
    action: str,
    type: str,  # noqa: A002
    policy: str,
    handles: Sequence[str],
) -> frozenset[str]:
    """To which of some principals a policy gives something of a type, on a condition at least."""
    held = _having(part, part.chosen(action, type, None, policy), handles)
    return frozenset(_those(handles, held))


def _of_slot(
    before: Reach, after: Reach | None, slot: tuple[str, str], handles: list[str]
) -> Iterator[Ended]:
    nobody = np.zeros(len(handles), dtype=np.bool_)
    chosen = before.chosen(*slot, None).tolist()
    for policy in sorted({before.grants[index].rule.policy for index in chosen}):
        touched, still = nobody.copy(), nobody
        now = np.array([], dtype=np.intp)
        if after is not None:
            now = after.chosen(*slot, None, policy)
            still = _having(after, now, handles)
        for index in chosen:
            grant = before.grants[index]
            if grant.rule.policy != policy:
                continue
            had = _having(before, [index], handles)
            if after is not None and not grant.way.joins:
                # With joins it may stand for fewer values, which nobody can tell from here.
                same = [each for each in now.tolist() if after.grants[each].key == grant.key]
                had &= ~_having(after, same, handles)
            touched |= had
        if touched.any():
            yield Ended(
                *slot,
                policy,
                before.number,
                tuple(_those(handles, touched & ~still)),
                tuple(_those(handles, touched & still)),
            )


def _having(part: Reach, grants: Sequence[int] | NDArray[np.intp], handles: Sequence[str]) -> _Bits:
    """Which of some principals have one of some grants."""
    places = {handle: place for place, handle in enumerate(part.crowd.handles)}
    at = np.array([places.get(handle, -1) for handle in handles], dtype=np.intp)
    if not len(grants) or not len(at) or not part.crowd.count:
        return np.zeros(len(at), dtype=np.bool_)
    union = np.bitwise_or.reduce(part.matrix[np.asarray(grants, dtype=np.intp)], axis=0)
    found: _Bits = (union[at >> 3] >> (7 - (at & 7)) & 1).astype(np.bool_)
    return found & (at >= 0)


def _those(handles: Sequence[str], held: _Bits) -> Iterator[str]:
    return (handle for handle, has in zip(handles, held.tolist(), strict=True) if has)
