"""What hostile control planes have: other keys, other contexts, other people's signatures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from policyengine.bundles import contexts
from policyengine.primitives import SigningKey, pack
from tests.conformance.agent.world import EVE, NAME, keys_of
from tests.support.roots import holder, online

KEY = keys_of(NAME).sealing
BETA = keys_of("beta").sealing
OTHERS = ("policy", "notice", "lease", "receipt", "audit", "enrolment")
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of Ed25519's group: a signature's second half plus this one is the same one in bad clothes."""
CONTEXTS = {
    "a root": contexts.ROOT,
    "a bundle": contexts.BUNDLE,
    "a piece": contexts.CHUNK,
    "a notice": contexts.NOTICE,
    "a lease": contexts.LEASE,
    "a receipt": contexts.RECEIPT,
    "what was kept": contexts.KEPT,
}


@dataclass(frozen=True)
class Forgery:
    """What a hostile control plane does.

    Args:
        attack: the kind of attack.
        reason: the protocol's word that it must hear.
        make: what it makes of the honest message.
    """

    attack: str
    reason: str
    make: Callable[[Any], bytes]


def framed(kind: str, domain: str, payload: bytes) -> bytes:
    """A control message, of any size and kind."""
    return pack(kind.encode(), domain.encode(), payload)


# signatures, the same ways for every kind of message


def signatures(honest: bytes, other: bytes) -> dict[str, bytes]:
    """Signatures that are none, by what was done to an honest one.

    Args:
        honest: over this message.
        other: by the same key, over another message.
    """
    scalar = int.from_bytes(honest[32:], "little") + ORDER
    return {
        "stripped": b"",
        "of zeros": bytes(64),
        "of another message": other,
        "cut short": honest[:-1],
        "with a byte more": honest + b"\0",
        "with a bit turned": bytes([honest[0] ^ 1]) + honest[1:],
        "written a second way": honest[:32] + scalar.to_bytes(32, "little"),
        "twice": honest * 2,
    }


def wrong_keys(own: str) -> dict[str, SigningKey]:
    """Every key that may sign something, but not this."""
    return {
        **{f"the {role} key": online(role) for role in OTHERS if role != own},
        f"the {own} key of the next root": online(own, 2),
        "a root holder": holder("ada"),
        "the agent itself": keys_of(NAME).signing,
        "a client": keys_of(EVE).signing,
    }
