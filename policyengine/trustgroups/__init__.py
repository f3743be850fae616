"""Trust groups: members, epochs, and key wraps for one member each.

Source: paper 002, section 4 (broker groups share attribute keys; a member that leaves
ends the epoch). A fresh random key per epoch is wrapped flat, once for every member,
under X25519 or, for members that have a hybrid key, ML-KEM-768 and X25519 together.
"""

from policyengine.trustgroups.epochs import (
    STATES,
    TRANSITIONS,
    EpochState,
    check_transition,
    may_open,
    may_seal,
)
from policyengine.trustgroups.groups import FIRST_EPOCH, Epoch, Member, TrustGroup
from policyengine.trustgroups.wraps import WRAP_SIZES, Wrap, open_wrap, wrap_key

__all__ = [
    "FIRST_EPOCH",
    "STATES",
    "TRANSITIONS",
    "WRAP_SIZES",
    "Epoch",
    "EpochState",
    "Member",
    "TrustGroup",
    "Wrap",
    "check_transition",
    "may_open",
    "may_seal",
    "open_wrap",
    "wrap_key",
]
