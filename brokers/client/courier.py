"""The thread that brings publications to their agents, and tells who waits what became of them."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from concurrent.futures import Future
from typing import Protocol

from brokers.adapters.logs import log_failure
from brokers.client.dispatch import Dispatch, Outcome, Parcel, Published, Shipment, plan_parcel
from brokers.client.errors import BufferFull, NotReady, Refused, TimedOut
from brokers.client.homes import HomeWatch
from brokers.client.outbox import Kept, Outbox
from brokers.client.parts import seal_part
from brokers.client.policy import PolicyHolder
from brokers.client.profile import Profile
from brokers.ports import Clock, Outgoing, TransportError
from policyengine.bundles import Reply
from policyengine.errors import InputError, PortcullisError

_LOGGER = logging.getLogger("portcullis.client")
_TICK = 0.25
_SEND_TIMEOUT = 10.0
_BATCH = 100
MAX_UNDER_WAY = 1000


class Road(Protocol):
    """What a courier needs of a client's session."""

    @property
    def profile(self) -> Profile:
        """Whose events they are."""

    @property
    def policy(self) -> PolicyHolder:
        """What is in force."""

    @property
    def watch(self) -> HomeWatch:
        """Which agents are silent."""

    @property
    def clock(self) -> Clock:
        """Both clocks."""

    def now(self) -> float:
        """Unix time by the newest lease."""

    def connected_to(self, overlay: str) -> bool:
        """Whether an overlay's broker can be reached now; begins to connect to it."""

    def send_many(self, overlay: str, messages: list[Outgoing], timeout: float) -> None:
        """Send; returns when the broker has them."""


