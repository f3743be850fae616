"""A subscriber's deliveries on their way to its handler: checked, put together, once each."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from brokers.adapters.logs import log
from brokers.client.assembly import Assembly, Event, Taken, Whole
from brokers.client.homes import HomeWatch
from brokers.client.policy import FORMER_HOME_SECONDS, PolicyHolder
from brokers.ports import Clock, EventLog, KeyStore, Message, SeenEntry
from policyengine.bundles import Delivery, OpenedSessions, open_delivery
from policyengine.errors import InputError, RejectedError

_LOGGER = logging.getLogger("portcullis.client")
WINDOW_SECONDS = 86_400
_ROUND = 1.0


@dataclass(frozen=True)
class _Early:
    """A delivery whose agent or keys are not known yet; waits until `end` (boot time)."""

    message: Message
    payload: bytes
    end: float


class InboxProfile(Protocol):
    """Whose deliveries an inbox takes."""

    @property
    def handle(self) -> str:
        """The client's pseudonym."""

    @property
    def domain(self) -> str:
        """The domain it belongs to."""

    @property
    def keys(self) -> KeyStore:
        """Its private keys."""


class InboxSession(Protocol):
    """What an inbox needs of its client's session."""

    @property
    def profile(self) -> InboxProfile:
        """Whose session it is."""

    @property
    def policy(self) -> PolicyHolder:
        """What is in force."""

    @property
    def watch(self) -> HomeWatch:
        """Which agents are silent."""

    @property
    def clock(self) -> Clock:
        """Both clocks."""

    @property
    def connected(self) -> bool:
        """Whether every broker in use can be reached at this moment."""


