"""The privacy gate: which protection a class of attribute must have (PP-DEBS).

Paper 004, section 4.4: identifying and confidential attributes are encrypted, quasi-
identifying ones are kept apart from one another. What order-preserving encryption leaks
decides the rest: on a densely used domain a value's rank is its plaintext (paper 003, in
both of its schemes).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from policyengine.attributes import shown
from policyengine.errors import GateError
from policyengine.privacy.protections import (
    ATTRIBUTE_KEY,
    CLEAR,
    ORDER_PRESERVING,
    Protection,
    RiskAcceptance,
    check_class,
)

MUST_BE_ENCRYPTED: Final = ("identifying", "confidential")
"""Classes that never travel in clear."""

_UNDER_A_KEY: Final = "under an attribute key"
_ANY_WAY: Final = "under an attribute key, or searchable and sealed"


def gate(pia: str, *, has_keys: bool, overlays: Sequence[str]) -> None:
    """Refuse a protection that is too weak for a class, where attribute keys are all there is.

    Args:
        pia: the attribute's class, one of `CLASSES`.
        has_keys: whether it is encrypted under an attribute key.
        overlays: the overlays on which it travels.

    Raises:
        GateError: an identifying or confidential attribute without a key; a
            quasi-identifying one in clear on several overlays, where a split
            could not keep it apart from the others.
        InputError: `unknown` for another class.
    """
    check_class(pia)
    reasons = () if has_keys else _against_clear(pia, overlays, _UNDER_A_KEY)
    if reasons:
        raise GateError(reasons)


def check_protection(
    attribute: str,
    pia: str,
    protection: Protection,
    *,
    has_keys: bool,
    overlays: Sequence[str],
    now: float,
    acceptances: Iterable[RiskAcceptance] = (),
) -> tuple[str, ...]:
    """Refuse a protection that is too weak for a class, or say what to know about it.

    Only order-preserving protection of identifying and confidential attributes can be had
    by accepting the risk in writing; nothing makes up for a value in clear.

    Args:
        attribute: its name, as acceptances of risk name it.
        pia: its class, one of `CLASSES`.
        protection: the protection that somebody wants for it.
        has_keys: whether it names attribute keys.
        overlays: the overlays on which it travels.
        now: seconds since 1970, against which acceptances expire.
        acceptances: what people accepted; those about other things are passed over.

    Returns:
        What to point out, one plain sentence each.

    Raises:
        GateError: the protection is too weak, with every reason.
        InputError: `unknown` for another class.
    """
    check_class(pia)
    notes: tuple[str, ...] = ()
    if protection.kind == CLEAR:
        reasons = _against_clear(pia, overlays, _ANY_WAY)
    elif protection.kind == ATTRIBUTE_KEY:
        reasons = _against_key(has_keys)
    else:
        reasons = _against_uncarried(pia, protection, has_keys=has_keys)
        if protection.kind == ORDER_PRESERVING:
            about = [one for one in acceptances if one.covers(attribute, pia, protection.kind)]
            more, notes = _order(pia, about, now)
            reasons += more
    if reasons:
        raise GateError(reasons)
    return notes


def _against_clear(pia: str, overlays: Sequence[str], ways: str) -> tuple[str, ...]:
    if pia in MUST_BE_ENCRYPTED:
        return (f"{_article(pia)} {pia} attribute must be encrypted {ways}",)
    several = sorted(set(overlays))
    if pia == "quasi-identifying" and len(several) > 1:
        named = " and ".join(shown(name) for name in several)
        return (
            f"a quasi-identifying attribute may travel in clear on one overlay, not on {named}",
        )
    return ()


def _against_key(has_keys: bool) -> tuple[str, ...]:
    return () if has_keys else ("the attribute names no attribute key to be encrypted under",)


def _against_uncarried(pia: str, protection: Protection, *, has_keys: bool) -> tuple[str, ...]:
    # Searchable and order-preserving ciphertexts are for matching; readers need the value too.
    if protection.sealed or has_keys or pia == "non-confidential":
        return ()
    form = f"{_article(protection.kind)} {protection.kind} ciphertext"
    value = f"the value of {_article(pia)} {pia} attribute"
    return (f"{form} is only matched on; {value} must travel beside it sealed or under a key",)


def _order(
    pia: str, acceptances: Sequence[RiskAcceptance], now: float
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the reasons against order-preserving protection, and what to point out."""
    if pia == "non-confidential":
        return (), ()
    leak = "where most values of the domain occur, its rank in the order is its plaintext"
    if pia == "quasi-identifying":
        return (), (
            f"an order-preserving ciphertext shows a quasi-identifying attribute's order: {leak}",
        )
    in_force = [one for one in acceptances if now < one.until]
    if in_force:
        last = max(in_force, key=lambda one: (one.until, one.who, one.why))
        return (), (f"{last}; until then {leak}",)
    refusal = (
        f"{_article(pia)} {pia} attribute may not be order-preserving: {leak}; somebody may accept"
        " this risk in writing, for a while"
    )
    if acceptances:
        return (f"{refusal}; the acceptance of {shown(acceptances[-1].who)} has expired",), ()
    return (refusal,), ()


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"
