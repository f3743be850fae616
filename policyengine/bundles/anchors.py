"""The keys that an audience trusts from the start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from policyengine.primitives.records import KEY, UINT, Binary, Record, invalid


@dataclass(frozen=True)
class TrustAnchors(Record):
    """Public Ed25519 keys of the authority, one for each purpose, 32 bytes each.

    Args:
        root_version: version of this set.
        policy: verifies bundles.
        notice: verifies notices.
        lease: verifies leases.
        receipt: verifies receipts of revocations.
        enrolment: verifies what newcomers are given; empty in anchors of earlier releases.
    """

    root_version: Annotated[int, UINT]
    policy: Annotated[bytes, KEY]
    notice: Annotated[bytes, KEY]
    lease: Annotated[bytes, KEY]
    receipt: Annotated[bytes, KEY]
    enrolment: Annotated[bytes, Binary(0, 32)] = b""

    def _agree(self) -> None:
        if len(self.enrolment) not in (0, 32):
            raise invalid("enrolment", "must be empty or 32 bytes")
