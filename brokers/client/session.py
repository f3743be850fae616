"""A client's connections: its control side, and one to each broker where it has a home.

Threads: one for the control side, one for each overlay. They only file what arrives;
handlers run in the caller's thread.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from brokers.adapters.brokers_file import ConfigurationError
from brokers.adapters.clock import SystemClock
from brokers.adapters.control_link import ControlLink
from brokers.adapters.files import BundleFolder, FolderLock, StateError, StateFile
from brokers.adapters.logs import log, log_failure
from brokers.adapters.renewing import RenewalThread
from brokers.adapters.rootfile import kept_roots
from brokers.adapters.stomp import StompTransport
from brokers.client.errors import NotReady, ProfileError
from brokers.client.homes import PATIENCE_SECONDS, HomeWatch
from brokers.client.policy import ClientPolicy, PolicyHolder
from brokers.client.profile import Profile
from brokers.control.sync import Identity, unasked
from brokers.ports import Message, Outgoing, TransportError
from policyengine.bundles import (
    FilterAnswer,
    HomeAgent,
    Reply,
    Request,
    audience,
    decode_framed,
    delivery_queue,
    encode_framed,
    open_reply,
    publish_queue,
)
from policyengine.errors import DecodeError, RejectedError

_LOGGER = logging.getLogger("portcullis.client")
_CONTROL_ROUND = 0.05
_DATA_ROUND = 0.5
_LEASE_INTERVAL = 10.0
_PREFETCH = 500

Place = tuple[str, int]
"""(publication or request, part): what a reply answers."""


class Session:
    """Everything that a publisher and a subscriber share. Nothing runs before `start`.

    It takes part in every domain that sends this client a bundle: its own, and those that an
    agreement lets it into.

    Args:
        folder: the profile folder; held by this process until `close`.
        patience: seconds after which an agent that owes an answer counts as silent.

    Raises:
        ProfileError: the profile is wrong or in use.
    """

    def __init__(self, folder: str | Path, *, patience: float = PATIENCE_SECONDS) -> None:
        self.profile = Profile.load(folder)
        self.clock = SystemClock()
        self.watch = HomeWatch(patience)
        self._on_reply: Callable[[Reply], None] | None = None
        self._on_delivery: Callable[[Message, bytes], None] | None = None
        self._on_change: Callable[[], None] | None = None
        self._on_answer: Callable[[FilterAnswer], None] = unasked
        self._each_round: Callable[[], None] = lambda: None
        self._renewal = self._make_renewal()
        self._lock = self._acquire()
        self._condition = threading.Condition()
        self._replies: dict[Place, Reply | None] = {}
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._transports: dict[str, StompTransport] = {}
        self.policy = PolicyHolder(self._policy_changed, self.clock, self.profile.domain)
        self._control = StompTransport(
            self.profile.brokers.control_broker(), name=f"{self.profile.handle}-control"
        )
        self._link = self._make_link()
        self._link.restore()

    def start(
        self,
        *,
        on_delivery: Callable[[Message, bytes], None] | None = None,
        on_change: Callable[[], None] | None = None,
        on_reply: Callable[[Reply], None] | None = None,
        on_answer: Callable[[FilterAnswer], None] = unasked,
        each_round: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin to work in the background; returns at once.

        Args:
            on_delivery: called on an overlay's thread with a message and its sealed
                payload; whoever takes it acknowledges it. None leaves deliveries alone.
            on_change: called on the control thread after a new policy came into force.
            on_reply: called on an overlay's thread with every verified reply.
            on_answer: called on the control thread with every verified answer about a filter.
            each_round: called on the control thread, many times a second; it may `say`.
        """
        self._on_answer, self._each_round = on_answer, each_round
        self._on_reply = on_reply
        self._on_delivery = on_delivery
        self._on_change = on_change
        if self._renewal is not None:
            self._renewal.start()
        self._link.listen()
        self._run("control", self._control_round)

    def _acquire(self) -> FolderLock:
        try:
            return FolderLock(self.profile.state)
        except StateError as error:
            raise ProfileError(str(error)) from None

    def _make_renewal(self) -> RenewalThread | None:
        if not self.profile.enrolled:
            return None
        try:
            return RenewalThread(self.profile.folder)
        except ConfigurationError as error:
            raise ProfileError(str(error)) from None

    def _make_link(self) -> ControlLink:
        profile, address = self.profile, audience("client", self.profile.handle)
        return ControlLink(
            transport=self._control,
            identity=Identity(address, profile.keys.sealing, profile.pinned.anchors),
            signing_key=profile.keys.signing,
            bundles=BundleFolder(profile.state / "bundles"),
            state_file=StateFile(profile.state / "trusted.json", address),
            roots=kept_roots(profile.state / "roots.json", profile.pinned),
            clock=self.clock,
            applier=self.policy,
            lease_interval=_LEASE_INTERVAL,
            answers=self._answered,
        )

    # readiness

    def wait_ready(self, timeout: float, domain: str | None = None) -> ClientPolicy:
        """Wait until a domain's policy is in force and every home's broker is connected.

        Args:
            timeout: seconds.
            domain: the client's own where None.

        Raises:
            NotReady: `not-ready`, and what is lacking.
        """
        deadline = time.monotonic() + timeout
        name = domain or self.profile.domain
        with self._condition:
            self._condition.wait_for(lambda: self.policy.of(name) is not None, timeout)
        policy = self.policy.of(name)
        if policy is None:
            what = "policy" if name == self.profile.domain else f"policy of domain `{name}`"
            raise NotReady("not-ready", f"no {what} has arrived from the control plane yet")
        if not policy.homes:
            raise NotReady("not-ready", "the control plane has given this client no home agent")
        for overlay in policy.homes:
            self._connect(overlay, deadline - time.monotonic())
        return policy

    def _connect(self, overlay: str, timeout: float) -> None:
        try:
            self.transport(overlay).connect(max(0.0, timeout))
        except (TransportError, ConfigurationError) as error:
            raise NotReady("not-ready", f"overlay `{overlay}`: {error}") from None

    def wait_newer(self, policy: ClientPolicy, timeout: float) -> None:
        """Wait for another policy of the same domain, at most `timeout` seconds."""
        with self._condition:
            self._condition.wait_for(
                lambda: self.policy.of(policy.domain) is not policy, max(0.0, timeout)
            )

    def now(self) -> float:
        """Unix time in seconds, by the newest lease's signed time where there is one."""
        return self._link.now()

    @property
    def connected(self) -> bool:
        """Whether every broker in use can be reached at this moment."""
        return all(transport.connected for transport in self._transports.values())

    def connected_to(self, overlay: str) -> bool:
        """Whether an overlay's broker can be reached now; begins to connect to it."""
        try:
            return self.transport(overlay).connected
        except ConfigurationError as error:
            log(_LOGGER, logging.WARNING, "no such broker", overlay=overlay, reason=str(error))
            return False

    # sending

    def say(self, request: Request) -> None:
        """Tell the control plane something, signed; on the control thread alone."""
        self._link.say(request)

    def transport(self, overlay: str) -> StompTransport:
        """The connection to an overlay's broker, opened on first use."""
        with self._condition:
            opened = self._transports.get(overlay)
            if opened is None:
                opened = self._open(overlay)
            return opened

    def _open(self, overlay: str) -> StompTransport:
        profile = self.profile
        transport = StompTransport(
            profile.brokers.overlay(overlay), name=f"{profile.handle}-{overlay}"
        )
        transport.subscribe(delivery_queue(profile.handle), prefetch=_PREFETCH)
        transport.start()
        self._transports[overlay] = transport
        self._run(f"overlay-{overlay}", lambda: self._data_round(overlay, transport))
        return transport

    def send(
        self, home: HomeAgent, kind: str, sealed: bytes, timeout: float, *, domain: str
    ) -> None:
        """Send a sealed message to an agent that serves us in a domain.

        Raises:
            TransportError: not sent, or not known to be sent.
        """
        queue = publish_queue(home.agent, domain)
        message = Outgoing(queue, encode_framed(kind, sealed))
        self.send_many(home.overlay, [message], timeout)

    def send_many(self, overlay: str, messages: list[Outgoing], timeout: float) -> None:
        """Send; returns when the overlay's broker has them in its keeping.

        Raises:
            TransportError: not sent, or not known to be sent.
        """
        self.transport(overlay).send_many(messages, timeout=timeout)

    # replies

    def expect(self, place: Place) -> None:
        """Begin to listen for the reply to a part or request; forgets an earlier reply."""
        with self._condition:
            self._replies[place] = None

    def wait_reply(self, place: Place, timeout: float) -> Reply | None:
        """The reply to an expected part or request, or None after `timeout` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._replies.get(place) is not None, timeout)
            return self._replies.get(place)

    def forget(self, place: Place) -> None:
        """Stop to listen for a reply."""
        with self._condition:
            self._replies.pop(place, None)

    # threads

    def close(self) -> None:
        """Disconnect everything and give the profile up."""
        self._stopping.set()
        if self._renewal is not None:
            self._renewal.stop()
        with self._condition:
            self._condition.notify_all()
        for thread in list(self._threads):
            thread.join(10)
        for transport in list(self._transports.values()):
            transport.close()
        self._control.close()
        self._lock.release()

    def _run(self, name: str, round_: Callable[[], None]) -> None:
        thread = threading.Thread(
            target=self._loop, args=(name, round_), daemon=True, name=f"client-{name}"
        )
        self._threads.append(thread)
        thread.start()

    def _loop(self, name: str, round_: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                round_()
            except Exception:  # noqa: BLE001 - the loop must outlive whatever happens in it
                log_failure(_LOGGER, "round failed", part=name)
                self._stopping.wait(1.0)

    def _control_round(self) -> None:
        self._each_round()
        self._link.step(_CONTROL_ROUND)

    def _answered(self, answer: FilterAnswer) -> None:
        self._on_answer(answer)

    def _policy_changed(self) -> None:
        with self._condition:
            self._condition.notify_all()
        if self._on_change is not None:
            self._on_change()

    def _data_round(self, overlay: str, transport: StompTransport) -> None:
        for message in transport.receive_many(100, _DATA_ROUND):
            self._file(overlay, message)

    def _file(self, overlay: str, message: Message) -> None:
        try:
            kind, payload = decode_framed(message.body)
            if kind == "reply":
                self._reply(payload)
            elif kind == "delivery" and self._on_delivery is not None:
                self._on_delivery(message, payload)
                return
        except (DecodeError, RejectedError) as error:
            log(_LOGGER, logging.WARNING, "message refused", overlay=overlay, reason=str(error))
        message.ack()

    def _reply(self, payload: bytes) -> None:
        profile = self.profile
        reply = open_reply(
            payload,
            key=profile.keys.sealing,
            handle=profile.handle,
            verify=self.policy.verify_key,
        )
        self.watch.heard(reply.agent, self.clock.boot())
        with self._condition:
            place = (reply.request, reply.part)
            if place in self._replies:
                self._replies[place] = reply
                self._condition.notify_all()
        if self._on_reply is not None:
            self._on_reply(reply)


def fresh_identifier() -> str:
    """A random identifier of 32 hexadecimal digits."""
    return secrets.token_hex(16)
