"""How the packages of the engine word what is wrong with a person's input."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from policyengine.errors import InputError

_SHOWN = 40
_LISTED = 8
_COMPARED = 1000


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a person most likely meant, or None.

    Args:
        name: what was written.
        known: names that exist.
    """
    names = sorted(set(known))
    by_lower = {other.lower(): other for other in names}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    if len(names) > _COMPARED:
        return None  # a comparison with each would take seconds
    found = difflib.get_close_matches(name[:200], names, n=1, cutoff=0.6)
    return found[0] if found else None


def shown(text: object) -> str:
    """Write a person's input in backticks, shortened to what fits in a message."""
    raw = str(text)
    return f"`{raw}`" if len(raw) <= _SHOWN else f"`{raw[: _SHOWN - 1]}…`"


def listed(names: Iterable[str]) -> str:
    """Write a list of names that could have been used, shortened."""
    every = sorted(set(names))
    return f"expected {one_of(every)}" if every else "none is declared"


def one_of(names: Sequence[str]) -> str:
    """Write `one of` and the names in their order, shortened; at least one."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return "one of " + ", ".join(shown(name) for name in names[:_LISTED]) + more


def unknown(
    what: str, name: str, known: Iterable[str], *, at: int | None = None, where: str | None = None
) -> InputError:
    """Make the error for a name that does not exist.

    Args:
        what: kind of the thing, for the message (`attribute`, `event type`).
        name: what was written.
        known: names that exist.
        at: position in the text.
        where: field or object concerned; the name itself when left out.
    """
    names = tuple(known)
    return InputError(
        "unknown",
        f"{shown(name)} is no known {what}; {listed(names)}",
        at=at,
        where=name[:200] if where is None else where,
        suggestion=nearest(name, names),
    )