class Courier:
    """Brings publications to their agents until each is accepted or refused.

    Nothing polls: the thread sleeps until something is to be done, and looks at the clock
    four times a second only while an answer is awaited.

    Args:
        road: the client's session.
        outbox: where durable events wait.
        limit: most publications under way at once.
    """

    def __init__(self, road: Road, outbox: Outbox, *, limit: int = MAX_UNDER_WAY) -> None:
        self._road = road
        self._outbox = outbox
        self._limit = limit
        self._dispatch = Dispatch(road.policy.of, road.watch, road.connected_to)
        self._condition = threading.Condition()
        self._futures: dict[str, Future[Published]] = {}
        self._durable: set[str] = set()
        self._read_to = 0
        self._new: dict[str, None] = {}
        self._abandoned: set[str] = set()
        self._replies: deque[Reply] = deque()
        self._looked = float("-inf")
        self._busy = False
        self._woken = False
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="client-courier", daemon=True)

    def start(self) -> None:
        """Begin to work in the background."""
        self._thread.start()

    # from any thread

    def carry(self, parcel: Parcel, timeout: float) -> Future[Published]:
        """Take a parcel that somebody waits for.

        Args:
            parcel: the event.
            timeout: seconds to wait for room.

        Raises:
            BufferFull: no room in time.
        """
        future: Future[Published] = Future()
        with self._condition:
            room = self._condition.wait_for(
                lambda: self._stopping or len(self._dispatch) < self._limit, timeout
            )
            if not room or self._stopping:
                raise BufferFull(f"{self._limit} events are under way, and no more may be")
            self._futures[parcel.id] = future
            self._dispatch.add(parcel)
            self._new[parcel.id] = None
            self._wake()
        return future

    def forget(self, identifier: str) -> None:
        """Nobody waits for it any more; it is sent once all the same."""
        with self._condition:
            self._futures.pop(identifier, None)
            if self._dispatch.unsent(identifier):
                self._abandoned.add(identifier)
            else:
                self._dispatch.forget(identifier)
            self._condition.notify_all()

    def reply(self, reply: Reply) -> None:
        """An agent's reply has arrived."""
        with self._condition:
            self._replies.append(reply)
            self._wake()

    def wake(self) -> None:
        """Something changed: a policy, a connection, the outbox."""
        with self._condition:
            self._wake()

    def flush(self, timeout: float) -> bool:
        """Wait until nothing durable waits; False after `timeout` seconds."""
        with self._condition:
            return (
                self._condition.wait_for(lambda: self._stopping or len(self._outbox) == 0, timeout)
                and len(self._outbox) == 0
            )

    @property
    def under_way(self) -> int:
        """Publications that are not decided yet, those that wait in the outbox left out."""
        return len(self._dispatch)

    def stop(self, timeout: float) -> None:
        """Send what was taken and not sent yet, then stop."""
        with self._condition:
            self._condition.wait_for(
                lambda: not self._thread.is_alive() or not (self._new or self._busy), timeout
            )
            self._stopping = True
            self._wake()
        self._thread.join(timeout + _SEND_TIMEOUT)
        late = TimedOut("timeout", "the publisher was closed; it may still be accepted")
        with self._condition:
            left = list(self._futures.values())
            self._futures.clear()
        # Outside of the lock: whoever hears of it may let go of its handle, or publish elsewhere.
        for future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(late)

    def _wake(self) -> None:
        self._woken = True
        self._condition.notify_all()

    # the thread

    def _loop(self) -> None:
        while not self._stopping:
            try:
                self._round()
            except Exception:  # noqa: BLE001 - the loop must outlive whatever happens in it
                log_failure(_LOGGER, "round failed", part="courier")
                with self._condition:
                    self._condition.wait_for(lambda: self._stopping, 1.0)

    def _round(self) -> None:
        shipments, outcomes = self._decide()
        self._ship(shipments)
        self._tell(outcomes)
        with self._condition:
            self._busy = False
            self._condition.notify_all()
            idle = not len(self._dispatch) and not len(self._outbox)
            if not self._condition.wait_for(lambda: self._woken, None if idle else _TICK):
                self._looked = float("-inf")

    def _decide(self) -> tuple[list[Shipment], list[Outcome]]:
        now = self._road.clock.boot()
        with self._condition:
            self._woken, self._busy = False, True
            looked_at = self._feed() | self._new  # in the order of their coming
            self._new.clear()
            while self._replies:
                reply = self._replies.popleft()
                if self._dispatch.answered(reply, again=self._again(reply, now)):
                    looked_at.setdefault(reply.request)
            if now - self._looked < _TICK:
                return self._dispatch.step(now, looked_at)  # nothing happened to the others
            self._looked = now
            self._dispatch.wait_for(now)
            return self._dispatch.step(now)

    def _again(self, reply: Reply, boot: float) -> float | None:
        """When an agent says that asking again may help, on the boot-time clock."""
        return boot + max(0.0, reply.again - self._road.now()) if reply.again else None

    def _feed(self) -> dict[str, None]:
        """Take durable events as far as there is room for them."""
        room = self._limit // 2 - len(self._durable)
        if room <= 0 or len(self._outbox) <= len(self._durable):
            return {}
        fed: dict[str, None] = {}
        for kept in self._outbox.after(self._read_to, min(room, _BATCH)):
            if kept.id in self._durable:
                continue
            parcel = self._parcel(kept)
            if parcel is None:
                break  # its domain's policy has not arrived: keep the order
            self._read_to = kept.seq
            self._durable.add(kept.id)
            self._dispatch.add(parcel, patient=True)
            fed[kept.id] = None
        return fed

    def _parcel(self, kept: Kept) -> Parcel | None:
        parcel = kept.parcel()
        policy = self._road.policy.of(kept.domain)
        if parcel is not None or policy is None or not policy.can_tag:
            return parcel
        try:
            parcel = plan_parcel(policy, kept.id, kept.type, kept.values)
        except Refused:
            return None  # no home yet
        self._outbox.keep_plan(kept, parcel)
        return parcel

    def _ship(self, shipments: list[Shipment]) -> None:
        by_overlay: dict[str, list[Shipment]] = defaultdict(list)
        for shipment in shipments:
            by_overlay[shipment.part.overlay].append(shipment)
        for overlay, found in by_overlay.items():
            for first in range(0, len(found), _BATCH):
                self._ship_some(overlay, found[first : first + _BATCH])

    def _ship_some(self, overlay: str, shipments: list[Shipment]) -> None:
        sealed: list[tuple[Shipment, Outgoing]] = []
        for shipment in shipments:
            try:
                made = seal_part(self._road.profile, shipment, self._road.now())
                sealed.append((shipment, made))
            except NotReady:  # a key is on its way; an event in the outbox waits for it
                with self._condition:
                    self._dispatch.unsendable(shipment, self._road.clock.boot())
            except PortcullisError as error:
                self._fail(shipment, error)
        if not sealed:
            return
        try:
            self._road.send_many(overlay, [made for _, made in sealed], _SEND_TIMEOUT)
            sent = True
        except TransportError:
            sent = False
        now = self._road.clock.boot()
        with self._condition:
            for shipment, _ in sealed:
                note = self._dispatch.sent if sent else self._dispatch.unsendable
                note(shipment, now)
                self._let_go(shipment.parcel.id)

    def _let_go(self, identifier: str) -> None:
        if identifier in self._abandoned and not self._dispatch.unsent(identifier):
            self._abandoned.discard(identifier)
            self._dispatch.forget(identifier)

    def _fail(self, shipment: Shipment, error: PortcullisError) -> None:
        name = shipment.parcel.id
        with self._condition:
            self._dispatch.forget(name)
        self._tell([Outcome(name, error=error)])

    def _tell(self, outcomes: list[Outcome]) -> None:
        if not outcomes:
            return
        durable = [one for one in outcomes if one.id in self._durable]
        if durable:
            self._settle(durable)
        with self._condition:
            for outcome in outcomes:
                self._abandoned.discard(outcome.id)
                self._durable.discard(outcome.id)
            waiting = [(one, self._futures.pop(one.id, None)) for one in outcomes]
            self._condition.notify_all()
        for outcome, future in waiting:
            if future is None or not future.set_running_or_notify_cancel():
                continue
            if outcome.published is not None:
                future.set_result(outcome.published)
            else:
                future.set_exception(outcome.error or TimedOut("timeout", "not decided"))

    def _settle(self, outcomes: list[Outcome]) -> None:
        accepted = [one.id for one in outcomes if one.published is not None]
        refused = [(one.id, *_why(one.error)) for one in outcomes if one.published is None]
        try:
            self._outbox.settle(accepted, refused)
        except OSError:
            # Not noted, so it is sent again; agents tell doubles by its identifier.
            self._durable -= {one.id for one in outcomes}
            self._read_to = 0
            raise


def _why(error: Exception | None) -> tuple[str, str]:
    if isinstance(error, Refused):
        return error.reason, error.message
    if isinstance(error, InputError):
        return error.kind, error.message
    return "failed", "the event could not be made ready to be sent"
