"""Restriction: what may not be read or written is left out, not the whole event.

Bacon et al., section 4: a publication or subscription is narrowed to what policy
allows instead of being refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

NOT_PERMITTED: Final = "not-permitted"
"""No rule that holds names the attribute."""


@dataclass(frozen=True, slots=True)
class Removed:
    """One attribute that was left out.

    Args:
        attribute: its name.
        reason: one word, fit for a program.
    """

    attribute: str
    reason: str


@dataclass(frozen=True, slots=True)
class Restricted:
    """What is left of a list of attributes.

    Args:
        kept: names that may stay, in the given order.
        removed: the others, in the given order.
    """

    kept: tuple[str, ...]
    removed: tuple[Removed, ...]


def restrict(names: Sequence[str], allowed: Collection[str] | None) -> Restricted:
    """Narrow a list of attributes to what is allowed; never adds one.

    Args:
        names: attributes of a publication or subscription.
        allowed: what policy permits; None where no rule speaks of attributes, and
            everything is kept.
    """
    permitted = names if allowed is None else allowed
    return Restricted(
        kept=tuple(name for name in names if name in permitted),
        removed=tuple(Removed(name, NOT_PERMITTED) for name in names if name not in permitted),
    )
