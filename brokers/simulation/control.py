"""The control plane of a simulation: bundles, leases and notices, answered from a plan."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial

from brokers.ports import Outgoing, TransportError
from brokers.simulation.node import Node, Surroundings
from brokers.simulation.organisation import Organisation
from policyengine.bundles import (
    REQUESTS_QUEUE,
    Acknowledgement,
    Lease,
    Notice,
    audience,
    control_queue,
    decode_request,
    encode_control,
    seal_lease,
    seal_notice,
    verify_ack,
    verify_lease_request,
)
from policyengine.primitives.signatures import sign


class ControlPlane(Node):
    """Sends every audience its bundle and answers requests for leases. It never crashes.

    Args:
        organisation: the domain that it governs.
        around: see `Surroundings`.
    """

    def __init__(self, organisation: Organisation, around: Surroundings) -> None:
        super().__init__("control-plane", around, tick=1.0)
        self._organisation = organisation
        self._outbox: deque[Outgoing] = deque()
        self._notices: dict[str, int] = defaultdict(int)
        self.applied: set[str] = set()
        self.rejected: list[Acknowledgement] = []

    def boot(self) -> None:
        """Listen, and send everybody a first bundle."""
        self._line = self.connect("control")
        self._line.subscribe(REQUESTS_QUEUE, prefetch=10_000)
        self._line.start()
        domain, now = self._organisation.domain, self.clock.wall()
        for address in self._organisation.keys:
            bundle = self._organisation.bundle(address, 1, now)
            self._post(address, encode_control("bundle", domain, bundle.message))

    def revoke(self, handle: str) -> None:
        """Deny a client at its home agents; leases demand the notice from now on."""
        site = self._organisation.clients[handle]
        for agent in dict.fromkeys(site.homes.values()):
            address = audience("agent", agent)
            self._notices[address] += 1
            notice = Notice(
                number=self._notices[address],
                audience=address,
                domain=self._organisation.domain,
                revocation=f"revoke-{handle}"[:64],
                deny=(handle,),
                reason="simulated",
                issued=int(self.clock.wall()),
            )
            sealed = seal_notice(
                notice,
                sign=partial(sign, self._organisation.authority.notice),
                recipient=self._organisation.keys[address].sealing.public,
            )
            self._post(address, encode_control("notice", notice.domain, sealed))
        self.around.history.note(self.name, "revoked", handle=handle)
        self.wake()

    def work(self) -> None:
        """Answer what has arrived and send what waits."""
        for message in self._line.receive_many(1_000, 0):
            self._answer(message.body)
            message.ack()
        while self._outbox and self._line.connected:
            batch = [self._outbox[place] for place in range(min(200, len(self._outbox)))]
            try:
                self._line.send_many(batch)
            except TransportError:
                return
            for _ in batch:
                self._outbox.popleft()

    def _answer(self, body: bytes) -> None:
        request = decode_request(body)
        keys = self._organisation.keys[request.audience]
        if request.kind == "lease":
            nonce = verify_lease_request(request, keys.signing.public).nonce
            self._lease(request.audience, nonce)
            return
        ack = verify_ack(request, keys.signing.public)
        if ack.status == "rejected":
            self.rejected.append(ack)
        if (ack.what, ack.status) == ("bundle", "applied"):
            self.applied.add(ack.audience)

    def _lease(self, address: str, nonce: str) -> None:
        domain = self._organisation.domain
        lease = Lease(
            audience=address,
            nonce=nonce,
            time=self.clock.wall(),
            seconds={domain: self._organisation.plan.lease_seconds},
            domains={
                domain: {"minimum_revision": 1, "minimum_notice": self._notices.get(address, 0)}
            },
        )
        sealed = seal_lease(
            lease,
            sign=partial(sign, self._organisation.authority.lease),
            recipient=self._organisation.keys[address].sealing.public,
        )
        self._post(address, encode_control("lease", "", sealed))

    def _post(self, address: str, body: bytes) -> None:
        self._outbox.append(Outgoing(control_queue(address), body))
