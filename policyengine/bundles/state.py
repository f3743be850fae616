"""What an audience durably knows: revisions in force, notices seen, handles denied.

Pure: every change returns a new state, which the caller writes to disk before it acts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Self

from policyengine.bundles.floors import NO_FLOORS, Floors
from policyengine.bundles.header import BundleHeader
from policyengine.bundles.limits import AUDIENCE
from policyengine.bundles.notices import Notice
from policyengine.bundles.sealing import reject
from policyengine.primitives.records import (
    DIGEST,
    IDENTIFIER,
    UINT,
    Integer,
    ListOf,
    MapOf,
    Nested,
    Optional,
    Record,
)


@dataclass(frozen=True)
class Held(Record):
    """The bundle in force.

    Args:
        revision: its revision, from 1.
        digest: SHA-256 of its header.
    """

    revision: Annotated[int, Integer(1)]
    digest: Annotated[str, DIGEST]


@dataclass(frozen=True)
class _Stored(Record):
    """The state's form on disk."""

    audience: Annotated[str, AUDIENCE]
    revisions: Annotated[Mapping[str, Held], MapOf(IDENTIFIER, Nested(Held))]
    notices: Annotated[Mapping[str, int], MapOf(IDENTIFIER, UINT)]
    denied: Annotated[
        Mapping[str, tuple[str, ...]], MapOf(IDENTIFIER, ListOf(IDENTIFIER, unique=True))
    ]
    early: Annotated[Mapping[str, tuple[int, ...]], MapOf(IDENTIFIER, ListOf(UINT, unique=True))]
    floors: Annotated[Mapping[str, Floors] | None, Optional(MapOf(IDENTIFIER, Nested(Floors)))] = (
        None
    )


