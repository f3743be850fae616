"""Who an audience is, and whom it trusts."""

from __future__ import annotations

from dataclasses import dataclass

from policyengine.bundles import TrustAnchors
from policyengine.primitives.hpke import SealingKey


@dataclass(frozen=True)
class Identity:
    """Who opens messages, and what it trusts.

    Args:
        audience: for example `agent:alpha`.
        sealing_key: its own X25519 key.
        anchors: pinned keys of the authority.
    """

    audience: str
    sealing_key: SealingKey
    anchors: TrustAnchors
