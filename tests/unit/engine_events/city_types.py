"""The event types of paper 002, Fig. 2, and what its case study says about them."""

from __future__ import annotations

from typing import Any

from policyengine.events import EventTypes, Subscription, types_from_json

BOTH = ["police", "fire"]
CITY: dict[str, Any] = {
    "PoliceEvent": {
        "parent": None,
        "attributes": {
            "location": {"type": "string", "keys": BOTH},
            "severity": {"type": "int", "min": 0, "max": 10},
            "zone": {"type": "string"},
            "isDrill": {"type": "bool", "keys": ["policeTraining"]},
        },
    },
    "BurglaryEvent": {
        "parent": "PoliceEvent",
        "attributes": {
            "location": {"type": "string", "keys": ["police"]},
            "premises": {"type": "string", "keys": ["police"]},
            "polCode": {"type": "int", "min": 0, "max": 99, "keys": ["police"]},
        },
    },
    "SilentAlarm": {"parent": "BurglaryEvent", "attributes": {}},
    "FireEvent": {
        "parent": None,
        "attributes": {"location": {"type": "string", "keys": ["fire"]}},
    },
}


def city() -> EventTypes:
    """The tree of types."""
    return types_from_json(CITY)


def asked(type_name: str, *filters: tuple[str, list[str]]) -> dict[str, Any]:
    """A subscription in JSON."""
    return {
        "type": type_name,
        "filters": [{"expression": text, "keys": keys} for text, keys in filters],
    }


def subscription(type_name: str, *filters: tuple[str, list[str]]) -> Subscription:
    """A subscription."""
    return Subscription.from_json(asked(type_name, *filters), city())
