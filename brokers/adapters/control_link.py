"""The control side of an agent or a client: bundles, notices and leases over a queue.

What is decided stands in `brokers.control`; here it is received, written to disk, swapped
in and acknowledged, in this order.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from brokers.adapters.logs import log, log_failure
from brokers.control.lease import LeaseBook
from brokers.control.sync import (
    Identity,
    Status,
    acknowledgement,
    after_bundle,
    epochs_of,
    held_report,
    judge_kept,
    judge_notice,
    lease_request,
    open_verified,
)
from brokers.ports import (
    BundleSource,
    Clock,
    Message,
    Outgoing,
    StateStore,
    Transport,
    TransportError,
)
from policyengine.bundles import (
    REQUESTS_QUEUE,
    Control,
    OpenedBundle,
    TrustedState,
    control_queue,
    decode_control,
    open_lease,
    sign_ack,
    sign_lease_request,
)
from policyengine.errors import DecodeError, RejectedError
from policyengine.primitives.signatures import SigningKey

_LOGGER = logging.getLogger("portcullis.control")
_REMEMBERED_REJECTIONS = 50
_LEASE_REQUEST_LIFE_MS = 60_000
_SEND_TIMEOUT = 5.0


class Applier(Protocol):
    """Who puts accepted content into force."""

    def prepare(self, opened: OpenedBundle, state: TrustedState) -> object:
        """Build what will be in force. Raises RejectedError where the content is no use."""

    def commit(self, domain: str, prepared: object) -> None:
        """Swap it in, as a whole."""

    def deny(self, domain: str, handles: frozenset[str]) -> None:
        """Take handles out at once."""

    def settled(self) -> Callable[[], bool]:
        """A question: is everything over that began under what was in force until now?"""


@dataclass(frozen=True)
class Rejection:
    """Something that was refused on the control side.

    Args:
        at: Unix time in seconds.
        what: `bundle`, `notice`, `lease` or `message`.
        domain: the domain its frame named.
        reason: the protocol's word.
        message: the same for a person.
    """

    at: float
    what: str
    domain: str
    reason: str
    message: str


@dataclass(frozen=True)
class ControlView:
    """What is known on the control side at one moment."""

    state: TrustedState
    book: LeaseBook


@dataclass(frozen=True)
class _Waiting:
    """An acknowledgement that goes out once earlier work is over."""

    settled: Callable[[], bool]
    send: Callable[[], None]


class ControlLink:
    """Runs the control side of one audience; `step` does one round of it.

    Args:
        transport: connection to the control broker.
        identity: who we are and what we trust.
        signing_key: signs requests and acknowledgements.
        bundles: keeps received bundles.
        state_file: keeps the trusted state.
        clock: both clocks.
        applier: puts content into force.
        lease_interval: seconds between two requests for a lease.
        only_domain: refuse everything of other domains; None accepts all.
    """

    def __init__(
        self,
        *,
        transport: Transport,
        identity: Identity,
        signing_key: SigningKey,
        bundles: BundleSource,
        state_file: StateStore,
        clock: Clock,
        applier: Applier,
        lease_interval: float = 5.0,
        only_domain: str | None = None,
    ) -> None:
        self._transport = transport
        self._identity = identity
        self._signing_key = signing_key
        self._bundles = bundles
        self._state_file = state_file
        self._clock = clock
        self._applier = applier
        self._interval = lease_interval
        self._only_domain = only_domain
        self._epochs: dict[str, dict[int, str]] = {}
        self._outbox: deque[bytes] = deque(maxlen=1000)
        self._waiting: list[_Waiting] = []
        self._ask_at = float("-inf")
        self._was_connected = False
        self.rejections: deque[Rejection] = deque(maxlen=_REMEMBERED_REJECTIONS)
        self.changed = threading.Event()
        self.view = ControlView(state_file.load(), LeaseBook.empty())

    # starting

    def restore(self) -> None:
        """Put into force what the disk keeps; whatever does not verify is left out and told."""
        for domain in self._bundles.domains():
            message = self._bundles.load(domain)
            if message is None or not self._accepts(domain):
                continue
            try:
                self._restore_one(domain, message)
            except RejectedError as error:
                self._rejected("bundle", domain, error)

    def _restore_one(self, domain: str, message: bytes) -> None:
        state = self.view.state
        kept = judge_kept(message, domain=domain, identity=self._identity, state=state)
        prepared = self._applier.prepare(kept.opened, kept.state)
        if kept.state is not state:
            self._state_file.save(kept.state)
        self._put_into_force(domain, kept.opened, kept.state, prepared)

    def listen(self) -> None:
        """Take messages from the control queue from now on."""
        self._transport.subscribe(control_queue(self._identity.audience), prefetch=20)
        self._transport.start()

    # one round

    def step(self, timeout: float) -> None:
        """Handle what has arrived, ask for a lease if it is time, send what waits.

        Args:
            timeout: seconds to wait for a first message.
        """
        for message in self._transport.receive_many(20, timeout):
            self._handle(message)
        self._release()
        self._ask_if_due()
        self._flush()

    def standing(self, domain: str) -> str:
        """Whether a domain's events may be handled at this moment, and if not, why."""
        view = self.view
        held = view.state.revisions.get(domain)
        if held is None:
            return "no-policy"
        return view.book.standing(
            domain,
            boot=self._clock.boot(),
            revision=held.revision,
            notice=view.state.notices.get(domain, 0),
        )

    def now(self) -> float:
        """Unix time in seconds, by the newest lease's signed time where there is one."""
        return self.view.book.now(boot=self._clock.boot(), wall=self._clock.wall())

    def ask_soon(self) -> None:
        """Ask for a lease in the next round."""
        self._ask_at = float("-inf")

    def _accepts(self, domain: str) -> bool:
        return self._only_domain is None or domain == self._only_domain

    def _handle(self, message: Message) -> None:
        try:
            control = decode_control(message.body)
        except DecodeError as error:
            self._rejected("message", "", RejectedError("malformed", str(error)))
            message.ack()
            return
        try:
            self._dispatch(control)
        except RejectedError as error:
            self._rejected(control.kind, control.domain, error)
        except OSError:
            # A full or failing disk: what was not kept is not acknowledged, it comes again.
            log_failure(_LOGGER, "not kept", kind=control.kind, domain=control.domain)
            return
        message.ack()

    def _dispatch(self, control: Control) -> None:
        if control.kind != "lease" and not self._accepts(control.domain):
            raise RejectedError("audience", "the message is for another domain")
        if control.kind == "bundle":
            self._bundle(control)
        elif control.kind == "notice":
            self._notice(control)
        else:
            self._lease(control)

    # bundles

    def _bundle(self, control: Control) -> None:
        try:
            opened = open_verified(control.payload, domain=control.domain, identity=self._identity)
        except RejectedError as error:
            self._acknowledge_bundle(control.domain, 0, "", "rejected", error.reason)
            raise
        domain, revision, digest = control.domain, opened.header.revision, opened.digest
        held = self.view.state.revisions.get(domain)
        if held is not None and held.digest == digest and domain in self._epochs:
            # Sent again because our acknowledgement was lost: say it again.
            self._acknowledge_bundle(domain, revision, digest, "applied")
            return
        try:
            self._apply(control, opened)
        except RejectedError as error:
            self._acknowledge_bundle(domain, revision, digest, "rejected", error.reason)
            raise

    def _apply(self, control: Control, opened: OpenedBundle) -> None:
        domain, digest = control.domain, opened.digest
        state = self.view.state
        if not self._is_kept_one(domain, digest):
            state.check(opened.header, digest, self.now())
        self._acknowledge_bundle(domain, opened.header.revision, digest, "received")
        after = after_bundle(state, opened)
        prepared = self._applier.prepare(opened, after)
        self._bundles.save(domain, control.payload)
        self._state_file.save(after)
        self._put_into_force(domain, opened, after, prepared)
        log(
            _LOGGER, logging.INFO, "bundle applied",
            domain=domain, revision=opened.header.revision, digest=digest,
        )  # fmt: skip
        self._when_settled(
            lambda: self._acknowledge_bundle(domain, opened.header.revision, digest, "applied")
        )

    def _is_kept_one(self, domain: str, digest: str) -> bool:
        # Held by the trusted state but not in force: its file was lost or damaged.
        held = self.view.state.revisions.get(domain)
        return held is not None and held.digest == digest and domain not in self._epochs

    def _put_into_force(
        self, domain: str, opened: OpenedBundle, state: TrustedState, prepared: object
    ) -> None:
        self._applier.commit(domain, prepared)
        self._epochs = {**self._epochs, domain: epochs_of(opened.content)}
        self.view = replace(self.view, state=state)
        self.changed.set()

    def _acknowledge_bundle(
        self, domain: str, revision: int, digest: str, status: Status, reason: str = ""
    ) -> None:
        self._acknowledge(domain, "bundle", revision, status, digest=digest, reason=reason)

    # notices

    def _notice(self, control: Control) -> None:
        accepted = judge_notice(
            control.payload, domain=control.domain, identity=self._identity, state=self.view.state
        )
        notice = accepted.notice
        # INVARIANT: denied in memory before anything that takes time, kept before it is told.
        self._applier.deny(control.domain, accepted.state.denied[control.domain])
        if accepted.state != self.view.state:
            self._state_file.save(accepted.state)
            self.view = replace(self.view, state=accepted.state)
        self.changed.set()
        log(_LOGGER, logging.WARNING, "notice applied", domain=notice.domain, number=notice.number)
        self._acknowledge(notice.domain, "notice", notice.number, "received")
        self._when_settled(
            lambda: self._acknowledge(notice.domain, "notice", notice.number, "applied")
        )

    # leases

    def _lease(self, control: Control) -> None:
        lease = open_lease(
            control.payload,
            key=self._identity.sealing_key,
            audience=self._identity.audience,
            lease_key=self._identity.anchors.lease,
        )
        self.view = replace(self.view, book=self.view.book.answer(lease))
        self.changed.set()

    def _ask_if_due(self) -> None:
        connected = self._transport.connected
        if connected and not self._was_connected:
            self.ask_soon()
        self._was_connected = connected
        boot = self._clock.boot()
        if not connected or boot < self._ask_at:
            return
        self._ask_at = boot + self._interval
        nonce = secrets.token_hex(16)
        self.view = replace(self.view, book=self.view.book.ask(nonce, boot))
        request = lease_request(
            self._identity.audience, nonce=nonce, held=self._held(), wall=self._clock.wall()
        )
        body = sign_lease_request(request, self._signing_key).encode()
        expires = int(self._clock.wall() * 1000) + _LEASE_REQUEST_LIFE_MS
        self._send([Outgoing(REQUESTS_QUEUE, body, persistent=False, expires=expires)])

    # telling

    def _held(self) -> dict[str, dict[str, object]]:
        # Only what is in force: a bundle whose file is damaged is asked for again.
        report = held_report(self.view.state, self._epochs)
        for domain, entry in report.items():
            if domain not in self._epochs:
                entry.update(revision=0, digest="")
        return report

    def _acknowledge(
        self,
        domain: str,
        what: Literal["bundle", "notice"],
        number: int,
        status: Status,
        *,
        digest: str = "",
        reason: str = "",
    ) -> None:
        ack = acknowledgement(
            self._identity.audience, domain,
            what=what, number=number, status=status, digest=digest, reason=reason,
            held=self._held(), wall=self._clock.wall(),
        )  # fmt: skip
        self._outbox.append(sign_ack(ack, self._signing_key).encode())

    def _when_settled(self, send: Callable[[], None]) -> None:
        self._waiting.append(_Waiting(self._applier.settled(), send))

    def _release(self) -> None:
        ready = [item for item in self._waiting if item.settled()]
        self._waiting = [item for item in self._waiting if item not in ready]
        for item in ready:
            item.send()

    def _flush(self) -> None:
        while self._outbox and self._transport.connected:
            batch = [Outgoing(REQUESTS_QUEUE, body) for body in self._outbox]
            if not self._send(batch):
                return
            for _ in batch:
                self._outbox.popleft()

    def _send(self, batch: list[Outgoing]) -> bool:
        try:
            self._transport.send_many(batch, timeout=_SEND_TIMEOUT)
        except TransportError as error:
            log(_LOGGER, logging.WARNING, "not sent to the control plane", reason=str(error))
            return False
        return True

    def _rejected(self, what: str, domain: str, error: RejectedError) -> None:
        self.rejections.append(
            Rejection(self._clock.wall(), what, domain, error.reason, error.message)
        )
        log(_LOGGER, logging.WARNING, "rejected", what=what, domain=domain, reason=error.reason)
