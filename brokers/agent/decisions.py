"""Decision logs of an agent: noted after each batch, and sent to the control plane."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from brokers.adapters.decisions import DecisionFolder, Segment
from brokers.adapters.logs import log, log_failure
from brokers.agent.batch import Batch
from brokers.agent.policy import InForce, PolicyInForce
from brokers.data.decisions import summed
from brokers.ports import Clock, DecisionLog, Outgoing, Transport, TransportError
from policyengine.bundles import (
    REQUESTS_QUEUE,
    DecisionReport,
    DecisionSettings,
    audience,
    seal_decisions,
    sign_decision_report,
)
from policyengine.primitives.signatures import SigningKey

_LOGGER = logging.getLogger("portcullis.decisions")
_SYNC_SECONDS = 1.0
_AT_ONCE = 8
_SEND_TIMEOUT = 5.0


class DecisionNotes:
    """Writes what batches decided into the log.

    Args:
        decisions: the log.
    """

    def __init__(self, decisions: DecisionLog) -> None:
        self._log = decisions

    def tend(self, domains: Mapping[str, InForce], now: float) -> None:
        """Begin and end segments; call it between two batches.

        A domain that is not served is logged all the same: that nothing was delivered counts.
        """
        held = {name: one.snapshot.decisions for name, one in domains.items()}
        self._log.tend(now, {name: one.days for name, one in held.items() if one is not None})

    def note(self, batch: Batch) -> None:
        """Write down what a batch decided, once it has left."""
        for domain, bench in batch.benches.items():
            if bench.snapshot.decisions is None:
                continue
            effects = [found for source, found in batch.effects if source.domain == domain]
            noted = summed(
                (one for found in effects for one in found.decisions),
                (found.unserved for found in effects if found.unserved is not None),
            )
            self._log.record(domain, noted, now=bench.now, revision=bench.snapshot.revision)


class DecisionShipper:
    """Sends finished segments to the control plane; runs beside the data path.

    A segment leaves the disk once the broker has it in its keeping. One that is sent twice,
    because this process died in between, has the same number and counts once.

    Args:
        agent: this agent's name.
        folder: the segments.
        policy: what is in force; its bundles name the control plane's keys.
        transport: connection to the control broker.
        signing_key: the agent's own.
        clock: both clocks.
    """

    def __init__(
        self,
        *,
        agent: str,
        folder: DecisionFolder,
        policy: PolicyInForce,
        transport: Transport,
        signing_key: SigningKey,
        clock: Clock,
    ) -> None:
        self._audience = audience("agent", agent)
        self._folder = folder
        self._policy = policy
        self._transport = transport
        self._signing_key = signing_key
        self._clock = clock
        self._synced = float("-inf")

    def step(self) -> None:
        """One round: what was written survives the machine's end, what is finished is sent."""
        boot = self._clock.boot()
        if boot - self._synced >= _SYNC_SECONDS:
            self._synced = boot
            self._folder.sync()
        if not self._transport.connected:
            return
        for name, held in self._policy.domains.items():
            settings = held.snapshot.decisions
            for segment in self._folder.finished(name)[:_AT_ONCE]:
                if settings is not None and not self._send(segment, settings):
                    return
                self._folder.forget(segment)

    def _send(self, segment: Segment, settings: DecisionSettings) -> bool:
        try:
            body = self._report(segment, settings)
        except ValueError:
            # Damaged on our disk: its number is missing then, and that is what is shown.
            log_failure(_LOGGER, "segment unreadable", domain=segment.domain)
            return True
        life = settings.days * 86_400_000
        message = Outgoing(REQUESTS_QUEUE, body, expires=int(self._clock.wall() * 1000) + life)
        try:
            self._transport.send_many([message], timeout=_SEND_TIMEOUT)
        except TransportError as error:
            log(_LOGGER, logging.WARNING, "decisions not sent", reason=str(error))
            return False
        return True

    def _report(self, segment: Segment, settings: DecisionSettings) -> bytes:
        content = self._folder.read(segment)
        sealed = seal_decisions(
            content.lines,
            recipient=settings.key,
            domain=segment.domain,
            audience=self._audience,
            stream=content.stream,
            sequence=segment.sequence,
        )
        report = DecisionReport(
            audience=self._audience,
            domain=segment.domain,
            stream=content.stream,
            sequence=segment.sequence,
            begin=content.begin,
            end=content.end,
            lost=content.lost,
            records=len(content.lines),
            sealed=sealed,
        )
        return sign_decision_report(report, self._signing_key).encode()
