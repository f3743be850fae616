"""What each profile does to attributes, as a table for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policyengine.attributes import AttributeType
from policyengine.events import AttributeSpec
from policyengine.privacy import CLASSES, PROFILES, Protection, preset

_WORDS: Final = {
    "open": "in clear wherever the class allows it",
    "trusted brokers": "brokers that hold an attribute's key read it, the others forward it",
    "blind brokers": "no broker reads anything; brokers match searchable ciphertexts",
    "blind ranges": "no broker reads anything; brokers compare order-preserving ciphertexts",
    "split": "what tells of a person is encrypted or split over overlays",
}


@dataclass(frozen=True)
class Preset:
    """The protection of one sort of attribute.

    Args:
        pia_class: its class.
        keyed: whether it names attribute keys.
        protection: what the profile gives it.
    """

    pia_class: str
    keyed: bool
    protection: Protection


@dataclass(frozen=True)
class Profile:
    """A profile.

    Args:
        name: as event types name it.
        description: what it is for.
        presets: what it gives a text attribute of each class, with and without keys.
    """

    name: str
    description: str
    presets: tuple[Preset, ...]


def profiles() -> tuple[Profile, ...]:
    """Every profile."""
    return tuple(Profile(name, _WORDS[name], tuple(_presets(name))) for name in PROFILES)


def _presets(profile: str) -> list[Preset]:
    found = []
    for pia in CLASSES:
        for keyed in (False, True):
            spec = AttributeSpec("value", AttributeType("string"), ("key",) if keyed else (), pia)
            found.append(Preset(pia, keyed, preset(profile, [spec])["value"]))
    return found
