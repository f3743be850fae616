"""Telling agents what this client is done with, so that they may send on.

An agent that knows that a client confirms sends ahead only a window of deliveries. A client
says so when it starts; an agent of an earlier release puts that aside and sends everything at
once, as it always did, and is told again ever more rarely.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from brokers.adapters.logs import log_failure
from brokers.client.session import Session
from brokers.data.bench import event_key
from brokers.data.reasons import CONFIRM
from brokers.ports import Message, Outgoing, TransportError
from policyengine.bundles import (
    Confirmation,
    Delivery,
    HomeAgent,
    Reply,
    encode_framed,
    publish_queue,
    seal_confirmation,
)
from policyengine.bundles.confirmations import MOST_CONFIRMED

_LOGGER = logging.getLogger("portcullis.client")
LONGEST_WAIT = 1.0
"""Seconds after which what was acknowledged is confirmed, however little it is."""
_SEND_TIMEOUT = 10.0
_GREET_AGAIN = 10.0
_LONGEST_GREETING = 3600.0
_SMALLEST_BATCH = 50

_Place = tuple[str, str]


@dataclass
class _Account:
    """What is to be told to one agent of one domain."""

    held: Counter[bytes] = field(default_factory=Counter)
    done: list[bytes] = field(default_factory=list)
    done_since: float = 0.0
    answers: str = ""
    held_then: tuple[bytes, ...] = ()
    batch: int = _SMALLEST_BATCH
    asked: bool = False
    greet_at: float = float("-inf")
    greet_pause: float = _GREET_AGAIN


class Confirmations:
    """Keeps what is to be confirmed, and confirms it in the background.

    Nothing of it is kept on disk: what a client that was killed did not confirm, the agent asks
    for, and what it still holds is then all that counts.

    Args:
        session: the client's session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._condition = threading.Condition()
        self._accounts: dict[_Place, _Account] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="client-confirm", daemon=True)

    def start(self) -> None:
        """Begin to work in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Confirm what is left, then stop."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        self._thread.join(2 * _SEND_TIMEOUT)

    # what happens

    def carried(self, delivery: Delivery, message: Message) -> Message:
        """The message of a delivery, so that its acknowledgement is confirmed too.

        Args:
            delivery: verified.
            message: what it came in.
        """
        key = event_key(delivery.publisher, delivery.publication, delivery.part)
        with self._condition:
            account = self._account(delivery.domain, delivery.agent)
            account.held[key] += 1

        def ack() -> None:
            message.ack()
            self._acknowledged(account, key)

        return replace(message, ack=ack)

    def _account(self, domain: str, agent: str) -> _Account:
        return self._accounts.setdefault((domain, agent), _Account())

    def _acknowledged(self, account: _Account, key: bytes) -> None:
        with self._condition:
            if account.held[key] > 1:
                account.held[key] -= 1
            else:
                del account.held[key]
            if account.asked:
                if not account.done:
                    account.done_since = self._session.clock.boot()
                account.done.append(key)
                if len(account.done) >= account.batch:
                    self._condition.notify_all()

    def replied(self, reply: Reply) -> None:
        """Take a reply of an agent: it may be the question what is still held.

        Args:
            reply: verified.
        """
        if not reply.ok or reply.reason != CONFIRM or len(reply.dropped) != 1:
            return
        with self._condition:
            account = self._account(reply.dropped[0], reply.agent)
            account.asked = True
            # A quarter of the window, so that it is filled again before it is empty.
            limit = int(reply.message) if reply.message.isdecimal() else 0
            account.batch = max(1, limit // 4)
            # INVARIANT: all that stood before the question in our queue has been taken.
            account.answers = reply.request
            account.held_then = tuple(account.held.elements())[:MOST_CONFIRMED]
            account.done.clear()
            self._condition.notify_all()

    # the thread

    def _loop(self) -> None:
        while True:
            with self._condition:
                stopping = self._stopping
            try:
                self._round(everything=stopping)
            except Exception:  # noqa: BLE001 - the loop must outlive whatever happens in it
                log_failure(_LOGGER, "round failed", part="confirmations")
            if stopping:
                return
            with self._condition:
                self._condition.wait_for(self._pressing, LONGEST_WAIT / 4)

    def _pressing(self) -> bool:
        return self._stopping or any(
            one.answers or len(one.done) >= one.batch for one in self._accounts.values()
        )

    def _round(self, *, everything: bool) -> None:
        now = self._session.clock.boot()
        for domain, agent in self._agents():
            if not self._session.connected_to(agent.overlay):
                continue
            with self._condition:
                account = self._account(domain, agent.agent)
                said = self._due(domain, account, now, everything)
            if said is not None and not self._send(agent, said):
                with self._condition:
                    self._keep(account, said)

    def _agents(self) -> Iterator[tuple[str, HomeAgent]]:
        for policy in list(self._session.policy.domains.values()):
            for home in policy.homes.values():
                yield policy.domain, home
            for second in policy.fallbacks.values():
                # Who never delivered anything need not know.
                if (policy.domain, second.agent) in self._accounts:
                    yield policy.domain, second

    def _due(
        self, domain: str, account: _Account, now: float, everything: bool
    ) -> Confirmation | None:
        if not account.asked:
            if now < account.greet_at:
                return None
            account.greet_at = now + account.greet_pause
            account.greet_pause = min(_LONGEST_GREETING, 2 * account.greet_pause)
        elif not account.answers:
            late = everything or now - account.done_since >= LONGEST_WAIT
            if not account.done or not (late or len(account.done) >= account.batch):
                return None
        said = Confirmation(
            domain=domain,
            client=self._session.profile.handle,
            issued=int(self._session.now()),
            done=tuple(account.done[:MOST_CONFIRMED]),
            answers=account.answers,
            held=account.held_then if account.answers else (),
        )
        del account.done[:MOST_CONFIRMED]
        account.answers, account.held_then = "", ()
        return said

    def _send(self, agent: HomeAgent, said: Confirmation) -> bool:
        sealed = seal_confirmation(
            said,
            signing_key=self._session.profile.keys.signing,
            recipient=agent.sealing_key,
            agent=agent.agent,
        )
        queue = publish_queue(agent.agent, said.domain)
        message = Outgoing(queue, encode_framed("confirm", sealed))
        try:
            self._session.send_many(agent.overlay, [message], _SEND_TIMEOUT)
        except TransportError:
            return False
        return True

    @staticmethod
    def _keep(account: _Account, said: Confirmation) -> None:
        """It did not go out: the next one says it, unless a newer question has come."""
        if account.answers:
            return
        account.done[:0] = said.done
        account.answers, account.held_then = said.answers, said.held
        if not account.asked:
            account.greet_at, account.greet_pause = float("-inf"), _GREET_AGAIN
