"""Leases: for how long, and down to which revision, an audience may act.

A lease counts from the moment of asking on the boot-time clock, so that neither a
delayed answer nor a turned wall clock can stretch it (trust.md, abuse 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from policyengine.bundles import Lease
from policyengine.errors import RejectedError

# Answers to the last few questions are welcome; older ones could only shorten a lease.
_OPEN_QUESTIONS = 8

READS: Final = ("deltas",)
"""Forms of bundles that this release reads beside whole ones, as lease requests tell."""
_PATIENCE: Final = 2
_PLAIN_ROUNDS: Final = 60

Standing = Literal["serving", "no-lease", "lease-over", "behind-revision", "behind-notice"]


@dataclass(frozen=True)
class DomainLease:
    """What the control plane granted for one domain.

    Args:
        until: seconds on the boot-time clock; nothing may be delivered from then on.
        minimum_revision: the domain's events wait below it.
        minimum_notice: the domain's events wait until every notice up to it is applied.
    """

    until: float
    minimum_revision: int
    minimum_notice: int


@dataclass(frozen=True)
class LeaseBook:
    """Open questions and the leases held; every change returns a new book.

    Args:
        asked: nonce -> boot time of the asking, oldest first.
        leases: domain -> lease.
        time_offset: the control plane's signed time minus the boot time, in seconds, as of
            the newest answer, or None before the first.
        granted_for: boot time of the asking that the leases answer.
    """

    asked: Mapping[str, float]
    leases: Mapping[str, DomainLease]
    time_offset: float | None = None
    granted_for: float = float("-inf")

    @classmethod
    def empty(cls) -> LeaseBook:
        """The book after a start: nothing may be delivered."""
        return cls(asked={}, leases={})

    def ask(self, nonce: str, boot: float) -> LeaseBook:
        """Note a question.

        Args:
            nonce: fresh, 32 hexadecimal digits.
            boot: boot time in seconds, taken before the question leaves.
        """
        asked = {**self.asked, nonce: boot}
        while len(asked) > _OPEN_QUESTIONS:
            del asked[next(iter(asked))]
        return replace(self, asked=asked)

    def answer(self, lease: Lease) -> LeaseBook:
        """Take a verified answer.

        A domain that the newest answer leaves out has no lease any more.

        Raises:
            RejectedError: `replay`, where the nonce is not one of an open question.
        """
        asked = self.asked.get(lease.nonce)
        if asked is None:
            raise RejectedError("replay", "the lease answers no open question")
        if asked < self.granted_for:
            return replace(self, asked=_without(self.asked, lease.nonce))
        granted = {
            domain: DomainLease(
                until=asked + lease.seconds[domain],
                minimum_revision=minimum["minimum_revision"],
                minimum_notice=minimum["minimum_notice"],
            )
            for domain, minimum in lease.domains.items()
        }
        return LeaseBook(
            asked=_without(self.asked, lease.nonce),
            leases=granted,
            time_offset=lease.time - asked,
            granted_for=asked,
        )

    def without_leases(self) -> LeaseBook:
        """The book once the key that vouched for the leases is no longer trusted."""
        return replace(self, leases={})

    def standing(self, domain: str, *, boot: float, revision: int, notice: int) -> Standing:
        """Whether a domain's events may be handled now, and if not, why.

        Args:
            domain: name of the domain.
            boot: boot time in seconds.
            revision: of the bundle in force.
            notice: number of the last notice before which none is missing.
        """
        lease = self.leases.get(domain)
        if lease is None:
            return "no-lease"
        if boot >= lease.until:
            return "lease-over"
        if revision < lease.minimum_revision:
            return "behind-revision"
        if notice < lease.minimum_notice:
            return "behind-notice"
        return "serving"

    def remaining(self, domain: str, boot: float) -> float:
        """Seconds that a domain's lease still holds; 0.0 without one."""
        lease = self.leases.get(domain)
        return 0.0 if lease is None else max(0.0, lease.until - boot)

    def now(self, *, boot: float, wall: float) -> float:
        """Unix time by the newest lease's signed time; by the wall clock before the first."""
        return wall if self.time_offset is None else boot + self.time_offset


@dataclass(frozen=True)
class Telling:
    """Whether a question tells what this release reads.

    A control plane of the release before refuses questions that do, and cannot say so. So where
    answers stay out every other question is a plain one, and where one of these is answered the
    next are plain, too, for some minutes.

    Args:
        silent: questions since the last answer.
        plain: how many of the next questions tell nothing.
        nonce: of the last question that told nothing.
    """

    silent: int = 0
    plain: int = 0
    nonce: str = ""

    def ask(self, nonce: str) -> tuple[Telling, tuple[str, ...]]:
        """Note a question; returns what it is to tell, too."""
        tells = not self.plain and (self.silent < _PATIENCE or self.silent % 2 == 1)
        after = replace(self, silent=self.silent + 1, plain=max(0, self.plain - 1))
        return (after, READS) if tells else (replace(after, nonce=nonce), ())

    def answered(self, nonce: str) -> Telling:
        """Note an answer."""
        taught = nonce == self.nonce and self.silent > _PATIENCE
        return replace(self, silent=0, plain=_PLAIN_ROUNDS if taught else self.plain)


def _without(asked: Mapping[str, float], nonce: str) -> dict[str, float]:
    return {known: boot for known, boot in asked.items() if known != nonce}
