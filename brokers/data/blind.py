"""Blind profiles at an agent: finish, match, leave out and pre-decrypt what it cannot read.

Everything names its blind epoch, and is handled with keys of that epoch or not at all. What
needs a client's share ends when the share is gone: its events, its filters, its reading.

Source: papers 001, section 5, and 004, steps 5 to 8 and 14 to 20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokers.data.blindfilters import (
    NOTHING_MATCHED,
    BlindStore,
    Matched,
    named_blind_epoch,
    share_of,
)
from brokers.data.hidden import AdmittedHidden
from brokers.data.reasons import (
    MALFORMED,
    MATCH_ONLY,
    NO_KEY,
    NOT_PERMITTED,
    STALE,
    refuse,
)
from brokers.snapshot import DomainSnapshot
from policyengine.blind import (
    BlindPart,
    RoutedBlind,
    finish_part,
    predecrypt,
)
from policyengine.bundles import PublicationPart, RoutedPart
from policyengine.errors import DecodeError, DecryptionError, RejectedError
from policyengine.events import AttributeSpec

_SEARCHABLE = "searchable"


# publications


def admit_blind(
    snapshot: DomainSnapshot,
    part: PublicationPart,
    event_type: str,
    permits: Callable[[str], bool],
) -> AdmittedHidden:
    """Do the home agent's part of a publication's blind share, and leave out what it must.

    Args:
        snapshot: the domain's policy in force.
        part: from its publisher, authenticated.
        event_type: what it is published as.
        permits: whether the publisher may write an attribute.

    Raises:
        RejectedError: `malformed`, `no-share`, `stale`, `epoch-unknown` or `epoch-retired`.
    """
    if not part.blind:
        return AdmittedHidden()
    try:
        sent = BlindPart.from_bytes(part.blind)
    except DecodeError as error:
        raise RejectedError(MALFORMED, f"what agents may not read is damaged: {error}") from error
    if sent.place.domain != snapshot.domain:
        refuse(MALFORMED, "what agents may not read is of another domain")
    share = share_of(snapshot, named_blind_epoch(snapshot, sent.place.epoch), part.publisher)
    _check_declared(sent, snapshot.specs[part.type])
    _check_carried(snapshot, part, sent)
    known = {spec.name for spec in snapshot.specs[event_type] if spec.blind}
    allowed = {name for name in known if permits(name)}
    try:
        finished = finish_part(share, sent, allowed)
    except (RejectedError, DecryptionError) as error:
        raise RejectedError(MALFORMED, "what agents may not read is not the sender's") from error
    dropped = tuple(name for name in sent.names if name not in allowed)
    return AdmittedHidden(finished.to_bytes(), dropped)


def _check_declared(sent: BlindPart, specs: Iterable[AttributeSpec]) -> None:
    # INVARIANT: the searchable part holds searchable attributes only, so that nothing can be
    # matched or read that the type does not protect that way.
    declared = {spec.name: spec for spec in specs}
    searchable = {name for name, spec in declared.items() if spec.blind == _SEARCHABLE}
    sealed = {name for name, spec in declared.items() if spec.blind and spec.sealed}
    for wanted, given in (
        (searchable, {one.name for one in sent.searchable}),
        (sealed, {one.name for one in sent.values.sealed}),
    ):
        if not given <= wanted:
            refuse(MALFORMED, "the part hides attributes that its type does not hide so")


def _check_carried(snapshot: DomainSnapshot, part: PublicationPart, sent: BlindPart) -> None:
    """A part hides only what it may carry, so that no overlay gets what another was to have."""
    if part.parts == 1 or snapshot.splits is None:
        return
    if not snapshot.splits.get(part.type, frozenset()).issuperset(sent.names):
        refuse(STALE, "events of this type are split otherwise, by the policy in force here")


# events


class BlindEvent:
    """The blind share of an event at one agent; matched once for all with equal rights.

    Args:
        snapshot: the domain's policy in force.
        routed: the part.
        store: the agent's encrypted filters.

    Raises:
        RejectedError: `malformed`, `epoch-unknown` or `epoch-retired`.
    """

    def __init__(self, snapshot: DomainSnapshot, routed: RoutedPart, store: BlindStore) -> None:
        self._snapshot, self._store = snapshot, store
        self._whole = routed.parts == 1
        self._part: RoutedBlind | None = None
        self._found: dict[frozenset[str], Matched] = {}
        self.names: tuple[str, ...] = ()
        if routed.blind:
            self._part = _read_part(snapshot, routed.blind)
            self.names = self._part.names

    def matched(self, permits: Callable[[str], bool]) -> Matched:
        """Which filters are met by what somebody may know.

        Args:
            permits: whether they may know an attribute.
        """
        if self._part is None:
            return NOTHING_MATCHED
        known = frozenset(name for name in self.names if permits(name))
        if known not in self._found:
            event = self._part.event(known)
            epoch = self._part.place.epoch
            names = frozenset[str]() if event is None else self._store.match(epoch, event)
            self._found[known] = Matched(epoch, names)
        return self._found[known]

    def delivery(self, handle: str, permits: Callable[[str], bool]) -> tuple[bytes, dict[str, str]]:
        """What a subscriber gets, pre-decrypted (paper 004, step 19).

        Args:
            handle: the subscriber.
            permits: whether it may read an attribute.

        Returns:
            `blind.BlindDelivery`, empty where it gets nothing; and attribute -> why not.
        """
        if self._part is None:
            return b"", {}
        withheld = {name: NOT_PERMITTED for name in self.names if not permits(name)}
        readable = [name for name in self.names if name not in withheld]
        sealed = {one.name for one in self._part.values.sealed}
        # Of a split event no agent sees enough to match: nothing can be had of it then.
        why = MATCH_ONLY if self._whole else NO_KEY
        withheld.update({name: why for name in readable if name not in sealed})
        try:
            held = named_blind_epoch(self._snapshot, self._part.place.epoch)
            share = share_of(self._snapshot, held, handle)
            made = predecrypt(share, self._part, readable)
        except (RejectedError, DecodeError):
            made = None
            withheld.update({name: NO_KEY for name in readable if name in sealed})
        return b"" if made is None else made.to_bytes(), withheld


def _read_part(snapshot: DomainSnapshot, data: bytes) -> RoutedBlind:
    try:
        part = RoutedBlind.from_bytes(data)
    except DecodeError as error:
        raise RejectedError(MALFORMED, f"what agents may not read is damaged: {error}") from error
    if part.place.domain != snapshot.domain:
        refuse(MALFORMED, "what agents may not read is of another domain")
    named_blind_epoch(snapshot, part.place.epoch)
    return part
