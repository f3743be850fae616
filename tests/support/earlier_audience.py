"""Agents and clients of the release before, at a control plane that is pumped by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from policyengine.bundles import contexts, decode_request
from policyengine.bundles.limits import MAX_SMALL
from policyengine.bundles.sealing import open_authority_body, reject
from policyengine.errors import RejectedError
from policyengine.primitives import open_sealed
from policyengine.primitives.canonical import unpack, unpack_all
from tests.support.audiences import Audience, Plane
from tests.support.release_before import Reader

_CONTENTS = {"agent": "AgentContent", "client": "ClientContent"}


@dataclass
class EarlierAudience(Audience):
    """One of the release before: it puts aside what it does not know, as that release did.

    Args:
        not_read: what it put aside, by kind.
    """

    not_read: list[str] = field(default_factory=list)
    reader: Reader = field(default_factory=Reader)

    def take(self, body: bytes) -> list[bytes]:
        """Deal with one control message; returns what goes to the requests queue."""
        kind, domain, payload = unpack(body, 3)
        name = kind.decode()
        try:
            if name not in self.reader.control or not self._reads(name, domain, payload):
                reject("malformed", "the release before does not know this")
            answers = super().take(body)
        except RejectedError as error:
            self.not_read.append(name)
            if name != "bundle":
                return []  # a notice or a lease that it does not believe it drops
            answers = [self.ack(domain.decode(), "bundle", 0, "", "rejected", error.reason)]
        for answer in answers:
            assert self.reader.reads("Acknowledgement", decode_request(answer).body)
        return answers

    def lease_request(self) -> bytes:
        """As that release asks."""
        body = super().lease_request()
        assert self.reader.reads("LeaseRequest", decode_request(body).body)
        return body

    def _reads(self, kind: str, domain: bytes, payload: bytes) -> bool:
        if kind == "bundle":
            return self._reads_bundle(domain, payload)
        purpose = {"notice": contexts.NOTICE, "lease": contexts.LEASE}[kind]
        record = open_authority_body(
            purpose,
            payload,
            address=self.address,
            key=self.sealing,
            limit=MAX_SMALL,
            public=getattr(self.anchors, kind),
        )
        return self.reader.reads(kind.capitalize(), record)

    def _reads_bundle(self, domain: bytes, payload: bytes) -> bool:
        address = self.address.encode() + b"|" + domain
        _, _, sealed = unpack(payload, 3)
        info = contexts.BUNDLE + b"|" + address
        head, _, *parts = unpack_all(open_sealed(self.sealing, sealed, info=info), limit=66)
        members: dict[str, Any] = {}
        for part in parts:
            members.update(json.loads(part))
        record = _CONTENTS[self.address.partition(":")[0]]
        return self.reader.reads("BundleHeader", head) and self.reader.knows(record, members)


def put_back(plane: Plane, *addresses: str) -> list[EarlierAudience]:
    """Have audiences of a plane, who hold nothing yet, be of the release before."""
    made = []
    for address in addresses:
        one = plane.audiences[address]
        earlier = EarlierAudience(address, one.anchors, sealing=one.sealing, signing=one.signing)
        plane.audiences[address] = earlier
        made.append(earlier)
    return made
