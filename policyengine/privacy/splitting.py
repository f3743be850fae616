"""Splitting an event over overlays, and putting it together again (PP-DEBS)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from policyengine.attributes import Value, shown
from policyengine.errors import InputError

MAX_PARTS: Final = 256
"""Most parts of a publication."""


def split(values: Mapping[str, Value], groups: Sequence[Sequence[str]]) -> list[dict[str, Value]]:
    """Split an event's attributes into parts.

    Args:
        values: the event's attributes.
        groups: attribute names of each part; part i holds group i.

    Returns:
        One dictionary a group (one in all where there are no groups). What no group
        names travels in part 0; a part may be empty.

    Raises:
        InputError: `invalid` when two groups name one attribute.
    """
    part_of: dict[str, int] = {}
    for part, group in enumerate(groups):
        for name in group:
            if part_of.setdefault(name, part) != part:
                raise InputError(
                    "invalid", f"attribute {shown(name)} stands in two groups", where=name
                )
    parts: list[dict[str, Value]] = [{} for _ in range(max(1, len(groups)))]
    for name, value in values.items():
        parts[part_of.get(name, 0)][name] = value
    return parts


@dataclass(frozen=True, slots=True)
class Complete:
    """An event that is whole again.

    Args:
        publication: id of the publication.
        values: the attributes of all parts.
        meta: what the caller gave with each part, in order of the parts.
    """

    publication: str
    values: dict[str, Value]
    meta: tuple[Any, ...]


@dataclass(slots=True)
class _Pending:
    parts: int
    since: float | None
    values: dict[int, dict[str, Value]] = field(default_factory=dict)
    meta: dict[int, Any] = field(default_factory=dict)


class Reassembler:
    """Puts parts together, in whatever order, however often and with whatever loss.

    Args:
        window: how many incomplete publications are kept, and how many complete
            ones are remembered so that late doubles are known. At least 1.

    Raises:
        InputError: `invalid` for a window below 1.
    """

    def __init__(self, window: int) -> None:
        if window < 1:
            raise InputError("invalid", "a window holds at least one publication", where="window")
        self._window = window
        self._pending: OrderedDict[str, _Pending] = OrderedDict()
        self._done: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        """Return how many publications are incomplete."""
        return len(self._pending)

    def add(
        self,
        publication_id: str,
        part: int,
        parts: int,
        values: Mapping[str, Value],
        meta: Any = None,
        *,
        now: float | None = None,
    ) -> Complete | None:
        """Take one part.

        Args:
            publication_id: id of the publication.
            part: number of the part, from 0.
            parts: how many parts the publication has.
            values: the attributes of this part.
            meta: anything that the caller wants back.
            now: seconds; without it age counts from the next `expire`.

        Returns:
            The event once all its parts are there, else None. A double, and
            whatever comes after the event was complete, changes nothing.

        Raises:
            InputError: `invalid` when the number of the part does not fit, or the
                parts of a publication disagree about how many they are.
        """
        if not 0 <= part < parts <= MAX_PARTS:
            raise InputError("invalid", f"there is no part {part} of {parts}", where="part")
        if publication_id in self._done:
            return None
        pending = self._open(publication_id, parts, now)
        if part not in pending.values:
            pending.values[part] = dict(values)
            pending.meta[part] = meta
        if len(pending.values) < parts:
            return None
        del self._pending[publication_id]
        self._remember(publication_id)
        return _whole(publication_id, pending)

    def missing(self, publication_id: str) -> tuple[int, ...]:
        """Return the parts that an incomplete publication lacks; none for any other."""
        pending = self._pending.get(publication_id)
        if pending is None:
            return ()
        return tuple(part for part in range(pending.parts) if part not in pending.values)

    def expire(self, now: float, max_age: float) -> tuple[str, ...]:
        """Give up publications that have been incomplete for too long.

        Args:
            now: seconds, of the same clock as in `add`.
            max_age: seconds.

        Returns:
            The ids that were given up, oldest first.
        """
        expired: list[str] = []
        for publication_id, pending in self._pending.items():
            if pending.since is None:
                pending.since = now
            elif now - pending.since > max_age:
                expired.append(publication_id)
        for publication_id in expired:
            del self._pending[publication_id]
        return tuple(expired)

    def _open(self, publication_id: str, parts: int, now: float | None) -> _Pending:
        pending = self._pending.get(publication_id)
        if pending is None:
            pending = self._pending[publication_id] = _Pending(parts, now)
            if len(self._pending) > self._window:
                self._pending.popitem(last=False)
        if pending.parts != parts:
            raise InputError(
                "invalid",
                f"the publication has {pending.parts} parts, this one says {parts}",
                where="parts",
            )
        return pending

    def _remember(self, publication_id: str) -> None:
        self._done[publication_id] = None
        if len(self._done) > self._window:
            self._done.popitem(last=False)


def _whole(publication_id: str, pending: _Pending) -> Complete:
    values: dict[str, Value] = {}
    for part in range(pending.parts):
        values.update(pending.values[part])
    return Complete(publication_id, values, tuple(pending.meta[at] for at in range(pending.parts)))
