"""An agent's control side on a folder and an in-memory broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from brokers.adapters.control_link import ControlLink
from brokers.adapters.files import BundleFolder, StateFile
from brokers.control.sync import Identity
from policyengine.bundles import (
    Acknowledgement,
    Floors,
    OpenedBundle,
    TrustedState,
    control_queue,
    decode_request,
    encode_control,
    verify_ack,
    verify_lease_request,
)
from policyengine.errors import RejectedError
from tests.support.clocks import Clock
from tests.support.data_plane import airport
from tests.support.memory_broker import MemoryBroker, MemoryTransport

ORGANISATION = airport()
ALPHA = "agent:alpha"


class Applied:
    """Takes what is applied."""

    def __init__(self) -> None:
        self.revisions: list[int] = []
        self.denied: frozenset[str] = frozenset()
        self.held = Floors()
        self.useless = False
        self.busy = False

    def prepare(self, opened: OpenedBundle, state: TrustedState) -> int:
        if self.useless:
            raise RejectedError("malformed", "of no use")
        return opened.header.revision

    def commit(self, domain: str, prepared: Any) -> None:
        self.revisions.append(prepared)

    def deny(self, domain: str, handles: frozenset[str]) -> None:
        self.denied = handles

    def hold(self, domain: str, floors: Floors) -> None:
        self.held = floors

    def settled(self) -> Callable[[], bool]:
        return lambda: not self.busy


class FailingStates(StateFile):
    """A disk that can be full."""

    full = False

    def save(self, state: TrustedState) -> None:
        if self.full:
            raise OSError("no space left")
        super().save(state)


class Rig:
    """Agent alpha's control side on a folder."""

    def __init__(self, folder: Path, broker: MemoryBroker) -> None:
        self.broker = broker
        keys = ORGANISATION.public_keys(ALPHA)
        self.keys, self.clock, self.applied = keys, Clock(), Applied()
        self.disk_failures = 0
        self.states = FailingStates(folder / "trusted.json", ALPHA)
        self.transport = MemoryTransport(broker)
        self.link = ControlLink(
            transport=self.transport,
            identity=Identity(ALPHA, keys.sealing, ORGANISATION.authority.anchors()),
            signing_key=keys.signing,
            bundles=BundleFolder(folder / "bundles"),
            state_file=self.states,
            clock=self.clock,
            applier=self.applied,
            on_disk_failure=self._failed,
        )
        self.link.restore()
        self.link.listen()

    def _failed(self, _: OSError) -> None:
        self.disk_failures += 1

    def give(self, kind: str, payload: bytes, domain: str = "flights") -> None:
        """A message from the control plane, and a round."""
        self.broker.put(control_queue(ALPHA), encode_control(kind, domain, payload))
        self.link.step(0)

    def bundle(self, revision: int, **options: Any) -> str:
        """A bundle, and a round; returns its digest."""
        sealed = ORGANISATION.bundle(ALPHA, revision, **options)
        self.give("bundle", sealed.message)
        return sealed.digest

    def requests(self, kind: str) -> list[Any]:
        """What it said since the last time, verified."""
        found: list[Any] = []
        for body in self.broker.bodies("pc.requests"):
            request = decode_request(body)
            if request.kind == kind:
                check = verify_ack if kind == "ack" else verify_lease_request
                found.append(check(request, self.keys.signing.public))
        return found

    def told(self) -> list[tuple[str, int, str, str]]:
        """Its acknowledgements as (what, number, status, reason)."""
        acks: list[Acknowledgement] = self.requests("ack")
        return [(ack.what, ack.number, ack.status, ack.reason) for ack in acks]
