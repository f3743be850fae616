"""Leases: without a fresh one an audience delivers nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from policyengine.bundles.contexts import LEASE
from policyengine.bundles.limits import AUDIENCE, MAX_SMALL
from policyengine.bundles.sealing import (
    Sign,
    open_authority_body,
    read_body,
    reject,
    seal_body,
    write_body,
)
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.records import (
    HEX_ID,
    IDENTIFIER,
    UINT,
    Codec,
    Integer,
    MapOf,
    Number,
    Record,
    invalid,
)

_MINIMUM = frozenset({"minimum_revision", "minimum_notice"})


class _Minimum(Codec):
    """What an audience must hold of one domain at least."""

    def clean(self, value: Any, where: str) -> dict[str, int]:
        if not isinstance(value, Mapping) or set(value) != _MINIMUM:
            raise invalid(where, "must have minimum_revision and minimum_notice")
        return {name: UINT.clean(value[name], where) for name in sorted(_MINIMUM)}


@dataclass(frozen=True)
class Lease(Record):
    """Permission to deliver, counted from the asking on the audience's monotonic clock.

    Args:
        audience: whom it is for.
        nonce: that of the request, 32 hexadecimal digits.
        time: the control plane's clock, seconds since 1970.
        seconds: domain -> how long it holds, in seconds.
        domains: domain -> `{"minimum_revision", "minimum_notice"}`; the same domains.
        root: version of the root that the audience must trust for this lease to count.
    """

    audience: Annotated[str, AUDIENCE]
    nonce: Annotated[str, HEX_ID]
    time: Annotated[float, Number()]
    seconds: Annotated[Mapping[str, int], MapOf(IDENTIFIER, Integer(1, 86_400), 1024)]
    domains: Annotated[Mapping[str, Mapping[str, int]], MapOf(IDENTIFIER, _Minimum(), 1024)]
    root: Annotated[int, Integer(1)] = 1

    def _agree(self) -> None:
        if set(self.seconds) != set(self.domains):
            raise invalid("seconds", "must speak of the same domains as `domains`")
        if self.time < 0:
            raise invalid("time", "must not be negative")


def seal_lease(lease: Lease, *, sign: Sign, recipient: bytes) -> bytes:
    """Sign a lease with the lease key and seal it for its audience.

    Args:
        lease: the lease.
        sign: signs (context, payload) with the lease key.
        recipient: the audience's public X25519 key, 32 bytes.
    """
    return seal_body(
        LEASE,
        write_body(lease),
        address=lease.audience,
        signer="",
        sign=sign,
        recipient=recipient,
        limit=MAX_SMALL,
    )


def open_lease(
    data: bytes, *, key: SealingKey, audience: str, lease_key: bytes, nonce: str | None = None
) -> Lease:
    """Open a lease and check it.

    Args:
        data: the sealed message.
        key: the audience's own key.
        audience: who opens it.
        lease_key: pinned public Ed25519 key, 32 bytes.
        nonce: that of the request it must answer; None leaves the check to the caller.

    Raises:
        RejectedError: `malformed`, `signature`, `audience`, or `replay` (another nonce).
    """
    body = open_authority_body(
        LEASE, data, address=audience, key=key, limit=MAX_SMALL, public=lease_key
    )
    lease = read_body(Lease, body)
    if lease.audience != audience:
        reject("audience", "the lease is for someone else")
    if nonce is not None and lease.nonce != nonce:
        reject("replay", "the lease answers another request")
    return lease
