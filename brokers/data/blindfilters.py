"""Filters of which an agent matches a part blindly: checked, finished, kept, matched.

A filter is kept as its client sent it and finished with the agent's share, so that it meets
nothing any more once the share is gone.

Source: papers 001, sections 5.3 and 5.4, and 004, steps 5 to 8 and 17.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from brokers.data.match import ACCEPTED
from brokers.data.reasons import (
    EPOCH_RETIRED,
    EPOCH_UNKNOWN,
    INVALID_FILTER,
    NO_SHARE,
    refuse,
)
from brokers.snapshot import BlindEpoch, DomainSnapshot
from policyengine import sde
from policyengine.attributes import Expression, Value, evaluate, names, parse
from policyengine.blind import AgentShare, BlindFilter, FinishedAlternative, finish_filter
from policyengine.errors import DecodeError, DecryptionError, InputError, RejectedError
from policyengine.events import AttributeSpec
from policyengine.primitives.canonical import b64, unb64


def named_blind_epoch(snapshot: DomainSnapshot, epoch: int) -> BlindEpoch:
    """The blind epoch in which an event is to be matched.

    Raises:
        RejectedError: `epoch-unknown`, where the agent does not match in it yet, or
            `epoch-retired`, where it does no more.
    """
    held = snapshot.blind.get(epoch)
    if held is not None and held.state in ACCEPTED:
        return held
    if held is not None or epoch > max(snapshot.blind, default=-1):
        raise RejectedError(EPOCH_UNKNOWN, f"blind epoch {epoch} is not in force here yet")
    raise RejectedError(EPOCH_RETIRED, f"blind epoch {epoch} is over")


def share_of(snapshot: DomainSnapshot, held: BlindEpoch, handle: str) -> AgentShare:
    """The agent's share of a client.

    Raises:
        RejectedError: `no-share`, where it holds none, or the client was taken out.
    """
    share = held.shares.get(handle)
    if share is None or handle in snapshot.denied:
        refuse(NO_SHARE, "this agent holds no share of that client's keys")
    return share


@dataclass(frozen=True)
class Matched:
    """Which encrypted filters an event meets, for somebody who may know some attributes.

    Args:
        epoch: the event's blind epoch; None where nothing of it is blind.
        names: names of the filters.
    """

    epoch: int | None = None
    names: frozenset[str] = frozenset()


NOTHING_MATCHED = Matched()


def blind_text(filters: Iterable[bytes]) -> str:
    """The filters of a request as one text, to be kept."""
    return ",".join(b64(data) for data in filters)


def check_blind_filters(
    snapshot: DomainSnapshot, handle: str, event_type: str, filters: Iterable[bytes]
) -> None:
    """Decide about the blind filters of a request.

    Raises:
        RejectedError: `invalid-filter`, `no-share`, `epoch-unknown` or `epoch-retired`.
    """
    for data in filters:
        blind = _read_filter(data)
        held = snapshot.blind.get(blind.place.epoch)
        if blind.place.domain != snapshot.domain:
            refuse(INVALID_FILTER, "the filter is of another domain")
        if held is None:  # one that is staged is welcome before events come in it
            named_blind_epoch(snapshot, blind.place.epoch)
        else:
            specs = tuple(snapshot.specs[event_type])
            for one in _finished(share_of(snapshot, held, handle), blind):
                _alternative(one, specs)


def _read_filter(data: bytes) -> BlindFilter:
    try:
        return BlindFilter.from_bytes(data)
    except DecodeError as error:
        raise RejectedError(INVALID_FILTER, f"the filter is damaged: {error}") from error


def check_readable(expression: Expression | None, specs: Iterable[AttributeSpec]) -> None:
    """Refuse a filter in clear that names what agents may not read.

    Raises:
        RejectedError: `invalid-filter`.
    """
    hidden = {spec.name for spec in specs if spec.blind}
    asked = () if expression is None else names(expression)
    for name in asked:
        if name in hidden:
            refuse(
                INVALID_FILTER,
                f"agents cannot read `{name}`; the client must encrypt what it asks of it",
            )


@dataclass(frozen=True)
class BlindAlternative:
    """One way in which an event can meet a filter.

    Args:
        clear: what must hold of attributes in clear; None for nothing.
        search: what must hold of searchable ones; None for nothing.
        name: names `search` among the filters of an agent.
    """

    clear: Expression | None
    search: sde.EncryptedFilter | None
    name: str


_Finished = tuple[int, tuple[FinishedAlternative, ...]]
"""A filter's blind epoch, and its alternatives."""
_REMEMBERED = 16_384


def _finished(share: AgentShare, blind: BlindFilter) -> tuple[FinishedAlternative, ...]:
    try:
        return finish_filter(share, blind)
    except (RejectedError, DecryptionError) as error:
        raise RejectedError(INVALID_FILTER, "the filter is not the sender's") from error


