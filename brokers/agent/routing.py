"""Routing between agents in the agent's loop: what is told, heard, given on and confirmed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from brokers.agent.policy import PolicyInForce
from brokers.control.routing import LIFE, PATIENCE, Held, Routes
from brokers.data.forward import FEWEST_PEERS, Forwarding, RoutingEffects, Waiting, send_on
from brokers.data.interests import HeldInterest, Reducer, written
from brokers.ports import Clock, KeyStore, Outgoing
from brokers.snapshot import DomainSnapshot
from policyengine.bundles import (
    Announcement,
    Interest,
    Taken,
    hop_queue,
    rendezvous,
    seal_announcement,
    seal_taken,
)
from policyengine.errors import InputError, RejectedError
from policyengine.events import Subscription as Wanted
from policyengine.primitives.rand import SYSTEM_RANDOM

# The broker drops an announcement well after it has ended, so that clocks need not agree.
_KEPT_AFTERWARDS = 3600
_RECEIPT_LIFE_MS = 60_000
_MOST_KEYS = 4096


class RoutingStore(Protocol):
    """Where the state of routing is kept over a restart."""

    def load(self) -> Mapping[str, object]:
        """Domain -> what `save` was given; empty before the first time."""

    def save(self, states: Mapping[str, object]) -> None:
        """Keep it; returns when it survives a crash."""


@dataclass(frozen=True)
class _Content:
    """What one other agent is to know: the types it carries, and what is wanted of them."""

    scope: tuple[str, ...]
    wanted: tuple[Wanted, ...]
    keys: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Told:
    """An announcement on its way: remembered as told once the broker has it."""

    domain: str
    to: str
    content: Hashable
    now: float


class OverlayRouting:
    """Routing of all domains of an agent; used by the data plane's thread alone.

    Args:
        agent: this agent's name.
        keys: its private keys.
        policy: what is in force.
        now: Unix time in seconds, by the lease's signed time.
        clock: both clocks.
        store: keeps numbers and what others want.
        patience: seconds within which a rendezvous agent confirms.

    Raises:
        DecodeError: what the store kept is damaged.
    """

    def __init__(
        self,
        *,
        agent: str,
        keys: KeyStore,
        policy: PolicyInForce,
        now: Callable[[], float],
        clock: Clock,
        store: RoutingStore,
        patience: float = PATIENCE,
    ) -> None:
        self._agent = agent
        self._keys = keys
        self._policy = policy
        self._now = now
        self._clock = clock
        self._store = store
        self._patience = patience
        self._domains: dict[str, Routes] = {}
        self._reducers: dict[str, Reducer] = {}
        self._contents: dict[str, tuple[int, dict[str, Hashable]]] = {}
        self._read: dict[tuple[str, str], tuple[tuple[int, str], HeldInterest]] = {}
        self._changed = False
        for domain, state in store.load().items():
            self._routes(domain).restore(state)

    def forwarding(self, snapshot: DomainSnapshot) -> Forwarding:
        """What is known of the overlay; stays true while a batch changes it.

        Args:
            snapshot: of the domain.
        """
        routes = self._routes(snapshot.domain)

        def carrier(event_type: str) -> str:
            # With too much unconfirmed, events go to everybody: slower, and nothing is kept.
            return routes.carrier(event_type, snapshot.agents, self._now()) if free() else ""

        def free() -> bool:
            return routes.room(0)

        return Forwarding(carrier, lambda agent: self._interest(snapshot, agent))

    def _interest(self, snapshot: DomainSnapshot, agent: str) -> HeldInterest | None:
        told = self._routes(snapshot.domain).interest(agent, self._now())
        if told is None:
            return None
        place, state = (snapshot.domain, agent), (told.number, snapshot.digest)
        known = self._read.get(place)
        if known is None or known[0] != state:
            known = (state, HeldInterest.read(snapshot, told))
            self._read[place] = known
        return known[1]

    # what this agent tells

    def announcements(self, domains: Iterable[str]) -> tuple[list[Outgoing], list[Told]]:
        """What other agents are to be told now.

        Args:
            domains: those that are served.

        Returns:
            Messages, and what to hand to `told` once they are sent.
        """
        outgoing: list[Outgoing] = []
        told: list[Told] = []
        for domain in domains:
            in_force = self._policy.domains.get(domain)
            if in_force is None or not _routes_events(in_force.snapshot):
                continue
            now, routes = self._now(), self._routes(domain)
            contents = self._plan(in_force.snapshot)
            for name in routes.due(contents, now):
                told.append(Told(domain, name, contents[name], now))
                outgoing.append(self._announcement(in_force.snapshot, name, contents[name], now))
        return outgoing, told

    def told(self, sent: Iterable[Told]) -> None:
        """Announcements are in the broker's keeping."""
        for one in sent:
            self._routes(one.domain).told(one.to, one.content, one.now)

    def _plan(self, snapshot: DomainSnapshot) -> dict[str, Hashable]:
        version = self._policy.version
        known = self._contents.get(snapshot.domain)
        if known is not None and known[0] == version:
            return known[1]
        reducer = self._reducers.setdefault(snapshot.domain, Reducer())
        own = self._policy.own_subscriptions(snapshot.domain)
        wanted = reducer.wanted(snapshot, own)
        below = {one.type: frozenset(snapshot.types.subtree(one.type)) for one in wanted}
        scopes: dict[str, list[str]] = defaultdict(list)
        for name in sorted(snapshot.specs):
            for carrier in rendezvous(snapshot.domain, name, snapshot.agents):
                scopes[carrier].append(name)
        if scopes.pop(snapshot.agent, None):
            # Who carries something is looked for by everybody; others are not, and so many agents
            # tell each other little.
            scopes |= {peer.name: scopes[peer.name] for peer in snapshot.peers}
        epochs = tuple(
            sorted((name, epoch) for name, (epoch, _) in snapshot.sealing_keys().items())
        )
        made: dict[str, Hashable] = {
            peer: _Content(
                tuple(scope),
                tuple(one for one in wanted if below[one.type].intersection(scope)),
                epochs,
            )
            for peer, scope in scopes.items()
        }
        self._contents[snapshot.domain] = (version, made)
        return made

    def _announcement(
        self, snapshot: DomainSnapshot, to: str, content: Hashable, now: float
    ) -> Outgoing:
        if not isinstance(content, _Content):
            raise TypeError("not made by this object")
        try:
            said = content.scope, written(snapshot, content.wanted, random=SYSTEM_RANDOM)
            body, expires = self._sealed(snapshot, to, said, now)
        except InputError:
            # INVARIANT: an interest that cannot be told is never told in part. Nothing is
            # said of any type, so that everything is sent here.
            body, expires = self._sealed(snapshot, to, ((), ()), now)
        return Outgoing(hop_queue(to, snapshot.domain), body, expires=expires)

    def _sealed(
        self,
        snapshot: DomainSnapshot,
        to: str,
        said: tuple[tuple[str, ...], tuple[Interest, ...]],
        now: float,
    ) -> tuple[bytes, int]:
        routes = self._routes(snapshot.domain)
        announcement = Announcement(
            domain=snapshot.domain,
            overlay=snapshot.overlay,
            agent=self._agent,
            to=to,
            number=routes.next_number(now),
            issued=int(now),
            expires=int(now) + LIFE,
            scope=said[0],
            interests=said[1],
            asks=routes.asks(to, now),
        )
        self._changed = True
        epoch, key = _overlay_key(snapshot)
        body = seal_announcement(
            announcement,
            signing_key=self._keys.signing,
            hop_key=key,
            epoch=epoch,
            random=SYSTEM_RANDOM,
        )
        return body, (announcement.expires + _KEPT_AFTERWARDS) * 1000

    # what messages change

    def take(self, domain: str, effects: RoutingEffects) -> None:
        """Take in what a message says, at once: the next one of its queue counts on it."""
        routes = self._routes(domain)
        for announcement in effects.heard:
            self._changed |= routes.hear(announcement)
        for agent in effects.doubted:
            routes.doubt(agent)
            self._changed = True
        for agent, key in effects.confirmed:
            routes.confirm(agent, key)

    def hold(self, domain: str, waiting: Iterable[Waiting]) -> None:
        """Keep events that rendezvous agents were given, until these confirm."""
        for one in waiting:
            held = Held(one.key, one.type, one.hop, one.carrier, self._clock.boot())
            self._routes(domain).hold(held)

    def receipts(
        self, snapshot: DomainSnapshot, effects: Iterable[RoutingEffects]
    ) -> list[Outgoing]:
        """What home agents are told of events that this agent sent on.

        Args:
            snapshot: of the domain.
            effects: of a batch.
        """
        by_home: dict[str, list[bytes]] = {}
        for one in effects:
            for home, key in one.taken:
                by_home.setdefault(home, []).append(key)
        if not by_home or snapshot.sealing_overlay_key() is None:
            return []
        epoch, secret = _overlay_key(snapshot)
        expires = int(self._clock.wall() * 1000) + _RECEIPT_LIFE_MS
        return [
            Outgoing(
                hop_queue(home, snapshot.domain),
                seal_taken(
                    Taken(snapshot.domain, self._agent, home, tuple(keys[at : at + _MOST_KEYS])),
                    hop_key=secret,
                    epoch=epoch,
                    random=SYSTEM_RANDOM,
                ),
                persistent=False,
                expires=expires,
            )
            for home, keys in by_home.items()
            for at in range(0, len(keys), _MOST_KEYS)
        ]

    def overdue(self, snapshot: DomainSnapshot) -> tuple[list[Outgoing], list[Held], list[Waiting]]:
        """Events whose rendezvous agent is silent, on their other way.

        Args:
            snapshot: of the domain.

        Returns:
            Messages; and, for `rerouted` once they are sent, what was held and what is
            to be held from then on.
        """
        found = self._routes(snapshot.domain).overdue(self._clock.boot())
        forwarding = self.forwarding(snapshot)
        outgoing: list[Outgoing] = []
        waiting: list[Waiting] = []
        for held in found:
            departure = send_on(
                snapshot, held.hop, held.key, held.type,
                forwarding=forwarding, random=SYSTEM_RANDOM,
            )  # fmt: skip
            outgoing += departure.outgoing
            waiting += departure.waiting
        return outgoing, list(found), waiting

    def rerouted(self, domain: str, held: Iterable[Held], waiting: Iterable[Waiting]) -> None:
        """Events went their other way."""
        for one in held:
            self._routes(domain).release(one.key)
        self.hold(domain, waiting)

    def save(self) -> None:
        """Keep what has changed; returns when it survives a crash.

        Raises:
            OSError: the disk is full or failing.
        """
        if self._changed:
            self._store.save({name: one.to_json() for name, one in self._domains.items()})
            self._changed = False

    def _routes(self, domain: str) -> Routes:
        if domain not in self._domains:
            self._domains[domain] = Routes(self._agent, domain, patience=self._patience)
        return self._domains[domain]


def _routes_events(snapshot: DomainSnapshot) -> bool:
    return len(snapshot.peers) >= FEWEST_PEERS and snapshot.sealing_overlay_key() is not None


def _overlay_key(snapshot: DomainSnapshot) -> tuple[int, bytes]:
    key = snapshot.sealing_overlay_key()
    if key is None:
        raise RejectedError("no-key", "this agent holds no key of its overlay")
    return key.epoch, key.key
