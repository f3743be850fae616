"""A client in a simulation: `brokers.client`'s parts without threads or waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from brokers.adapters.control_link import ControlLink
from brokers.client.assembly import Event, Interests
from brokers.client.blind import AskedFor
from brokers.client.errors import Refused
from brokers.client.homes import HomeWatch
from brokers.client.inbox import Inbox
from brokers.client.parts import make_part
from brokers.client.policy import ClientPolicy, PlannedPart, PolicyHolder
from brokers.client.wish import Wish, seal_wish
from brokers.control.sync import Identity
from brokers.data.reasons import RETRYABLE
from brokers.ports import Message, Outgoing, TransportError
from brokers.simulation.disk import ClientDisk
from brokers.simulation.network import Line
from brokers.simulation.node import Node, Surroundings
from brokers.simulation.organisation import Keys, Organisation
from brokers.simulation.plan import ClientSite
from policyengine.attributes import Value
from policyengine.bundles import (
    HomeAgent,
    Reply,
    audience,
    decode_framed,
    delivery_queue,
    encode_framed,
    open_reply,
    publish_queue,
    seal_publication,
)
from policyengine.errors import DecodeError, RejectedError

_TICK = 1.0
_ASK_AGAIN = 10.0
_RETRY = 0.3
_PREFETCH = 500


@dataclass
class Publication:
    """An event that an application gave to its client, and what became of it.

    Args:
        identifier: 32 hexadecimal digits.
        publisher: handle.
        type: event type.
        values: attribute name -> value.
        state: `open`, `accepted`, `refused` or `forgotten` (the client fell before it knew).
        dropped: attributes that an agent left out.
    """

    identifier: str
    publisher: str
    type: str
    values: Mapping[str, Value]
    state: str = "open"
    dropped: tuple[str, ...] = ()


@dataclass
class _OpenPart:
    publication: Publication
    part: PlannedPart
    due: float = 0.0
    sent: bool = False


@dataclass
class _Asked:
    wish: Wish
    home: HomeAgent
    due: float
    request: str = ""
    filter: AskedFor | None = None


@dataclass(frozen=True)
class Profile:
    """Whose client it is."""

    handle: str
    domain: str
    keys: Keys


@dataclass
class Handled:
    """What a subscriber's handler was given, over all lives of the client.

    Args:
        events: as they came.
        again: events that came to the handler once more after a crash.
        doubles: publications that came twice for no good reason.
    """

    events: dict[str, Event] = field(default_factory=dict)
    again: Counter[str] = field(default_factory=Counter)
    doubles: list[str] = field(default_factory=list)


class SimulatedClient(Node):
    """One client that publishes and subscribes.

    Args:
        site: which client.
        organisation: for its keys and anchors.
        around: see `Surroundings`.
        lease_interval: seconds between two requests for the control plane's time.
        clock_error: seconds by which its wall clock is wrong.
    """

    def __init__(
        self,
        site: ClientSite,
        organisation: Organisation,
        around: Surroundings,
        *,
        lease_interval: float = 60.0,
        clock_error: float = 0.0,
    ) -> None:
        super().__init__(site.handle, around, tick=_TICK, clock_error=clock_error)
        self._organisation = organisation
        self._address = audience("client", site.handle)
        self._interval = lease_interval
        self._disk = ClientDisk.empty(self._address, self.guard)
        keys = organisation.keys[self._address]
        self.profile = Profile(site.handle, organisation.domain, keys)
        self.handled = Handled()
        self.refused_wishes: dict[str, str] = {}
        self._compiled: tuple[tuple[str, tuple[str, ...]], Interests] | None = None
        self._identifiers = self.chance.child("identifiers")
        self._unfinished: str | None = None
        self._given: list[Publication] = []

    # starting

    def boot(self) -> None:
        """Put the client together from what its disk kept."""
        keys = self.profile.keys
        self.policy = PolicyHolder(self._changed, self.clock)
        self.watch = HomeWatch()
        self._overlays: dict[str, Line] = {}
        self._parts: dict[tuple[str, int], _OpenPart] = {}
        self._left: Counter[str] = Counter()
        self._asked: dict[tuple[str, str], _Asked] = {}
        self._confirmed: set[tuple[str, str]] = set()
        self.inbox = Inbox(self, self._wants, self._disk.seen)
        self.link = ControlLink(
            transport=self.connect("control"),
            identity=Identity(self._address, keys.sealing, self._organisation.authority.anchors()),
            signing_key=keys.signing,
            bundles=self._disk.bundles,
            state_file=self._disk.state,
            clock=self.clock,
            applier=self.policy,
            lease_interval=self._interval,
            only_domain=self.profile.domain,
        )
        self.link.restore()
        self.link.listen()

    def crash(self) -> None:
        """Fall; publications whose answer is not known yet are forgotten."""
        if self.alive:
            for open_part in self._parts.values():
                open_part.publication.state = "forgotten"
            for publication in self._given:
                publication.state = "forgotten"
            self._given = []
        super().crash()

    def _changed(self) -> None:
        for overlay in self.policy.current.homes if self.policy.current else ():
            if overlay not in self._overlays:
                line = self._overlays[overlay] = self.connect(overlay)
                line.subscribe(delivery_queue(self.profile.handle), prefetch=_PREFETCH)
                line.start()
        self.inbox.retry()

    @property
    def connected(self) -> bool:
        """Whether every broker in use can be reached at this moment."""
        return all(line.connected for line in self._overlays.values())

    # what an application asks for

    def publish(self, event_type: str, values: Mapping[str, Value]) -> Publication:
        """Publish an event; it waits here until the client can."""
        publication = Publication(
            self._identifiers.identifier(), self.profile.handle, event_type, dict(values)
        )
        self.around.history.note(
            self.name, "publishes", publication=publication.identifier, type=event_type
        )
        if not self.alive:
            publication.state = "forgotten"
            return publication
        self._given.append(publication)
        self.wake()
        return publication

    def subscribe(self, event_type: str, text: str = "") -> str:
        """Ask for events; durable. Returns the subscription's identifier."""
        wish = Wish.of(event_type, text)
        self._disk.wishes[wish.identifier] = wish
        self.around.history.note(self.name, "subscribes", type=event_type, filter=text)
        self.wake()
        return wish.identifier

    @property
    def settled(self) -> bool:
        """Whether nothing is open: every part answered, every home agent told."""
        policy = self.policy.current
        if not self.alive or policy is None or self._given or self._parts:
            return False
        wanted = {
            (name, home.agent) for name in self._disk.wishes for home in policy.homes.values()
        }
        return wanted <= self._confirmed

    # one turn

    def work(self) -> None:
        """Take what has arrived, hand events out, send what is due."""
        self.link.step(0.0)
        for overlay, line in list(self._overlays.items()):
            for message in line.receive_many(_PREFETCH, 0.0):
                self._file(overlay, message)
        while (whole := self.inbox.next(0.0)) is not None:
            self._hand_out(whole.event)
            self.inbox.handled(whole)
            self._unfinished = None
        policy = self.policy.current
        if policy is not None:
            self._begin(policy)
            self._send_parts(policy)
            self._ask_homes(policy)

    def _file(self, overlay: str, message: Message) -> None:
        try:
            kind, payload = decode_framed(message.body)
            if kind == "delivery":
                self.inbox.take(message, payload)
                return
            if kind == "reply":
                self._answered(self._open(payload))
        except (DecodeError, RejectedError) as error:
            self.around.history.note(
                self.name, "message refused", overlay=overlay, error=type(error).__name__
            )
        message.ack()

    def _open(self, payload: bytes) -> Reply:
        keys, handle = self.profile.keys, self.profile.handle
        return open_reply(payload, key=keys.sealing, handle=handle, verify=self.policy.verify_key)

    # events

    def _wants(self, event: Event) -> bool:
        policy = self.policy.current
        if policy is None:
            return False
        kept = (policy.digest, tuple(self._disk.wishes))
        if self._compiled is None or self._compiled[0] != kept:
            pairs = [(wish.type, wish.filter) for wish in self._disk.wishes.values()]
            self._compiled = (kept, Interests.build(policy.types, pairs))
        return self._compiled[1].meet(event)

    def _hand_out(self, event: Event) -> None:
        handled, name = self.handled, event.publication
        if name in handled.events:
            # Only the event that was under way when the client fell may come again.
            if name == self._unfinished:
                handled.again[name] += 1
            else:
                handled.doubles.append(name)
        handled.events.setdefault(name, event)
        self._unfinished = name
        self.around.history.note(
            self.name, "receives",
            publication=name, type=event.type,
            attributes=dict(sorted(event.attributes.items())),
            withheld=dict(sorted(event.withheld.items())),
        )  # fmt: skip

    # publications

    def _begin(self, policy: ClientPolicy) -> None:
        if not policy.can_tag:
            return
        given, self._given = self._given, []
        for publication in given:
            values = policy.canonical(publication.type, publication.values)
            try:
                parts = policy.plan(publication.type, values)
            except Refused as error:
                self._over(publication, "refused", error.reason)
                continue
            publication.values = values
            self._left[publication.identifier] = len(parts)
            for part in parts:
                self._parts[publication.identifier, part.part] = _OpenPart(publication, part)

    def _send_parts(self, policy: ClientPolicy) -> None:
        now = self.around.timeline.now
        for open_part in list(self._parts.values()):
            if not open_part.sent and open_part.due <= now:
                open_part.sent = self._send_part(policy, open_part)
                open_part.due = now + _RETRY

    def _send_part(self, policy: ClientPolicy, open_part: _OpenPart) -> bool:
        publication, part = open_part.publication, open_part.part
        home, profile = policy.homes[part.overlay], self.profile
        made = make_part(
            policy, part,
            domain=profile.domain, publisher=profile.handle,
            publication=publication.identifier, event_type=publication.type,
            values=publication.values, issued=self.link.now(),
        )  # fmt: skip
        sealed = seal_publication(
            made,
            signing_key=profile.keys.signing,
            recipient=home.sealing_key,
            agent=home.agent,
        )
        return self._send(part.overlay, home.agent, "publication", sealed)

    def _send(self, overlay: str, agent: str, kind: str, sealed: bytes) -> bool:
        queue = publish_queue(agent, self.profile.domain)
        try:
            self._overlays[overlay].send_many([Outgoing(queue, encode_framed(kind, sealed))])
        except TransportError:
            return False
        return True

    def _answered(self, reply: Reply) -> None:
        asked = next((one for one in self._asked.values() if one.request == reply.request), None)
        if asked is not None:
            self._home_answered(asked, reply)
            return
        open_part = self._parts.get((reply.request, reply.part))
        if open_part is None:
            return
        if not reply.ok and reply.reason in RETRYABLE:
            open_part.sent = False
            return
        del self._parts[reply.request, reply.part]
        publication = open_part.publication
        publication.dropped = tuple(dict.fromkeys((*publication.dropped, *reply.dropped)))
        self._left[reply.request] -= 1
        if not reply.ok:
            self._over(publication, "refused", reply.reason)
        elif not self._left[reply.request] and publication.state == "open":
            self._over(publication, "accepted")

    def _over(self, publication: Publication, state: str, reason: str = "") -> None:
        if publication.state == "open":
            publication.state = state
            self.around.history.note(
                self.name, state, publication=publication.identifier, reason=reason
            )

    # subscriptions

    def _ask_homes(self, policy: ClientPolicy) -> None:
        now = self.around.timeline.now
        for wish in self._disk.wishes.values():
            for home in policy.homes.values():
                place = (wish.identifier, home.agent)
                asked = self._asked.setdefault(place, _Asked(wish, home, now))
                if place not in self._confirmed and asked.due <= now:
                    self._ask(asked, policy)

    def _ask(self, asked: _Asked, policy: ClientPolicy) -> None:
        # The same ciphertext each time, for an agent does not work on it again then.
        asked.filter = asked.filter or policy.blind.ask(asked.wish.type, asked.wish.filter)
        asked.request = self._identifiers.identifier()
        sealed = seal_wish(
            asked.wish, "subscribe", asked.home,
            domain=self.profile.domain, client=self.profile.handle, request=asked.request,
            issued=self.link.now(), signing_key=self.profile.keys.signing, asked=asked.filter,
        )  # fmt: skip
        sent = self._send(asked.home.overlay, asked.home.agent, "subscribe", sealed)
        asked.due = self.around.timeline.now + (_ASK_AGAIN if sent else _RETRY)

    def _home_answered(self, asked: _Asked, reply: Reply) -> None:
        if not reply.ok and reply.reason in RETRYABLE:
            asked.due = self.around.timeline.now + _RETRY
            return
        self._confirmed.add((asked.wish.identifier, asked.home.agent))
        if not reply.ok:
            self.refused_wishes[asked.wish.identifier] = reply.reason
            self.around.history.note(self.name, "subscription refused", reason=reply.reason)
