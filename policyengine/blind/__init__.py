"""Blind profiles: agents match and deliver what they cannot read (papers 001 and 004)."""

from policyengine.blind.keys import (
    MAX_VARIANTS,
    AgentShare,
    BlindMaster,
    BlindPublic,
    ClientKeys,
)
from policyengine.blind.policy import NOBODY, ReadPolicy
from policyengine.blind.wire import Place

__all__ = [
    "MAX_VARIANTS",
    "NOBODY",
    "AgentShare",
    "BlindMaster",
    "BlindPublic",
    "ClientKeys",
    "Place",
    "ReadPolicy",
]
