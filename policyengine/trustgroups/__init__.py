"""Keys of trust groups: epochs, and key wraps for one member each.

Source: paper 002, section 4 (broker groups share attribute keys; a member that leaves
ends the epoch). A fresh random key per epoch is wrapped flat, once for every member.
"""

from policyengine.trustgroups.epochs import STATES, EpochState, may_open, may_seal
from policyengine.trustgroups.wraps import Wrap, open_wrap, wrap_key

__all__ = [
    "STATES",
    "EpochState",
    "Wrap",
    "may_open",
    "may_seal",
    "open_wrap",
    "wrap_key",
]
