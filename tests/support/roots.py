"""Roots of trust for tests: holders, roots and what they signed, the same in every run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from policyengine.bundles.roots import ROLES, Root, SignedRoot, draft
from policyengine.primitives import SeededRandom, SigningKey

YEAR = 365 * 86_400
ISSUED = 1_900_000_000


def holder(name: str) -> SigningKey:
    """The key of a root holder."""
    return SigningKey(SeededRandom(b"holder " + name.encode()).token(32))


def online(role: str, generation: int = 1) -> SigningKey:
    """An online key of the authority."""
    return SigningKey(SeededRandom(f"online {role} {generation}".encode()).token(32))


HOLDERS = ("ada", "ben", "cyd")


def root(version: int = 1, *, generation: int = 1, **changes: Any) -> Root:
    """A root of ada, ben and cyd, two of whom must sign."""
    made = Root(
        version=version,
        issued=ISSUED,
        expires=ISSUED + YEAR,
        threshold=2,
        holders=tuple(holder(name).public for name in HOLDERS),
        **{role: online(role, generation).public for role in ROLES},
    )
    return replace(made, **changes)


def signed(made: Root, by: Iterable[str] = ("ada", "ben")) -> SignedRoot:
    """A root with the signatures of some holders."""
    result = draft(made)
    for name in by:
        result = result.signed_by(holder(name))
    return result


def chain(length: int, **changes: Any) -> list[SignedRoot]:
    """Roots 1 to `length`, each with online keys of its own."""
    return [signed(root(n, generation=n, **changes)) for n in range(1, length + 1)]