class Inbox:
    """Takes deliveries from the overlays' threads and hands out whole events.

    A message is acknowledged only when its event was handled and recorded as such, so that
    a crash can repeat an event and never lose one.

    Args:
        session: the client's session.
        wanted: whether a subscription wants an event.
        seen: the window against doubles, open as long as the inbox.
        confirmed: makes a message one whose acknowledgement is confirmed to its agent.
        arrived: called on an overlay's thread whenever an event became whole.
    """

    def __init__(
        self,
        session: InboxSession,
        wanted: Callable[[Event], bool],
        seen: EventLog,
        arrived: Callable[[], None] | None = None,
        confirmed: Callable[[Delivery, Message], Message] | None = None,
    ) -> None:
        self._session = session
        self._wanted = wanted
        self.arrived = arrived
        self._confirmed = confirmed
        self._seen = seen
        self._assembly = Assembly(self._seen.__contains__, session.profile.domain)
        self._arrived = threading.Condition()
        self._whole: deque[Whole] = deque()
        self._early: list[_Early] = []
        self._later: list[tuple[float, Whole]] = []
        self._closed = False
        self._away = float("-inf")
        self._sessions = OpenedSessions()
        self.doubles = 0
        self.given_up = 0

    @property
    def incomplete(self) -> int:
        """Events of which a part is awaited."""
        return self._assembly.incomplete

    # what arrives

    def take(self, message: Message, payload: bytes) -> None:
        """Take a message with a sealed delivery."""
        end = self._session.clock.boot() + FORMER_HOME_SECONDS
        self._take(_Early(message, payload, end))

    def retry(self) -> None:
        """Try again what waits for an agent or a key to become known."""
        with self._arrived:
            early, self._early = self._early, []
        for one in early:
            self._take(one)

    def _take(self, early: _Early) -> None:
        try:
            delivery = self._open(early)
            if delivery is not None:
                self._assemble(delivery, early.message)
        except (RejectedError, InputError) as error:
            log(_LOGGER, logging.WARNING, "delivery refused", reason=str(error))
            early.message.ack()

    def _open(self, early: _Early) -> Delivery | None:
        """The verified delivery, or None where its agent is not known yet."""
        profile, policy = self._session.profile, self._session.policy
        unknown: list[str] = []

        def verify_key(agent: str) -> bytes:
            try:
                return policy.verify_key(agent)
            except KeyError:
                unknown.append(agent)
                raise

        try:
            delivery = open_delivery(
                early.payload,
                key=profile.keys.sealing,
                handle=profile.handle,
                verify=verify_key,
                sessions=self._sessions,
            )
        except RejectedError:
            if not unknown or self._session.clock.boot() >= early.end:
                raise
            # We moved to a new home, and its delivery was faster than our bundle.
            with self._arrived:
                self._early.append(early)
            return None
        # INVARIANT: an agent speaks only for the domains in which it serves us.
        if not policy.serves(delivery.domain, delivery.agent):
            raise RejectedError("audience", "the agent does not serve us in that domain")
        self._session.watch.heard(delivery.agent, self._session.clock.boot())
        return self._uncover(delivery, early)

    def _uncover(self, delivery: Delivery, early: _Early) -> Delivery | None:
        """The delivery with what agents could not read; None where its keys are on their way."""
        held = self._session.policy.of(delivery.domain)
        if held is None or not delivery.blind:
            return delivery
        if held.blind.awaits(delivery) and self._session.clock.boot() < early.end:
            with self._arrived:
                self._early.append(early)
            return None
        return held.blind.open(delivery)

    def _assemble(self, delivery: Delivery, message: Message) -> None:
        if self._confirmed is not None:
            message = self._confirmed(delivery, message)
        with self._arrived:
            try:
                taken = self._assembly.add(delivery, message, now=self._session.clock.boot())
            except InputError as error:
                log(_LOGGER, logging.WARNING, "delivery refused", reason=str(error))
                taken = Taken()
                message.ack()
            if taken.whole is not None:
                self._whole.append(taken.whole)
                self._arrived.notify_all()
            if taken.double:
                self.doubles += 1
                message.ack()
        if taken.whole is not None and self.arrived is not None:
            self.arrived()

    # what is handed out

    def next(self, timeout: float | None) -> Whole | None:
        """The next event that is wanted, or None after `timeout` seconds or `close`."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._closed:
            self._tidy()
            whole = self._pop(_ROUND if end is None else min(_ROUND, end - time.monotonic()))
            if whole is not None and self._wanted(whole.event):
                return whole
            if whole is not None:
                self.handled(whole)
            elif end is not None and time.monotonic() >= end:
                return None
        return None

    def _pop(self, timeout: float) -> Whole | None:
        with self._arrived:
            self._due()
            self._arrived.wait_for(lambda: bool(self._whole) or self._closed, max(0.0, timeout))
            return self._whole.popleft() if self._whole else None

    def _due(self) -> None:
        now = self._session.clock.boot()
        self._whole.extend(whole for at, whole in self._later if at <= now)
        self._later = [(at, whole) for at, whole in self._later if at > now]

    def again(self, whole: Whole, seconds: float) -> None:
        """Hand an event out once more, after so many seconds."""
        with self._arrived:
            self._later.append((self._session.clock.boot() + seconds, whole))

    def handled(self, whole: Whole) -> None:
        """Record that an event was handled, then acknowledge all that it came in."""
        now = self._session.clock.wall()
        # INVARIANT: recorded before acknowledged.
        self._seen.record([SeenEntry(whole.key, int(now))], now=now)
        with self._arrived:
            self._assembly.handled(whole)
        _acknowledge(whole.carriers)

    def _tidy(self) -> None:
        if self._early:
            self.retry()
        policies = self._session.policy.domains.values()
        now = self._session.clock.boot()
        # While a broker is away its parts are late through no fault of theirs; when it is back
        # they have their time, as publishers send them only now.
        if not self._session.connected:
            self._away = now
        window = max((policy.window_seconds for policy in policies), default=0)
        if not policies or now < self._away + window:
            return
        with self._arrived:
            given_up = self._assembly.give_up(now, window)
        for carriers in given_up:
            self.given_up += 1
            log(_LOGGER, logging.WARNING, "event given up, a part is missing")
            _acknowledge(carriers)

    def wake(self) -> None:
        """End every wait, for good."""
        with self._arrived:
            self._closed = True
            self._arrived.notify_all()


def _acknowledge(carriers: Iterable[object]) -> None:
    for carrier in carriers:
        if isinstance(carrier, Message):
            carrier.ack()