@dataclass(frozen=True)
class TrustedState:
    """What an agent or client keeps of the messages that it accepted.

    Args:
        audience: whose state this is.
        revisions: domain -> bundle in force.
        notices: domain -> number of the last notice before which none is missing.
        denied: domain -> handles that notices denied. Under any revision they stay denied.
        early: domain -> notices that were applied while one before them is missing.
        floors: domain -> what notices took away that the bundle in force does not know yet.
    """

    audience: str
    revisions: Mapping[str, Held]
    notices: Mapping[str, int]
    denied: Mapping[str, frozenset[str]]
    early: Mapping[str, frozenset[int]]
    floors: Mapping[str, Floors]

    def __init__(
        self,
        audience: str,
        revisions: Mapping[str, Held] | None = None,
        notices: Mapping[str, int] | None = None,
        denied: Mapping[str, frozenset[str]] | None = None,
        early: Mapping[str, frozenset[int]] | None = None,
        *,
        floors: Mapping[str, Floors] | None = None,
    ) -> None:
        object.__setattr__(self, "audience", AUDIENCE.clean(audience, "audience"))
        object.__setattr__(self, "revisions", dict(revisions or {}))
        object.__setattr__(self, "notices", dict(notices or {}))
        object.__setattr__(self, "denied", dict(denied or {}))
        object.__setattr__(self, "early", dict(early or {}))
        object.__setattr__(self, "floors", dict(floors or {}))

    def floors_of(self, domain: str) -> Floors:
        """What notices took away in a domain that the bundle in force does not know yet."""
        return self.floors.get(domain, NO_FLOORS)

    def check(self, header: BundleHeader, digest: str, now: float) -> None:
        """Decide whether a verified bundle may follow what is in force.

        Args:
            header: of an opened bundle.
            digest: SHA-256 of the header's bytes.
            now: seconds since 1970, by the lease's signed time where there is one.

        Raises:
            RejectedError: `audience`; `replay` (the revision in force again); `rollback`
                (an older one); `expired`; `previous` (it follows another bundle than the
                one in force). A gap in revisions is no reason by itself.
        """
        if header.audience != self.audience:
            reject("audience", "the bundle is for someone else")
        held = self.revisions.get(header.domain)
        if held is not None and (header.revision == held.revision or digest == held.digest):
            reject("replay", f"revision {header.revision} is in force already")
        if held is not None and header.revision < held.revision:
            reject("rollback", f"revision {held.revision} is in force already")
        if header.expires <= now:
            reject("expired", "the bundle has expired")
        if header.previous and (held is None or header.previous != held.digest):
            reject("previous", "the bundle follows another one than that in force")

    def applied(
        self, header: BundleHeader, digest: str, *, notices_through: int = 0
    ) -> TrustedState:
        """Return the state after a checked bundle came into force.

        Args:
            header: of the bundle.
            digest: SHA-256 of the header's bytes.
            notices_through: the last notice that the content takes into account, for an
                agent's content; notices up to it no longer count as missing.
        """
        domain = header.domain
        revisions = {**self.revisions, domain: Held(header.revision, digest)}
        through = max(self.notices.get(domain, 0), notices_through)
        floors = self._with_floors(domain, self.floors_of(domain).above(header.revision))
        return replace(self, revisions=revisions, floors=floors)._counted(
            domain, through, self.early.get(domain, frozenset())
        )

    def noticed(self, notice: Notice) -> TrustedState:
        """Return the state after a notice. Handles are denied at once and for good, or until
        the revision comes into force that knows what they lost.

        The number only counts on when no notice before is missing, so that a dropped
        notice cannot hide behind a later one: the audience then stays behind the lease's
        minimum, and delivers nothing, until the missing notice or a newer bundle arrives.

        Raises:
            RejectedError: `audience`.
        """
        if notice.audience != self.audience:
            reject("audience", "the notice is for someone else")
        domain = notice.domain
        denied = self.denied.get(domain, frozenset()) | frozenset(notice.deny)
        early = self.early.get(domain, frozenset()) | {notice.number}
        held = self.revisions.get(domain)
        known = 0 if held is None else held.revision
        floors = self.floors_of(domain).joined(notice.floors.above(known))
        state = replace(
            self,
            denied={**self.denied, domain: denied},
            floors=self._with_floors(domain, floors),
        )
        return state._counted(domain, self.notices.get(domain, 0), early)

    def reset(self, domains: Iterable[str]) -> TrustedState:
        """Return the state after a root had revision and notices of domains forgotten.

        Who was denied stays so: nobody comes back by a reset.
        """
        gone = frozenset(domains)
        return replace(
            self,
            revisions={name: held for name, held in self.revisions.items() if name not in gone},
            notices={name: number for name, number in self.notices.items() if name not in gone},
            early={name: numbers for name, numbers in self.early.items() if name not in gone},
        )

    def _with_floors(self, domain: str, floors: Floors) -> dict[str, Floors]:
        others = {name: held for name, held in self.floors.items() if name != domain}
        return others if floors == NO_FLOORS else {**others, domain: floors}

    def _counted(self, domain: str, through: int, early: frozenset[int]) -> TrustedState:
        while through + 1 in early:
            through += 1
        left = frozenset(number for number in early if number > through)
        kept = {name: numbers for name, numbers in self.early.items() if name != domain}
        return replace(
            self,
            notices={**self.notices, domain: through},
            early={**kept, domain: left} if left else kept,
        )

    def to_json(self) -> dict[str, object]:
        """Return the state as plain JSON values."""
        return _Stored(
            audience=self.audience,
            revisions=self.revisions,
            notices=self.notices,
            denied={domain: tuple(sorted(names)) for domain, names in self.denied.items()},
            early={domain: tuple(sorted(numbers)) for domain, numbers in self.early.items()},
            floors=self.floors or None,
        ).to_json()

    @classmethod
    def from_json(cls, obj: object) -> Self:
        """Read a state.

        Raises:
            DecodeError: it is not exactly what `to_json` wrote.
        """
        stored = _Stored.from_json(obj)
        return cls(
            audience=stored.audience,
            revisions=stored.revisions,
            notices=stored.notices,
            denied={domain: frozenset(names) for domain, names in stored.denied.items()},
            early={domain: frozenset(numbers) for domain, numbers in stored.early.items()},
            floors=stored.floors,
        )
