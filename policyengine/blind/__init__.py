"""Blind profiles: agents match and deliver what they cannot read (papers 001 and 004)."""

from policyengine.blind.agents import (
    FinishedAlternative,
    finish_filter,
    finish_part,
    predecrypt,
)
from policyengine.blind.apart import Alternative, take_apart
from policyengine.blind.clients import (
    DeliveryOpener,
    EventSealer,
    seal_filter,
    seal_filter_text,
    split_filter,
)
from policyengine.blind.filters import BlindAlternative, BlindFilter
from policyengine.blind.keys import (
    MAX_VARIANTS,
    AgentShare,
    BlindMaster,
    BlindPublic,
    ClientKeys,
)
from policyengine.blind.parts import BlindDelivery, BlindPart, RoutedBlind, Sealed, Searchable
from policyengine.blind.policy import NOBODY, ReadPolicy
from policyengine.blind.sealing import Context
from policyengine.blind.wire import Place

__all__ = [
    "MAX_VARIANTS",
    "NOBODY",
    "AgentShare",
    "Alternative",
    "BlindAlternative",
    "BlindDelivery",
    "BlindFilter",
    "BlindMaster",
    "BlindPart",
    "BlindPublic",
    "ClientKeys",
    "Context",
    "DeliveryOpener",
    "EventSealer",
    "FinishedAlternative",
    "Place",
    "ReadPolicy",
    "RoutedBlind",
    "Sealed",
    "Searchable",
    "finish_filter",
    "finish_part",
    "predecrypt",
    "seal_filter",
    "seal_filter_text",
    "split_filter",
    "take_apart",
]
