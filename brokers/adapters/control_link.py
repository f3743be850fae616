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
from typing import Literal

from brokers.adapters.control_sender import ControlSender
from brokers.adapters.control_view import Applier, Rejection
from brokers.adapters.following import RootFollower
from brokers.adapters.logs import log, log_failure
from brokers.adapters.putoff import PutOff
from brokers.control.holdings import ControlView, Holdings
from brokers.control.intake import Intake, open_first, take_in
from brokers.control.lease import Telling
from brokers.control.roots import check_lease
from brokers.control.sync import (
    Identity,
    Status,
    acknowledgement,
    after_bundle,
    check_follows,
    judge_answer,
    judge_kept,
    judge_notice,
    lease_request,
    unasked,
)
from brokers.ports import BundleSource, Clock, Message, RootStore, StateStore, Transport
from policyengine.bundles import (
    FILTER_KEY,
    Control,
    FilterAnswer,
    Manifest,
    OpenedBundle,
    Request,
    TrustedState,
    control_queue,
    decode_control,
    open_lease,
)
from policyengine.errors import DecodeError, RejectedError
from policyengine.primitives.signatures import SigningKey

__all__ = ["Applier", "ControlLink", "ControlView", "Rejection"]

_LOGGER = logging.getLogger("portcullis.control")
_REMEMBERED_REJECTIONS = 50


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
        roots: keeps the roots that are followed; None where only keys are pinned.
        on_disk_failure: told where something could not be kept.
        answers: takes answers about filters.
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
        roots: RootStore | None = None,
        on_disk_failure: Callable[[OSError], None] = lambda _: None,
        answers: Callable[[FilterAnswer], None] = unasked,
    ) -> None:
        self._transport = transport
        self._follower = RootFollower(roots, state_file)
        self._identity = self._follower.trusting(identity)
        self._bundles = bundles
        self._state_file = state_file
        self._clock = clock
        self._applier = applier
        self._only_domain = only_domain
        self._intake = Intake(identity.sealing_key)
        self._telling = Telling()
        self._sender = ControlSender(transport, signing_key, lease_interval)
        self._on_disk_failure = on_disk_failure
        self._answers = answers
        self._put_off = PutOff()
        self.rejections: deque[Rejection] = deque(maxlen=_REMEMBERED_REJECTIONS)
        self.changed = threading.Event()
        state = self._follower.settled(state_file.load())
        self._holdings = Holdings(state, self._follower.root)

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
        for message in self._put_off.due(self._clock.boot()):
            self._handle(message)
        for message in self._transport.receive_many(20, timeout):
            self._put_off.replace(message)
            self._handle(message)
        self._sender.release()
        # A question says what is held now: what was held before is told first.
        self._sender.flush()
        self._ask_if_due()

    def standing(self, domain: str) -> str:
        """Whether a domain's events may be handled at this moment, and if not, why."""
        return self._holdings.standing(domain, self._clock.boot())

    def now(self) -> float:
        """Unix time in seconds, by the newest lease's signed time where there is one."""
        return self.view.book.now(boot=self._clock.boot(), wall=self._clock.wall())

    @property
    def view(self) -> ControlView:
        """What is known at this moment."""
        return self._holdings.view

    @property
    def root_version(self) -> int:
        """Version of the root, or of the keys, that are trusted."""
        return self._identity.anchors.root_version

    @property
    def not_kept(self) -> int:
        """How many messages of the control plane wait for a disk that takes them."""
        return len(self._put_off)

    def ask_soon(self) -> None:
        """Ask for a lease in the next round."""
        self._sender.ask_soon()

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
        except OSError as error:
            # A full or failing disk: what was not kept is not acknowledged, and tried again.
            log_failure(_LOGGER, "not kept", kind=control.kind, domain=control.domain)
            self._put_off.add(message, self._clock.boot())
            self._on_disk_failure(error)
            return
        message.ack()

    def _dispatch(self, control: Control) -> None:
        if control.domain and not self._accepts(control.domain):
            raise RejectedError("audience", "the message is for another domain")
        if control.kind == "bundle":
            self._bundle(control)
        elif control.kind == "chunk":
            self._chunk(control)
        elif control.kind == "notice":
            self._notice(control)
        elif control.kind == "root":
            self._take_roots(control)
        elif control.kind == FILTER_KEY:
            self._answers(judge_answer(control, self._identity))
        else:
            self._lease(control)

    # bundles

    def _bundle(self, control: Control) -> None:
        domain = control.domain
        try:
            manifest = open_first(control.payload, domain=domain, identity=self._identity)
        except RejectedError as error:
            self._acknowledge_bundle(domain, 0, "", "rejected", error.reason)
            raise
        held, in_force = self.view.state.revisions.get(domain), self._holdings.in_force(domain)
        if held is not None and held.digest == manifest.digest and in_force:
            # Sent again because our acknowledgement was lost, or is still to be said.
            self._when_settled(lambda: self._say(manifest, "applied"))
            return
        self._or_say_why(manifest, lambda: self._begin(manifest, control.payload))

    def _chunk(self, control: Control) -> None:
        manifest = self._intake.add(control.domain, control.payload)
        if manifest is None:
            return
        try:
            self._or_say_why(manifest, lambda: self._apply(manifest, None))
        except RejectedError:
            self._intake.forget(control.domain)
            raise

    def _or_say_why(self, manifest: Manifest, work: Callable[[], None]) -> None:
        try:
            work()
        except RejectedError as error:
            self._say(manifest, "rejected", error.reason)
            raise

    def _begin(self, manifest: Manifest, message: bytes) -> None:
        if not manifest.header.chunks:
            self._apply(manifest, message)
            return
        self._check(manifest)
        self._intake.begin(manifest)
        self._say(manifest, "received")

    def _check(self, manifest: Manifest) -> None:
        in_force = self._holdings.in_force(manifest.header.domain)
        check_follows(self.view.state, manifest, in_force=in_force, now=self.now())

    def _apply(self, manifest: Manifest, message: bytes | None) -> None:
        domain = manifest.header.domain
        self._check(manifest)
        if message is not None:
            self._say(manifest, "received")
        taken = take_in(manifest, message, identity=self._identity, load=self._bundles.load)
        after = after_bundle(self.view.state, taken.opened)
        prepared = self._applier.prepare(taken.opened, after)
        self._bundles.save(domain, taken.keep)
        self._state_file.save(after)
        self._put_into_force(domain, taken.opened, after, prepared)
        self._intake.forget(domain)
        log(
            _LOGGER, logging.INFO, "bundle applied", domain=domain,
            revision=manifest.header.revision, digest=manifest.digest, form=manifest.header.form,
        )  # fmt: skip
        self._when_settled(lambda: self._say(manifest, "applied"))

    def _put_into_force(
        self, domain: str, opened: OpenedBundle, state: TrustedState, prepared: object
    ) -> None:
        self._applier.commit(domain, prepared)
        self._holdings.put_into_force(domain, opened.content, state)
        self.changed.set()

    def _say(self, manifest: Manifest, status: Status, reason: str = "") -> None:
        header = manifest.header
        self._acknowledge_bundle(header.domain, header.revision, manifest.digest, status, reason)

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
        floors = accepted.state.floors_of(control.domain)
        self._holdings.wait_for(control.domain, floors.revision)
        self._applier.hold(control.domain, floors)
        if accepted.state != self.view.state:
            self._state_file.save(accepted.state)
            self._holdings.keep(accepted.state)
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
        check_lease(lease, root=self.view.root, wall=self._clock.wall())
        self._holdings.answer(lease)
        self._telling = self._telling.answered(lease.nonce)
        self.changed.set()

    def say(self, request: Request) -> None:
        """Send a signed request once the broker takes it; on the thread that steps."""
        self._sender.say(request, self._clock.wall())

    def _take_roots(self, control: Control) -> None:
        now = max(self._clock.wall(), self.now())
        state = self._follower.take(control.payload, state=self.view.state, now=now)
        if state is None:
            return
        # INVARIANT: what the keys before vouched for is over: no lease of theirs counts on, no
        # bundle of theirs that is half here is completed.
        self._identity = self._follower.trusting(self._identity)
        self._intake = Intake(self._identity.sealing_key)
        self._holdings.follow(self._follower.root, state)
        self.ask_soon()
        self.changed.set()
        log(_LOGGER, logging.WARNING, "root followed", version=self._identity.anchors.root_version)

    def _ask_if_due(self) -> None:
        boot = self._clock.boot()
        if not self._sender.is_due(boot):
            return
        nonce = secrets.token_hex(16)
        self._holdings.ask(nonce, boot)
        self._telling, reads = self._telling.ask(nonce)
        wall = self._clock.wall()
        request = lease_request(
            self._identity.audience,
            nonce=nonce, held=self._holdings.report(), wall=wall, reads=reads,
            root=max(1, self._identity.anchors.root_version),
        )  # fmt: skip
        self._sender.ask(request, wall)

    # telling

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
            held=self._holdings.report(), wall=self._clock.wall(),
        )  # fmt: skip
        self._sender.acknowledge(ack)

    def _when_settled(self, send: Callable[[], None]) -> None:
        self._sender.when(self._applier.settled(), send)

    def _rejected(self, what: str, domain: str, error: RejectedError) -> None:
        self.rejections.append(
            Rejection(self._clock.wall(), what, domain, error.reason, error.message)
        )
        # An answer to a question of before a cut or a restart comes late everywhere, and does
        # nothing: it is no news for whoever sits at a shell.
        level = logging.INFO if error.reason == "replay" else logging.WARNING
        log(_LOGGER, level, "rejected", what=what, domain=domain, reason=error.reason)
