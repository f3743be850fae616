"""The privacy gate: which protection a class of attribute must have (PP-DEBS)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policyengine.attributes import shown, unknown
from policyengine.errors import GateError

CLASSES: Final = ("identifying", "quasi-identifying", "confidential", "non-confidential")
"""Classes of the privacy assessment."""

_MUST_BE_ENCRYPTED: Final = ("identifying", "confidential")


def gate(pia: str, *, has_keys: bool, overlays: Sequence[str]) -> None:
    """Refuse a protection that is too weak for a class.

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
    if pia not in CLASSES:
        raise unknown("class", pia, CLASSES, where="pia")
    if has_keys:
        return
    if pia in _MUST_BE_ENCRYPTED:
        article = "an" if pia == "identifying" else "a"
        raise GateError((f"{article} {pia} attribute must be encrypted under an attribute key",))
    several = sorted(set(overlays))
    if pia == "quasi-identifying" and len(several) > 1:
        named = " and ".join(shown(name) for name in several)
        raise GateError(
            (f"a quasi-identifying attribute may travel in clear on one overlay, not on {named}",)
        )
