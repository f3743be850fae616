"""Profiles: what protections an event type's attributes begin with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policyengine.attributes import unknown
from policyengine.events import AttributeSpec
from policyengine.privacy.gate import MUST_BE_ENCRYPTED
from policyengine.privacy.protections import (
    ATTRIBUTE_KEY,
    CLEAR,
    ORDER_PRESERVING,
    SEARCHABLE,
    Protection,
    check_class,
)

_CLEAR: Final = Protection(CLEAR)
_KEY: Final = Protection(ATTRIBUTE_KEY)
_BLIND: Final = Protection(SEARCHABLE, sealed=True)
_ORDERED: Final = Protection(ORDER_PRESERVING, sealed=True)
_ORDERED_TYPES: Final = ("int", "float", "string")


@dataclass(frozen=True, slots=True)
class _Asked:
    """An attribute for which a protection is wanted.

    Args:
        spec: how it is declared.
        hidden: whether the gate would refuse it in clear, or the split encrypts it.
    """

    spec: AttributeSpec
    hidden: bool


def _open(asked: _Asked) -> Protection:
    if not asked.hidden:
        return _CLEAR
    return _KEY if asked.spec.keys else _BLIND


def _trusted(asked: _Asked) -> Protection:
    if asked.spec.keys:  # paper 002, section 3: keys are given to brokers, public ones clear
        return _KEY
    return _BLIND if asked.hidden else _CLEAR


def _blind(asked: _Asked) -> Protection:  # paper 001: no broker reads anything
    return _BLIND


def _blind_ranges(asked: _Asked) -> Protection:
    # Paper 003 orders numbers and strings. The few values of an enum or a truth value are
    # always densely used, so that their rank would be their plaintext.
    ordered = not asked.hidden and asked.spec.type.kind in _ORDERED_TYPES
    return _ORDERED if ordered else _BLIND


def _split(asked: _Asked) -> Protection:  # paper 004, section 4.4
    return _BLIND if asked.hidden else _CLEAR


_RULES: Final[Mapping[str, Callable[[_Asked], Protection]]] = {
    "open": _open,
    "trusted brokers": _trusted,
    "blind brokers": _blind,
    "blind ranges": _blind_ranges,
    "split": _split,
}
PROFILES: Final = tuple(_RULES)
"""Names of the profiles: in clear wherever the gate allows it, whatever keys are named; papers
002, 001, 003 and 004."""


def preset(
    profile: str,
    attributes: Iterable[AttributeSpec],
    *,
    overlays: Mapping[str, Sequence[str]] | None = None,
    encrypted: Collection[str] = (),
) -> dict[str, Protection]:
    """Return the protections that a profile gives an event type's attributes.

    Whatever the classes, keys and overlays are, the gate refuses none of them.

    Args:
        profile: one of `PROFILES`.
        attributes: the type's attributes (`EventTypes.attributes`).
        overlays: attribute -> the overlays on which it travels; one where left out.
        encrypted: attributes that a split plan encrypts, whatever their class.

    Returns:
        Attribute -> protection, in the order of the attributes.

    Raises:
        InputError: `unknown` for another profile or class.
    """
    if profile not in _RULES:
        raise unknown("profile", profile, PROFILES, where="profile")
    rule, travels = _RULES[profile], overlays or {}
    protections: dict[str, Protection] = {}
    for spec in attributes:
        check_class(spec.pia)
        spread = spec.pia == "quasi-identifying" and len(set(travels.get(spec.name, ()))) > 1
        hidden = spec.pia in MUST_BE_ENCRYPTED or spread or spec.name in encrypted
        protections[spec.name] = rule(_Asked(spec, hidden))
    return protections
