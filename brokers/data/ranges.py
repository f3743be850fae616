"""Order-preserving attributes at an agent: admit, check filters, match. It holds no key.

Everything stands in columns that name attribute, epoch and domain of values (`ope.keys`), so
that nothing of two epochs meets. Agents check that a column is one of the event type's, of
its epoch and scheme, and that who writes or asks may.

Source: paper 003 (SBM-I, SBM-II); ADR 0038.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from brokers.data.hidden import AdmittedHidden
from brokers.data.match import ACCEPTED
from brokers.data.reasons import (
    EPOCH_RETIRED,
    EPOCH_UNKNOWN,
    INVALID_FILTER,
    MALFORMED,
    MATCH_ONLY,
    NOT_PERMITTED,
    refuse,
)
from brokers.snapshot import DomainSnapshot
from policyengine.bundles import PublicationPart, RoutedPart
from policyengine.bundles.ordered import OrderedColumn
from policyengine.errors import DecodeError, DecryptionError, RejectedError
from policyengine.ope import RangeFilter, RangeIndex, RangeValues
from policyengine.primitives.canonical import b64, unb64

_COMPARED = "sbm2"


def admit_ranges(
    snapshot: DomainSnapshot,
    part: PublicationPart,
    event_type: str,
    permits: Callable[[str], bool],
) -> AdmittedHidden:
    """Decide about the order-preserving values of a publication.

    Args:
        snapshot: the domain's policy in force.
        part: from its publisher, authenticated.
        event_type: what it is published as.
        permits: whether the publisher may write an attribute.

    Raises:
        RejectedError: `malformed`, `epoch-unknown` or `epoch-retired`.
    """
    if not part.ordered:
        return AdmittedHidden()
    values = _read_values(part.ordered)
    columns = _checked(snapshot, part.type, values)
    known = {spec.name for spec in snapshot.specs[event_type]}
    kept = {n for n, one in columns.items() if one.attribute in known and permits(one.attribute)}
    dropped = {one.attribute for name, one in columns.items() if name not in kept}
    return AdmittedHidden(values.only(kept).to_bytes(), tuple(sorted(dropped)))


def accept_ranges(snapshot: DomainSnapshot, routed: RoutedPart) -> None:
    """Check the order-preserving values of a part that another agent admitted.

    Raises:
        RejectedError: `malformed`, `epoch-unknown` or `epoch-retired`.
    """
    if routed.ordered:
        _checked(snapshot, routed.type, _read_values(routed.ordered))


def _read_values(data: bytes) -> RangeValues:
    try:
        return RangeValues.from_bytes(data)
    except DecodeError as error:
        raise RejectedError(MALFORMED, f"order-preserving values are damaged: {error}") from error


def _checked(
    snapshot: DomainSnapshot, event_type: str, values: RangeValues
) -> dict[str, OrderedColumn]:
    found: dict[str, OrderedColumn] = {}
    for event in values.events:
        for name, _ in event.values:
            column = snapshot.ordered.get(name)
            if column is None:
                refuse(EPOCH_UNKNOWN, "an order-preserving value is of an epoch not in force here")
            if column.state not in ACCEPTED:
                over = column.state == "retired"
                refuse(
                    EPOCH_RETIRED if over else EPOCH_UNKNOWN,
                    f"epoch {column.epoch} of `{column.attribute}` is not in force here",
                )
            if column.scheme != event.scheme:
                refuse(MALFORMED, f"`{column.attribute}` is encrypted in another scheme here")
            if not snapshot.types.is_a(event_type, column.type):
                refuse(MALFORMED, "an order-preserving value is not of this event type")
            found[name] = column
    # INVARIANT: an event is of one epoch for each attribute.
    epochs = {(one.type, one.attribute, one.epoch) for one in found.values()}
    if len({place[:2] for place in epochs}) != len(epochs):
        refuse(MALFORMED, "an attribute comes in two epochs")
    return found


# filters


def range_text(data: bytes) -> str:
    """The order-preserving filter of a request as text, to be kept."""
    return b64(data) if data else ""


def check_range_filter(snapshot: DomainSnapshot, event_type: str, data: bytes) -> None:
    """Decide about the order-preserving filter of a request.

    Args:
        snapshot: the domain's policy in force.
        event_type: the type that is asked for.
        data: `ope.RangeFilter`; empty where nothing is asked.

    Raises:
        RejectedError: `invalid-filter`, or `epoch-unknown` where this agent does not know the
            keys yet or any more.
    """
    if not data:
        return
    try:
        asked = RangeFilter.from_bytes(data)
    except DecodeError as error:
        raise RejectedError(INVALID_FILTER, f"the filter is damaged: {error}") from error
    for name, scheme in _schemes(asked):
        column = snapshot.ordered.get(name)
        if column is None:
            refuse(EPOCH_UNKNOWN, "the filter is of an epoch not in force here")
        if column.scheme != scheme:
            refuse(INVALID_FILTER, f"`{column.attribute}` is encrypted in another scheme here")
        if not snapshot.types.is_a(event_type, column.type):
            refuse(INVALID_FILTER, "the filter asks for what is not of this event type")


def _schemes(asked: RangeFilter) -> Iterable[tuple[str, str]]:
    for alternative in asked.alternatives:
        for one in alternative:
            for column, _ in one.ranges:
                yield column, one.scheme


@lru_cache(maxsize=200_000)
def _read_filter(text: str) -> RangeFilter:
    return RangeFilter.from_bytes(unb64(text))


@dataclass(frozen=True)
class RangeWish:
    """The order-preserving part of one subscription.

    Args:
        key: names it in the index.
        filter: what it asks.
        attributes: names of what it asks about, of columns that are known.
    """

    key: tuple[str, str]
    filter: RangeFilter
    attributes: frozenset[str]

    @classmethod
    def of(cls, snapshot: DomainSnapshot, key: tuple[str, str], text: str) -> RangeWish:
        """Read what is kept of a subscription.

        Raises:
            DecodeError: it is damaged.
        """
        asked = _read_filter(text)
        known = (snapshot.ordered.get(name) for name in asked.columns)
        return cls(key, asked, frozenset(one.attribute for one in known if one is not None))


class RangeEvent:
    """The order-preserving values of an event at one agent; matched once, when first asked.

    Args:
        snapshot: the domain's policy in force.
        routed: the part; `accept_ranges` or `admit_ranges` has checked it.
        index: the agent's filters.
    """

    def __init__(
        self, snapshot: DomainSnapshot, routed: RoutedPart, index: RangeIndex | None
    ) -> None:
        self._snapshot = snapshot
        self._type = routed.type
        self._data = routed.ordered
        self._index = index
        self._met: frozenset[Hashable] | None = None

    def meets(self, wish: RangeWish | None, permits: Callable[[str], bool]) -> bool:
        """Whether the event meets what a subscription asks of ranges.

        A filter about what its subscriber may not read is never met, so that it cannot probe
        a hidden value.

        Args:
            wish: what is asked; None for nothing.
            permits: whether the subscriber may read an attribute.

        Raises:
            ComparatorAway: the comparator cannot be asked now.
            RejectedError: `malformed`, where a value does not open.
        """
        if wish is None:
            return True
        if not self._data or not all(permits(name) for name in wish.attributes):
            return False
        if self._met is None:
            self._met = self._matched()
        return wish.key in self._met

    def withheld(self, permits: Callable[[str], bool]) -> dict[str, str]:
        """Attribute -> why a subscriber gets no value of it, of those that do not travel sealed.

        Args:
            permits: whether the subscriber may read an attribute.
        """
        if not self._data:
            return {}
        sealed = {spec.name for spec in self._snapshot.specs[self._type] if spec.sealed}
        columns = (self._snapshot.ordered.get(name) for name in _read_values(self._data).columns)
        there = {one.attribute for one in columns if one is not None} - sealed
        return {name: MATCH_ONLY if permits(name) else NOT_PERMITTED for name in sorted(there)}

    def _matched(self) -> frozenset[Hashable]:
        if self._index is None:
            return frozenset()
        try:
            return self._index.match(_read_values(self._data))
        except DecryptionError as error:
            raise RejectedError(MALFORMED, "an order-preserving value does not open") from error


def keep_ranges(index: RangeIndex | None, wishes: Mapping[Hashable, RangeWish]) -> None:
    """Make these the filters of an index."""
    if index is not None:
        index.replace({key: wish.filter for key, wish in wishes.items()})
