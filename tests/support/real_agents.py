"""Agents' own code for bundles, notices and leases, beside a control plane pumped by hand.

An agent's control side runs over a broker in memory, with its files on disk and what it has in
force; only its threads and its data plane are missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from brokers.adapters.control_link import ControlLink
from brokers.adapters.files import BundleFolder, StateFile, SubscriptionFile
from brokers.agent.policy import InForce, PolicyInForce, Progress
from brokers.control.sync import Identity
from brokers.snapshot import DomainSnapshot
from policyengine.bundles import OpenedBundle, TrustedState, decode_request
from policyengine.bundles.addresses import control_queue
from policyengine.errors import RejectedError
from tests.support.audiences import Audience, Plane
from tests.support.clocks import Clock
from tests.support.memory_broker import MemoryBroker, MemoryTransport

REQUESTS = "pc.requests"


class Picky(PolicyInForce):
    """What is in force, and a bundle now and then that is of no use."""

    refuses = False

    def prepare(self, opened: OpenedBundle, state: TrustedState) -> InForce:
        if self.refuses:
            raise RejectedError("malformed", "of no use here")
        return super().prepare(opened, state)


class RealAgent(Audience):
    """Stands in the place of an audience of the plane, with the agent's own code."""

    clock: Clock
    policy: Picky

    def install(self, folder: Path, overlay: str) -> None:
        """Put the agent's parts together on a folder of its own."""
        folder.mkdir()
        name = self.address.partition(":")[2]
        self.broker, self.clock = MemoryBroker(), Clock()
        self.policy = Picky(
            agent=name,
            overlay=overlay,
            sealing_key=self.sealing,
            subscription_file=SubscriptionFile(folder / "subscriptions.json"),
            progress=Progress(),
        )
        self.link = ControlLink(
            transport=MemoryTransport(self.broker),
            identity=Identity(self.address, self.sealing, self.anchors),
            signing_key=self.signing,
            bundles=BundleFolder(folder / "bundles"),
            state_file=StateFile(folder / "trusted.json", self.address),
            clock=self.clock,
            applier=self.policy,
        )
        self.link.restore()
        self.link.listen()
        self._drain()

    def take(self, body: bytes) -> list[bytes]:
        """Deal with one control message; returns what goes to the requests queue."""
        self.broker.put(control_queue(self.address), body)
        self.link.step(0)
        return [each for each in self._drain() if decode_request(each).kind == "ack"]

    def lease_request(self) -> bytes:
        """What it asks when its next time has come."""
        self.clock.time += 6
        self.link.step(0)
        return [each for each in self._drain() if decode_request(each).kind != "ack"][-1]

    def in_force(self, domain: str) -> DomainSnapshot:
        """What it enforces."""
        return self.policy.domains[domain].snapshot

    def standing(self, domain: str) -> str:
        """Whether it would handle an event now: `serving`, or why not."""
        return self.link.standing(domain)

    def rules(self, domain: str) -> str:
        """Everything that it holds of rules, to look for a policy in."""
        return str(list(self.in_force(domain).epochs.values()))

    def _drain(self) -> list[bytes]:
        found: Any = self.broker.bodies(REQUESTS)
        self.broker.queues.pop(REQUESTS, None)
        return list(found)


def install(plane: Plane, agents: dict[str, str], folder: Path) -> dict[str, RealAgent]:
    """Replace agents of a plane by real ones with the same keys, before anything is compiled."""
    found = {}
    for name, overlay in agents.items():
        held = plane.audiences[f"agent:{name}"]
        made = RealAgent(held.address, held.anchors, held.sealing, held.signing)
        made.install(folder / name, overlay)
        plane.audiences[held.address] = found[name] = made
    return found
