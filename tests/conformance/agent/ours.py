"""Portcullis' own agent under the suite: its control side, its policy and its data plane."""

from __future__ import annotations

from pathlib import Path

from brokers.adapters.control_link import ControlLink
from brokers.adapters.files import BundleFolder, StateFile, SubscriptionFile
from brokers.adapters.rootfile import RootFile
from brokers.adapters.seen import SeenLog
from brokers.agent.dataplane import DataPlane
from brokers.agent.policy import PolicyInForce, Progress
from brokers.agent.statistics import Statistics
from brokers.control.sync import Identity
from policyengine.bundles import (
    REQUESTS_QUEUE,
    audience,
    control_queue,
    open_root,
    publish_queue,
)
from tests.conformance.agent.contract import Holding, Place
from tests.support.memory_broker import MemoryBroker, MemoryTransport

_DELIVER = "pc.deliver."
_DOMAINS = ("flights", "heating")


class Keys:
    """The key store of one agent."""

    def __init__(self, place: Place) -> None:
        self.sealing, self.signing = place.sealing, place.signing


class OurAgent:
    """What `brokers.agent.service` puts together, on a broker in memory and a clock by hand."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._address = audience("agent", place.name)
        self._broker = MemoryBroker()

    def start(self) -> None:
        """Start on the folder."""
        place, progress = self._place, Progress()
        folder = place.folder
        self._policy = PolicyInForce(
            agent=place.name,
            overlay=place.overlay,
            sealing_key=place.sealing,
            subscription_file=SubscriptionFile(folder / "subscriptions.json"),
            progress=progress,
        )
        self._transport = MemoryTransport(self._broker)
        self._link = ControlLink(
            transport=self._transport,
            identity=Identity(self._address, place.sealing, open_root(place.pinned).anchors()),
            signing_key=place.signing,
            bundles=BundleFolder(folder / "bundles"),
            state_file=StateFile(folder / "trusted.json", self._address),
            roots=RootFile(folder / "roots.json", place.pinned),
            clock=place.clock,
            applier=self._policy,
        )
        self._events = MemoryTransport(self._broker)
        self._events.start()
        self._seen = SeenLog(folder / "seen.sqlite", seconds=3600)
        self._plane = DataPlane(
            agent=place.name,
            keys=Keys(place),
            transport=self._events,
            policy=self._policy,
            standing=self._link.standing,
            now=self._link.now,
            seen=self._seen,
            statistics=Statistics(),
            progress=progress,
            clock=place.clock,
        )
        self._link.restore()
        self._link.listen()

    def kill(self) -> None:
        """Everything in memory is gone; brokers take back what was not acknowledged."""
        self._transport.close()
        self._events.close()
        self._seen.close()

    def control(self, message: bytes) -> None:
        """A message from the control plane, and a round."""
        self._broker.put(control_queue(self._address), message)
        self._round()

    def ask(self) -> None:
        """A question for a lease."""
        self._link.ask_soon()
        self._round()

    def said(self) -> list[bytes]:
        """What it told the control plane."""
        return self._taken(REQUESTS_QUEUE)

    def refused(self) -> list[str]:
        """Reasons, as its log has them."""
        found = [one.reason for one in self._link.rejections]
        self._link.rejections.clear()
        return found

    def publish(self, domain: str, message: bytes) -> None:
        """A client's message, and two rounds of the data plane."""
        self._broker.put(publish_queue(self._place.name, domain), message)
        self._round()

    def delivered(self) -> list[tuple[str, bytes]]:
        """What it sent to clients."""
        queues = [queue for queue in self._broker.queues if queue.startswith(_DELIVER)]
        return [
            (queue.removeprefix(_DELIVER), body) for queue in queues for body in self._taken(queue)
        ]

    def holds(self, domain: str) -> Holding:
        """What is known and in force."""
        state = self._link.view.state
        known, in_force = state.revisions.get(domain), self._policy.domains.get(domain)
        notice = state.notices.get(domain, 0)
        if known is None or in_force is None or in_force.snapshot.digest != known.digest:
            return Holding(0, "", notice)
        return Holding(in_force.snapshot.revision, known.digest, notice)

    def root(self) -> int:
        """The root in force."""
        return self._link.root_version

    def files(self, part: str) -> tuple[Path, ...]:
        """Where the parts stand."""
        folder = self._place.folder
        return {
            "bundles": tuple(folder / "bundles" / f"{domain}.bundle" for domain in _DOMAINS),
            "state": (folder / "trusted.json",),
            "roots": (folder / "roots.json",),
        }[part]

    def _round(self) -> None:
        self._link.step(0)
        self._plane.step(0)
        self._link.step(0)

    def _taken(self, queue: str) -> list[bytes]:
        found = self._broker.bodies(queue)
        self._broker.queues.pop(queue, None)
        return found
