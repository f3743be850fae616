"""A group's epoch key, sealed for one member."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from policyengine.errors import InputError
from policyengine.primitives.canonical import pack
from policyengine.primitives.hpke import (
    HYBRID_OVERHEAD,
    OVERHEAD,
    SealingKey,
    open_sealed,
    seal_to,
)
from policyengine.primitives.records import (
    UINT,
    WRITTEN,
    Binary,
    Choice,
    Record,
    Text,
    invalid,
)
from policyengine.trustgroups.epochs import STATES

KEY_SIZE: Final = 32
GROUP: Final = Text(
    "(key|overlay):[a-z0-9-]{1,64}", 72, "must be `key:` or `overlay:` and an identifier"
)
WRAP_SIZES: Final = (OVERHEAD + KEY_SIZE, HYBRID_OVERHEAD + KEY_SIZE)
"""Bytes of a sealed epoch key: for an X25519 member and for a hybrid one."""
_PURPOSE: Final = b"portcullis/wrap/v1"


class _Sealed(Binary):
    """An epoch key sealed under either suite: one of two lengths, nothing between."""

    def clean(self, value: Any, where: str) -> bytes:
        """Accept bytes of a legal length."""
        data = super().clean(value, where)
        if len(data) not in WRAP_SIZES:
            sizes = " or ".join(str(size) for size in WRAP_SIZES)
            raise invalid(where, f"must have {sizes} bytes")
        return data


@dataclass(frozen=True)
class Wrap(Record):
    """One epoch key for one member.

    Args:
        group: `key:<attribute key>` or `overlay:<overlay>`.
        epoch: number of the epoch.
        sealed: HPKE message, 81 bytes for an X25519 member, 1169 for a hybrid one.
        state: what the epoch may be used for; not bound into the seal, since it changes
            while the key stays. The bundle that carries the wrap signs it.
    """

    group: Annotated[str, GROUP]
    epoch: Annotated[int, UINT]
    sealed: Annotated[bytes, _Sealed()]
    state: Annotated[str, Choice(STATES)] = field(default="current", metadata=WRITTEN)


def wrap_key(
    group: str,
    epoch: int,
    key: bytes,
    *,
    recipient: bytes,
    audience: str,
    state: str = "current",
) -> Wrap:
    """Seal an epoch key for one member.

    Args:
        group: `key:<name>` or `overlay:<name>`.
        epoch: number of the epoch, from 0.
        key: 32 bytes.
        recipient: the member's public sealing key, X25519 or hybrid.
        audience: the member's address, for example `agent:alpha`.
        state: the epoch's state.

    Raises:
        InputError: `invalid` when a part is out of range.
    """
    if len(key) != KEY_SIZE:
        raise InputError("invalid", "an epoch key has 32 bytes")
    info = _info(GROUP.clean(group, "group"), UINT.clean(epoch, "epoch"), audience)
    return Wrap(group, epoch, seal_to(recipient, key, info=info), state)


def open_wrap(wrap: Wrap, key: SealingKey, *, audience: str) -> bytes:
    """Open a wrap.

    Returns:
        The 32-byte epoch key.

    Raises:
        DecryptionError: made for another member, group or epoch, or damaged.
    """
    # INVARIANT: `sealed` has a size that holds a key of 32 bytes; the member's key says
    # which suite it must be, so a hybrid member never accepts a classical wrap
    return open_sealed(key, wrap.sealed, info=_info(wrap.group, wrap.epoch, audience))


def _info(group: str, epoch: int, audience: str) -> bytes:
    return pack(_PURPOSE, group.encode(), epoch.to_bytes(8, "big"), audience.encode())
