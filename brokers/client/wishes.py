"""What a subscriber asked for: kept on disk, and asked of every agent that serves it."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Hashable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from brokers.adapters.files import write_atomically
from brokers.adapters.logs import log
from brokers.client.assembly import Event, Interests
from brokers.client.blind import AskedFor
from brokers.client.errors import ProfileError, Refused, TimedOut, refusal
from brokers.client.formats import READS, AgentFormats, PlaceFile
from brokers.client.homes import lasting
from brokers.client.policy import ClientPolicy
from brokers.client.session import Session, fresh_identifier
from brokers.client.wish import Wish, seal_wish
from brokers.data.subscriptions import compile_filter
from brokers.ports import TransportError
from policyengine.bundles import HomeAgent, Reply
from policyengine.errors import InputError, RejectedError

_LOGGER = logging.getLogger("portcullis.client")
_RETRY_PAUSE = 0.3
_RENEW_SECONDS = 10.0
_OFFER_SECONDS = 5.0
PROBE_SECONDS = 15.0


@dataclass(frozen=True)
class _Place:
    """An overlay where a domain's events reach this client: who is asked, who otherwise."""

    domain: str
    home: HomeAgent
    fallback: HomeAgent | None


class Wishes:
    """Keeps the subscriptions of one client and sees to it that its agents know them.

    On each overlay the home is asked. Where it is silent and there is a second agent, that one
    is asked, until the home answers again; then the second one is told that it is over. What
    both deliver in between is told apart by the event's identifier.

    Args:
        session: the client's session, not started yet.
        probe: seconds without a word after which a home that has a second agent is asked
            whether it is there.

    Raises:
        ProfileError: the file with the subscriptions is damaged.
    """

    def __init__(self, session: Session, *, probe: float = PROBE_SECONDS) -> None:
        self._session = session
        self._own = session.profile.domain
        self._probe = probe
        self._file = session.profile.state / "wishes.json"
        self._kept = _load(self._file)
        # Agents that stand in or did, and may hold subscriptions of ours: (domain, agent).
        self._stand_ins = PlaceFile(session.profile.state / "standins.json")
        self._formats = AgentFormats(session.profile.state / "formats.json")
        self._confirmed: dict[tuple[str, str], Hashable] = {}
        self._asked: dict[str, tuple[Hashable, AskedFor]] = {}
        self._compiled: dict[str, tuple[str, dict[str, Wish], Interests]] = {}
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="client-wishes", daemon=True)

    @property
    def all(self) -> tuple[Wish, ...]:
        """Every subscription."""
        return tuple(self._kept.values())

    def wish(self, event_type: str, text: str, domain: str | None) -> Wish:
        """The wish for a type and a filter; the client's own domain where None."""
        return Wish.of(event_type, text, "" if domain == self._own else domain or "")

    def want(self, event: Event) -> bool:
        """Whether one of the subscriptions wants a whole event."""
        domain = event.domain or self._own
        policy, kept = self._session.policy.of(domain), self._kept
        if policy is None:
            return False
        held = self._compiled.get(domain)
        if held is None or held[0] != policy.digest or held[1] is not kept:
            pairs = [(one.type, one.filter) for one in kept.values() if self._domain(one) == domain]
            held = (policy.digest, kept, Interests.build(policy.types, pairs))
            self._compiled[domain] = held
        return held[2].meet(event)

    def _domain(self, wish: Wish) -> str:
        return wish.domain or self._own

    # begin and end

    def add(self, wish: Wish, timeout: float) -> None:
        """Begin a subscription at every agent that is to know it.

        Raises:
            Refused: an agent's reason, `not-ready`, or `timeout`.
            InputError: the filter is wrong.
        """
        deadline = time.monotonic() + timeout
        policy = self._session.wait_ready(timeout, self._domain(wish))
        if wish.type in policy.types.names:
            compile_filter(wish.filter, policy.types.attributes(wish.type))
            policy.blind.ask(wish.type, wish.filter)
        before = self._kept
        # Kept first: events may arrive before the last agent has answered.
        self._keep({**before, wish.identifier: wish})
        try:
            for place in _places(policy):
                self._ask(place, wish, "subscribe", deadline)
            self.renew()
        except Refused as error:
            if error.reason != "timeout":
                self._keep(before)
            raise

    def remove(self, identifier: str, timeout: float) -> None:
        """End a subscription at every agent that may know it.

        Raises:
            Refused: an agent's reason, `not-ready`, or `timeout`.
        """
        wish = self._kept.get(identifier)
        if wish is None:
            return
        deadline = time.monotonic() + timeout
        self._keep({name: kept for name, kept in self._kept.items() if name != identifier})
        for place in _places(self._session.wait_ready(timeout, self._domain(wish))):
            self._ask(place, wish, "unsubscribe", deadline)

    def _keep(self, kept: dict[str, Wish]) -> None:
        entries = [asdict(wish) for wish in kept.values()]
        write_atomically(self._file, json.dumps(entries).encode())
        self._kept = kept

    # asking

    def _ask(self, place: _Place, wish: Wish, action: str, deadline: float) -> None:
        """Ask the agent that serves there at this moment, until one answers."""
        while (left := deadline - time.monotonic()) > 0:
            agent = self._serving(place)
            where = (place.domain, agent.agent)
            reads = self._formats.told(where) if action == "subscribe" else ()
            patience = self._session.watch.patience if place.fallback or reads else left
            state = (self._state(place.domain, wish), reads)
            reply = self._ask_once(where[0], agent, wish, action, min(left, patience), reads=reads)
            if reply is None and reads and self._session.connected_to(agent.overlay):
                self._formats.unanswered(where)
            if reply is not None and reply.ok:
                self._note(agent, wish, action, state)
                return
            if reply is not None and lasting(reply.reason, at_home=agent is place.home):
                raise refusal(reply.reason, reply.message)
            self._stopping.wait(min(_RETRY_PAUSE, left))
        raise TimedOut("timeout", f"agent `{place.home.agent}` did not answer in time")

    def _serving(self, place: _Place) -> HomeAgent:
        now = self._session.clock.boot()
        agent = self._session.watch.choose(place.home, place.fallback, now)
        if agent is not place.home:
            self._stand_ins.put((place.domain, agent.agent))
        return agent

    def _note(self, agent: HomeAgent, wish: Wish, action: str, state: Hashable = ()) -> None:
        place = (wish.identifier, agent.agent)
        if action == "subscribe":
            self._confirmed[place] = state
        else:
            self._confirmed.pop(place, None)

    def _ask_once(
        self,
        domain: str,
        agent: HomeAgent,
        wish: Wish,
        action: str,
        left: float,
        *,
        reads: tuple[str, ...] = (),
        owed: bool = True,
    ) -> Reply | None:
        profile, request = self._session.profile, fresh_identifier()
        sealed = seal_wish(
            wish, action, agent,
            domain=domain, client=profile.handle, request=request,
            issued=self._session.now(), signing_key=profile.keys.signing,
            asked=self._as_agents_get_it(domain, wish, action), reads=reads,
        )  # fmt: skip
        watch, clock = self._session.watch, self._session.clock
        self._session.expect((request, 0))
        try:
            self._session.send(agent, "subscribe", sealed, left, domain=domain)
            if owed:
                watch.asked(agent.agent, clock.boot())
            reply = self._session.wait_reply((request, 0), left)
        except TransportError:
            return None
        finally:
            self._session.forget((request, 0))
        if reply is None and not self._session.connected_to(agent.overlay):
            watch.interrupted(agent.agent)
        return reply

    def _state(self, domain: str, wish: Wish) -> Hashable:
        """Changes where agents must be told a wish anew, because its filter is encrypted."""
        policy = self._session.policy.of(domain)
        return () if policy is None else policy.blind.asked_under(wish.type)

    def _as_agents_get_it(self, domain: str, wish: Wish, action: str) -> AskedFor:
        policy = self._session.policy.of(domain)
        if policy is None or action != "subscribe":
            return AskedFor("")
        state = policy.blind.asked_under(wish.type)
        # The same ciphertext as long as it holds, for an agent does not work on it again then.
        held = self._asked.get(wish.identifier)
        if held is None or held[0] != state:
            held = state, policy.blind.ask(wish.type, wish.filter)
            self._asked[wish.identifier] = held
        return held[1]

    # agents come, go and fall silent: tell whoever serves now everything

    def start(self) -> None:
        """Begin to renew subscriptions in the background."""
        self._thread.start()
        self.renew()

    def renew(self) -> None:
        """Look soon whether every agent that is to know a subscription does."""
        self._changed.set()

    def stop(self) -> None:
        """Stop the background thread."""
        self._stopping.set()
        self._changed.set()
        self._thread.join(_RENEW_SECONDS)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._changed.wait(min(_RENEW_SECONDS, self._probe))
            self._changed.clear()
            for policy in list(self._session.policy.domains.values()):
                for place in _places(policy):
                    self._look_after(place)

    def _look_after(self, place: _Place) -> None:
        wishes = [wish for wish in self.all if self._domain(wish) == place.domain]
        # Deliveries may wait there even where nothing is wished any more.
        there = self._session.connected_to(place.home.overlay)
        for wish in self._due(place, wishes) if there else ():
            if self._stopping.is_set():
                return
            self._tell(place, wish, "subscribe")
            if wish.identifier not in self._kept:
                # It was ended while we asked: the last word counts.
                self._tell(place, wish, "unsubscribe")
        if there and self._serving(place) is place.home:
            self._relieve(place, wishes)
        if there and wishes:
            self._offer(place, wishes[0])

    def _due(self, place: _Place, wishes: list[Wish]) -> Iterator[Wish]:
        """Wishes to tell: what the serving agent does not know yet, or one to see if it lives."""
        agent = self._serving(place)
        reads = self._formats.told((place.domain, agent.agent))
        unknown = [
            one
            for one in wishes
            if self._confirmed.get((one.identifier, agent.agent), None)
            != (self._state(place.domain, one), reads)
        ]
        if unknown or place.fallback is None or not wishes:
            yield from unknown
            return
        now = self._session.clock.boot()
        if self._session.watch.quiet_for(agent.agent, now) >= self._probe:
            yield wishes[0]

    def _tell(self, place: _Place, wish: Wish, action: str) -> None:
        patience = self._session.watch.patience
        # Long enough to notice that the home is silent and to ask the second agent.
        seconds = 2 * patience + _RETRY_PAUSE if place.fallback else _RENEW_SECONDS
        try:
            self._ask(place, wish, action, time.monotonic() + seconds)
        except (Refused, RejectedError, InputError) as error:
            log(_LOGGER, logging.WARNING, "subscription not renewed", reason=str(error))
            return
        if self._serving(place) is not place.home:
            for one in self.all:
                self._confirmed.pop((one.identifier, place.home.agent), None)

    def _offer(self, place: _Place, wish: Wish) -> None:
        """Find out whether the agent knows of sessions; then every wish is told anew with it."""
        agent = self._serving(place)
        where = (place.domain, agent.agent)
        known = (wish.identifier, agent.agent) in self._confirmed
        if not known or not self._formats.try_now(where, self._session.clock.boot()):
            return
        # An earlier release says nothing to this: it owes us no answer.
        reply = self._ask_once(
            place.domain, agent, wish, "subscribe", _OFFER_SECONDS, reads=READS, owed=False
        )
        if reply is not None and reply.ok:
            self._formats.understood(where)
            self.renew()
        if wish.identifier not in self._kept:
            self._tell(place, wish, "unsubscribe")

    def _relieve(self, place: _Place, wishes: list[Wish]) -> None:
        """The home serves again and knows every wish: its stand-in need not."""
        second = place.fallback
        if second is None or (place.domain, second.agent) not in self._stand_ins.places:
            return
        if any((one.identifier, place.home.agent) not in self._confirmed for one in wishes):
            return
        for wish in wishes:
            reply = self._ask_once(
                place.domain, second, wish, "unsubscribe", self._session.watch.patience
            )
            if reply is None or not reply.ok:
                return  # it is asked again in the next round
            self._note(second, wish, "unsubscribe")
        self._stand_ins.drop((place.domain, second.agent))


def _places(policy: ClientPolicy) -> list[_Place]:
    homes, seconds = policy.homes.items(), policy.fallbacks
    return [_Place(policy.domain, home, seconds.get(overlay)) for overlay, home in homes]


def _load(path: Path) -> dict[str, Wish]:
    if not path.exists():
        return {}
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        found = [Wish(**entry) for entry in document]
    except (ValueError, TypeError, KeyError):
        raise ProfileError(f"{path} is damaged; remove it and subscribe anew") from None
    return {wish.identifier: wish for wish in found}