def _alternative(one: FinishedAlternative, specs: tuple[AttributeSpec, ...]) -> BlindAlternative:
    try:
        clear = parse(one.clear, {spec.name: spec.type for spec in specs}) if one.clear else None
    except InputError as error:
        raise RejectedError(INVALID_FILTER, error.message) from error
    check_readable(clear, specs)
    data = b"" if one.search is None else one.search.encode()
    return BlindAlternative(clear, one.search, blake2b(data, digest_size=16).hexdigest())


@dataclass(frozen=True)
class BlindWish:
    """A subscription of which the agent matches a part blindly.

    Args:
        by_epoch: blind epoch -> alternatives, any of which is enough.
    """

    by_epoch: Mapping[int, tuple[BlindAlternative, ...]]

    @property
    def searches(self) -> list[tuple[int, str, sde.EncryptedFilter]]:
        """All that is to be searched for: blind epoch, name, encrypted filter."""
        return [
            (epoch, one.name, one.search)
            for epoch, alternatives in self.by_epoch.items()
            for one in alternatives
            if one.search is not None
        ]

    def met(self, values: Mapping[str, Value], matched: Matched) -> bool:
        """Whether an event meets it.

        Args:
            values: what the subscriber may read of what the agent reads.
            matched: which encrypted filters the event meets.
        """
        for epoch, alternatives in self.by_epoch.items():
            for one in alternatives:
                # INVARIANT: a filter of one epoch says nothing about an event of another.
                met = one.search is None or (epoch == matched.epoch and one.name in matched.names)
                if met and (one.clear is None or evaluate(one.clear, values)):
                    return True
        return False


class BlindStore:
    """The encrypted filters of one domain, with what events have taught about them.

    It outlives changes of subscriptions and policies, so that neither what was compiled nor
    trapdoors seen before are worked on again (see `sde.Matcher`). A filter goes when two
    indices in a row did not want it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._finished: OrderedDict[tuple[AgentShare, str], _Finished] = OrderedDict()
        self._matchers: dict[int, tuple[sde.System, sde.Matcher]] = {}
        self._wanted: dict[tuple[int, str], int] = {}
        self._round = 0

    def wish(self, snapshot: DomainSnapshot, handle: str, event_type: str, text: str) -> BlindWish:
        """Compile what is kept of a subscription's blind filters.

        Those of epochs of which the agent does not hold the client's share meet nothing.

        Args:
            snapshot: the domain's policy.
            handle: the subscriber.
            event_type: the type that it asked for.
            text: from `blind_text`.

        Raises:
            RejectedError: `invalid-filter`, where they do not fit the policy.
        """
        specs = tuple(snapshot.specs[event_type])
        found: dict[int, tuple[BlindAlternative, ...]] = {}
        for held in snapshot.blind.values():
            share = held.shares.get(handle)
            if share is None:
                continue
            for data in text.split(","):
                epoch, finished = self._finish(share, data)
                if epoch == held.epoch:
                    found[epoch] = tuple(_alternative(one, specs) for one in finished)
        return BlindWish(found)

    def _finish(self, share: AgentShare, data: str) -> _Finished:
        place = share, data
        with self._lock:
            if place in self._finished:
                self._finished.move_to_end(place)
                return self._finished[place]
        blind = _read_filter(unb64(data))
        same = blind.place == share.place
        made = blind.place.epoch, (_finished(share, blind) if same else ())
        with self._lock:
            self._finished[place] = made
            if len(self._finished) > _REMEMBERED:
                self._finished.popitem(last=False)
        return made

    def keep(self, systems: Mapping[int, sde.System], wishes: Iterable[BlindWish]) -> None:
        """Take the filters of a new index.

        Args:
            systems: set-up of the searchable encryption by blind epoch.
            wishes: all that the index asks for.
        """
        with self._lock:
            self._round += 1
            for epoch, system in systems.items():
                if epoch not in self._matchers or self._matchers[epoch][0] != system:
                    self._matchers[epoch] = system, sde.Matcher(system)
                    self._wanted = {k: v for k, v in self._wanted.items() if k[0] != epoch}
            for epoch, name, search in (each for wish in wishes for each in wish.searches):
                if (epoch, name) not in self._wanted:
                    self._matchers[epoch][1].add(name, search)
                self._wanted[epoch, name] = self._round
            self._forget(systems)

    def _forget(self, systems: Collection[int]) -> None:
        for epoch, name in [k for k, seen in self._wanted.items() if seen < self._round - 1]:
            del self._wanted[epoch, name]
            self._matchers[epoch][1].remove(name)
        used = {epoch for epoch, _ in self._wanted}
        for epoch in [each for each in self._matchers if each not in systems and each not in used]:
            del self._matchers[epoch]

    def match(self, epoch: int, event: sde.EncryptedEvent) -> frozenset[str]:
        """Names of the filters of an epoch that an event meets."""
        found = self._matchers.get(epoch)
        if found is None or found[0] != event.system:
            return frozenset()
        return frozenset(found[1].match(event))
