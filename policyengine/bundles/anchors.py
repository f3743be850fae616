"""The keys that an audience trusts from the start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from policyengine.primitives.records import KEY, UINT, Record


@dataclass(frozen=True)
class TrustAnchors(Record):
    """Public Ed25519 keys of the authority, one for each purpose, 32 bytes each.

    Args:
        root_version: version of this set.
        policy: verifies bundles.
        notice: verifies notices.
        lease: verifies leases.
        receipt: verifies receipts of revocations.
    """

    root_version: Annotated[int, UINT]
    policy: Annotated[bytes, KEY]
    notice: Annotated[bytes, KEY]
    lease: Annotated[bytes, KEY]
    receipt: Annotated[bytes, KEY]
