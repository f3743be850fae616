"""The agent's loop over events: take a batch, decide, send, record, acknowledge.

The order is the guarantee: what a batch causes is in the broker's keeping before its
keys are recorded, and both before it is acknowledged. Killed at any moment, the batch
comes again; what it caused twice, receivers tell by its keys.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable

from brokers.adapters.disk import DiskWatch
from brokers.adapters.logs import log, log_failure
from brokers.agent.backlog import Backlogs
from brokers.agent.batch import Batch, attempt_key, dead_letter, handle
from brokers.agent.decisions import DecisionNotes
from brokers.agent.policy import InForce, PolicyInForce, Progress
from brokers.agent.queues import Queues, Source
from brokers.agent.routing import OverlayRouting, Told
from brokers.agent.sending import Sending
from brokers.agent.statistics import RefusedMessage, Statistics
from brokers.data.forward import Forwarding
from brokers.data.handle import Effects, Refusal, Workbench
from brokers.data.limits import Tally
from brokers.data.reasons import COMPARATOR_AWAY, NO_ROOM
from brokers.data.sessions import SessionKeys
from brokers.ports import (
    Clock,
    DecisionLog,
    EventLog,
    KeyStore,
    Message,
    SeenEntry,
    Transport,
)
from policyengine.primitives.rand import SYSTEM_RANDOM

_LOGGER = logging.getLogger("portcullis.agent")
_ATTEMPTS = 3
_REMEMBERED_ATTEMPTS = 10_000
_HOLD_SECONDS = 0.5
_ROOM_SECONDS = 0.1
_LONGEST_HOLD = 120.0
_REST_AFTER_FAILURE = 1.0
_HANDLED_QUIETLY = frozenset({"own-event", "revoked"})


class DataPlane:
    """Runs the data path of an agent; `step` does one batch.

    Args:
        agent: this agent's name.
        keys: its private keys.
        transport: connection to the overlay's broker.
        policy: what is in force.
        standing: domain -> `serving`, or why its events wait.
        now: Unix time in seconds, by the lease's signed time.
        seen: the window against doubles.
        statistics: counters.
        progress: tells the control side when batches are over.
        clock: both clocks.
        batch: most messages handled together.
        prefetch: messages on their way at once, per queue.
        routing: tells other agents what is wanted here and learns what they want; None
            sends every event to all agents of the overlay.
        backlogs: keeps the queues of clients short; None sends everything at once.
        decisions: takes what was decided; None keeps no record.
        disk: tells whether what is taken can be recorded; None takes it for granted.
    """

    def __init__(
        self,
        *,
        agent: str,
        keys: KeyStore,
        transport: Transport,
        policy: PolicyInForce,
        standing: Callable[[str], str],
        now: Callable[[], float],
        seen: EventLog,
        statistics: Statistics,
        progress: Progress,
        clock: Clock,
        batch: int = 200,
        prefetch: int = 400,
        routing: OverlayRouting | None = None,
        backlogs: Backlogs | None = None,
        decisions: DecisionLog | None = None,
        disk: DiskWatch | None = None,
    ) -> None:
        self._agent = agent
        self._keys = keys
        self._transport = transport
        self._policy = policy
        self._standing = standing
        self._now = now
        self._seen = seen
        self._statistics = statistics
        self._progress = progress
        self._clock = clock
        self._limit = batch
        self._routing = routing
        self._backlogs = backlogs
        self._decisions = None if decisions is None else DecisionNotes(decisions)
        self._disk = disk
        self._sending = Sending(agent, transport, clock)
        self._queues = Queues(agent, transport, clock, prefetch=prefetch)
        self._sessions = SessionKeys()
        self._version = -1
        self._attempts: Counter[bytes] = Counter()
        self._held_since: dict[str, float] = {}

    def step(self, timeout: float) -> None:
        """Handle one batch.

        Args:
            timeout: seconds to wait for a first message.

        Raises:
            OSError: the disk failed; nothing more is taken until it does not.
        """
        try:
            self._step(timeout)
        except OSError as error:
            if self._disk is not None:
                self._disk.failed(error)
            raise

    def _step(self, timeout: float) -> None:
        if self._policy.version != self._version:
            self._version = self._policy.version
            self._queues.wake()
        # INVARIANT: what cannot be recorded is not taken; it stays with the broker.
        domains = self._policy.domains if self._has_room() else ()
        serving = [domain for domain in domains if self._standing(domain) == "serving"]
        if self._decisions is not None:
            self._decisions.tend(self._policy.domains, self._now())
        snapshots = [self._policy.domains[domain].snapshot for domain in serving]
        waiting = {} if self._backlogs is None else self._backlogs.sources(snapshots, self._now())
        self._queues.serve(serving, waiting)
        self._tend_routes(serving)
        self._tend_backlogs(serving)
        messages = self._transport.receive_many(self._limit, timeout)
        if not messages:
            return
        if not self._has_room():  # it was lost while we waited
            self._rest(messages)
            return
        self._progress.begin()
        try:
            self._carry_out(self._decide(messages))
        except BaseException:
            # Our own disk failed: give everything back, it comes again.
            if self._backlogs is not None:
                self._backlogs.failed()
            self._rest(messages)
            raise
        finally:
            self._progress.finish()

    def _has_room(self) -> bool:
        return self._disk is None or self._disk.ready()

    def _rest(self, messages: Iterable[Message]) -> None:
        """Give messages back, and take no more of their queues for a moment."""
        for queue in {message.queue for message in messages}:
            self._queues.rest(queue, _REST_AFTER_FAILURE)

    def _tend_routes(self, domains: list[str]) -> None:
        """Tell what is due, and find another way for what a silent agent was given."""
        if self._routing is None or not domains or not self._transport.connected:
            return
        outgoing, told = self._routing.announcements(domains)
        self._routing.save()
        if outgoing and self._sending.send(outgoing):
            self._routing.told(told)
        for domain in domains:
            again, held, waiting = self._routing.overdue(self._policy.domains[domain].snapshot)
            if again and self._sending.send(again):
                self._routing.rerouted(domain, held, waiting)
                self._statistics.count(domain, "rerouted", len(held))

    def _tend_backlogs(self, domains: list[str]) -> None:
        """Ask clients what they still hold, and mark where their backlogs end."""
        if self._backlogs is None or not self._transport.connected:
            return
        for domain in domains:
            outgoing = self._backlogs.due(self._bench(self._policy.domains[domain], Batch()))
            self._backlogs.before_sending()
            sent = self._sending.send(outgoing)
            (self._backlogs.carried_out if sent else self._backlogs.failed)()
            self._statistics.count(domain, "questions", len(outgoing) if sent else 0)

    # deciding

    def _decide(self, messages: list[Message]) -> Batch:
        batch = Batch()
        domains = self._policy.domains
        # INVARIANT: one answer a batch and domain, for a skipped message must not be
        # acknowledged by a later one of its queue.
        serving = {domain for domain in domains if self._standing(domain) == "serving"}
        benches = batch.benches = {d: self._bench(domains[d], batch) for d in serving}
        for message in messages:
            source = self._queues.source(message.queue)
            if source is None or message.queue in batch.stopped:
                continue
            if source.domain in benches:
                self._decide_one(batch, message, source, benches[source.domain])
            else:
                # Skipped, so nothing behind it may be acknowledged: the queue goes back.
                batch.stopped[message.queue] = 0.0
        return batch

    def _bench(self, in_force: InForce, batch: Batch) -> Workbench:
        now = self._now()
        return Workbench(
            snapshot=in_force.snapshot,
            subscriptions=in_force.subscriptions,
            sealing_key=self._keys.sealing,
            signing_key=self._keys.signing,
            now=now,
            oldest=self._seen.oldest(now),
            seen=lambda key: key in batch.seen or key in self._seen,
            random=SYSTEM_RANDOM,
            forwarding=self._forwarding(in_force),
            sessions=self._sessions,
            windows=None if self._backlogs is None else self._backlogs.windows,
            tally=Tally(self._seen.spent),
        )

    def _forwarding(self, in_force: InForce) -> Forwarding | None:
        return None if self._routing is None else self._routing.forwarding(in_force.snapshot)

    def _decide_one(self, batch: Batch, message: Message, source: Source, bench: Workbench) -> None:
        try:
            effects = handle(bench, source, message.body)
        except OSError:
            raise  # the window against doubles cannot be read: no fault of the message
        except Exception:  # noqa: BLE001 - whatever one message does, the others go on
            log_failure(_LOGGER, "message failed", queue=message.queue)
            self._failed(batch, message, source)
            return
        if effects.hold == NO_ROOM:
            batch.stopped[message.queue] = _ROOM_SECONDS
        elif effects.hold:
            self._hold(batch, message, source, effects.hold)
        if effects.hold:
            return
        self._held_since.pop(message.queue, None)
        self._take(batch, message, source, effects)

    def _take(self, batch: Batch, message: Message, source: Source, effects: Effects) -> None:
        batch.messages.append(message)
        batch.effects.append((source, effects))
        batch.outgoing.extend(effects.outgoing)
        batch.seen.update(effects.seen)
        if self._routing is not None:
            self._routing.take(source.domain, effects.routing)
        refusal = effects.refusal
        if refusal and not refusal.answered and refusal.reason not in _HANDLED_QUIETLY:
            self._set_aside(batch, message, source, refusal)

    def _set_aside(self, batch: Batch, message: Message, source: Source, refusal: Refusal) -> None:
        attempts = self._attempts.pop(attempt_key(message), 0) or 1
        believed = source.kind != "client" or bool(refusal.sender) or attempts > 1
        letter = dead_letter(
            self._agent, message, refusal.reason, attempts, self._clock.wall(), whole=believed
        )
        # Whoever may write to this queue may write rubbish: it must not stop the agent.
        (batch.outgoing if believed else batch.doubtful).append(letter)

    def _hold(self, batch: Batch, message: Message, source: Source, reason: str) -> None:
        since = self._held_since.setdefault(message.queue, self._clock.boot())
        if reason == COMPARATOR_AWAY or self._clock.boot() - since < _LONGEST_HOLD:
            self._statistics.count(source.domain, "held")
            batch.stopped[message.queue] = _HOLD_SECONDS
            return
        # Nothing that we wait for came: do not let one part stop all others for ever.
        del self._held_since[message.queue]
        self._take(batch, message, source, Effects(refusal=Refusal(source.kind, reason)))

    def _failed(self, batch: Batch, message: Message, source: Source) -> None:
        key = attempt_key(message)
        if len(self._attempts) > _REMEMBERED_ATTEMPTS:
            self._attempts.clear()
        self._attempts[key] += 1
        if self._attempts[key] < _ATTEMPTS:
            batch.stopped[message.queue] = _REST_AFTER_FAILURE
            return
        self._take(batch, message, source, Effects(refusal=Refusal("message", "failed")))

    # carrying out

    def _carry_out(self, batch: Batch) -> None:
        if batch.messages:
            self._commit(batch)
        for queue, seconds in batch.stopped.items():
            self._queues.rest(queue, seconds)

    def _commit(self, batch: Batch) -> None:
        self._keep_subscriptions(batch)
        told = self._route(batch)
        if self._backlogs is not None:
            self._backlogs.before_sending()
        # A lease may have ended while we decided: then nothing of it leaves.
        if not (
            self._still_serving(batch)
            and self._sending.send(batch.outgoing, lambda: self._still_serving(batch))
            and self._sending.send_doubtful(batch.doubtful)
        ):
            self._give_back(batch)
            return
        # Before the batch is known as handled: what comes again is rather noted twice than never.
        if self._decisions is not None:
            self._decisions.note(batch)
        for source, effects in batch.effects:
            if effects.refusal:
                self._tell_refusal(source, effects.refusal)
        entries = [SeenEntry(key, issued) for key, issued in batch.seen.items()]
        spent = [one for _, effects in batch.effects for one in effects.spent]
        self._seen.record(entries, now=self._now(), spent=spent)
        if self._routing is not None:
            self._routing.save()
        self._transport.ack_many(batch.messages)
        if self._backlogs is not None:
            self._backlogs.carried_out()
        self._routed(batch, told)
        self._count(batch)

    def _route(self, batch: Batch) -> list[Told]:
        """Add what agents are told; returns what to remember once it is sent."""
        if self._routing is None:
            return []
        domains = {source.domain for source, _ in batch.effects}
        for domain in sorted(domains):
            effects = [e.routing for source, e in batch.effects if source.domain == domain]
            batch.outgoing += self._routing.receipts(self._policy.domains[domain].snapshot, effects)
        # INVARIANT: new interests stand in the queues of the others before any reply. A client
        # that was told of its subscription gets every event published from then on.
        announced, told = self._routing.announcements(sorted(domains))
        batch.outgoing[:0] = announced
        return told

    def _routed(self, batch: Batch, told: list[Told]) -> None:
        if self._routing is not None:
            self._routing.told(told)
            for source, effects in batch.effects:
                self._routing.hold(source.domain, effects.routing.waiting)

    def _keep_subscriptions(self, batch: Batch) -> None:
        added = [one for _, effects in batch.effects for one in effects.subscribed]
        removed = [place for _, effects in batch.effects for place in effects.unsubscribed]
        if added or removed:
            self._policy.change_subscriptions(added, removed)

    def _still_serving(self, batch: Batch) -> bool:
        domains = {source.domain for source, _ in batch.effects}
        return all(self._standing(domain) == "serving" for domain in domains)

    def _give_back(self, batch: Batch) -> None:
        if self._backlogs is not None:
            self._backlogs.failed()
        for queue in {message.queue for message in batch.messages}:
            batch.stopped[queue] = _REST_AFTER_FAILURE

    def _count(self, batch: Batch) -> None:
        for source, effects in batch.effects:
            self._statistics.count(source.domain, "received")
            for what, number in effects.counts:
                self._statistics.count(source.domain, what, number)

    def _tell_refusal(self, source: Source, refusal: Refusal) -> None:
        self._statistics.refused(
            RefusedMessage(
                at=self._clock.wall(),
                domain=source.domain,
                kind=refusal.kind,
                reason=refusal.reason,
                sender=refusal.sender,
                type=refusal.type,
                publication=refusal.publication,
            )
        )
        log(
            _LOGGER, logging.INFO, "refused",
            domain=source.domain, kind=refusal.kind, reason=refusal.reason, sender=refusal.sender,
            publication=refusal.publication, client=source.handle,
        )  # fmt: skip
