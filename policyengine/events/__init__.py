"""Event types, restriction and attribute keys."""

from policyengine.events.protection import Protected, protect, reveal
from policyengine.events.restriction import NOT_PERMITTED, Removed, Restricted, restrict
from policyengine.events.types import AttributeSpec, EventTypes, TypeSpec

__all__ = [
    "NOT_PERMITTED",
    "AttributeSpec",
    "EventTypes",
    "Protected",
    "Removed",
    "Restricted",
    "TypeSpec",
    "protect",
    "restrict",
    "reveal",
]
