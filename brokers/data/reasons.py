"""Why a message is refused: one word for programs, one sentence for people."""

from __future__ import annotations

from typing import Final, NoReturn

from policyengine.errors import RejectedError

UNKNOWN_TYPE: Final = "unknown-type"
UNKNOWN_PUBLISHER: Final = "unknown-publisher"
UNKNOWN_CLIENT: Final = "unknown-client"
UNKNOWN_AGENT: Final = "unknown-agent"
SIGNATURE: Final = "signature"
NOT_AUTHORISED: Final = "not-authorised"
REVOKED: Final = "revoked"
EPOCH_RETIRED: Final = "epoch-retired"
EPOCH_UNKNOWN: Final = "epoch-unknown"
POLICY_ENDED: Final = "policy-ended"
STALE: Final = "stale"
MALFORMED: Final = "malformed"
INVALID_FILTER: Final = "invalid-filter"
OWN_EVENT: Final = "own-event"
NO_KEY: Final = "no-key"
NOT_PERMITTED: Final = "not-permitted"
CONDITION: Final = "condition"
NO_SHARE: Final = "no-share"
MATCH_ONLY: Final = "match-only"
TOO_MANY: Final = "too-many-subscriptions"
FAILED: Final = "failed"
COMPARATOR_AWAY: Final = "comparator-away"
NO_ROOM: Final = "no-room"
CONFIRM: Final = "confirm"
"""Not a refusal: the reply asks a client what it has not dealt with yet."""
TOO_OFTEN: Final = "too-often"

RETRYABLE: Final = frozenset({EPOCH_RETIRED, EPOCH_UNKNOWN, STALE})
"""Refusals that a publisher answers by sealing anew under its newest bundle."""


def refuse(reason: str, message: str) -> NoReturn:
    """Refuse the message at hand.

    Args:
        reason: one of this module's words.
        message: the same for a person; never a value, a key or an expression.
    """
    raise RejectedError(reason, message)
