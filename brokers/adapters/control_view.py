"""Whom the control side hands accepted content to, and what it shows of what it refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from policyengine.bundles import Floors, OpenedBundle, TrustedState


class Applier(Protocol):
    """Who puts accepted content into force."""

    def prepare(self, opened: OpenedBundle, state: TrustedState) -> object:
        """Build what will be in force. Raises RejectedError where the content is no use."""

    def commit(self, domain: str, prepared: object) -> None:
        """Swap it in, as a whole."""

    def deny(self, domain: str, handles: frozenset[str]) -> None:
        """Take handles out at once."""

    def hold(self, domain: str, floors: Floors) -> None:
        """Give parties nothing before the revision that knows what they lost."""

    def settled(self) -> Callable[[], bool]:
        """A question: is everything over that began under what was in force until now?"""


@dataclass(frozen=True)
class Rejection:
    """Something that was refused on the control side.

    Args:
        at: Unix time in seconds.
        what: `bundle`, `notice`, `lease`, `root` or `message`.
        domain: the domain its frame named.
        reason: the protocol's word.
        message: the same for a person.
    """

    at: float
    what: str
    domain: str
    reason: str
    message: str
