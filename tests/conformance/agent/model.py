"""What an agent must hold, by the rules of the protocol and none of its code.

It hears of honest messages only, as they are meant; whatever a hostile control plane made of them
changes nothing here. So it says at every moment which bundle must be in force, which notices must
count, and who may get an event.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from tests.conformance.agent.contract import Clock, Holding
from tests.conformance.agent.world import (
    DOMAINS,
    START,
    Bundle,
    Chunk,
    Lease,
    Message,
    Notice,
    Roots,
)
from tests.support.roots import ISSUED, YEAR

APPLIED, RECEIVED, SILENCE = "applied", "received", "silence"
EVERYBODY = ""
MOST_QUESTIONS = 8
"""Answers to the last few questions count, and to no earlier one."""


@dataclass
class Disk:
    """What must survive `kill -9`.

    Args:
        bundles: domain -> the bundle kept.
        known: domain -> revision and digest that were reached; nothing older ever comes again.
        notices: domain -> numbers of notices seen, those before a bundle's last one included.
        denied: domain -> who gets nothing any more.
        until: domain -> who gets nothing before the bundle of which revision; "" is everybody.
        root: version of the root.
        root_ends: Unix time at which it expires.
    """

    bundles: dict[str, Bundle] = field(default_factory=dict)
    known: dict[str, tuple[int, str]] = field(default_factory=dict)
    notices: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in DOMAINS})
    denied: dict[str, set[str]] = field(default_factory=lambda: {name: set() for name in DOMAINS})
    until: dict[str, dict[str, int]] = field(default_factory=lambda: {name: {} for name in DOMAINS})
    root: int = 1
    root_ends: float = ISSUED + YEAR


@dataclass(frozen=True)
class Granted:
    """A lease of one domain.

    Args:
        until: on the boot-time clock.
        revision: that must be in force at least.
        notice: up to which none may be missing.
    """

    until: float
    revision: int
    notice: int


class Model:
    """One agent as it must be.

    Args:
        clock: the machine's clocks.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.disk = Disk()
        self.restart()

    def restart(self) -> None:
        """What was in memory alone is gone; what the disk keeps and may keep is in force."""
        self.questions: dict[str, float] = {}
        self.leases: dict[str, Granted] = {}
        self._granted_for = float("-inf")
        self._ahead: float | None = None
        self._pieces: dict[str, tuple[Bundle, set[int]]] = {}
        self.force: dict[str, Bundle] = {}
        for domain, bundle in self.disk.bundles.items():
            number, digest = self.disk.known.get(domain, (0, ""))
            newer = bundle.revision > number and _follows(bundle, digest)
            if bundle.root == self.disk.root and (bundle.digest == digest or newer):
                self._take(bundle)

    def asked(self, nonce: str) -> None:
        """The agent asked for a lease."""
        self.questions[nonce] = self._clock.boot()
        for old in list(self.questions)[:-MOST_QUESTIONS]:
            del self.questions[old]

    def now(self) -> float:
        """Unix time as the agent must see it: by the newest lease, before it by the wall clock."""
        return self._clock.wall() if self._ahead is None else self._clock.boot() + self._ahead

    def holding(self, domain: str) -> Holding:
        """What it must say that it holds of a domain."""
        bundle = self.force.get(domain)
        notice = self.last_notice(domain)
        if bundle is None:
            return Holding(0, "", notice)
        return Holding(bundle.revision, bundle.digest, notice)

    def last_notice(self, domain: str) -> int:
        """The last notice before which none is missing."""
        seen = self.disk.notices[domain]
        return next(number for number in range(len(seen) + 1) if number + 1 not in seen)

    def receivers(self, domain: str) -> frozenset[str] | None:
        """Who must get an event of a domain now, and nobody else; None where it must wait."""
        bundle, lease = self.force.get(domain), self.leases.get(domain)
        if bundle is None or lease is None or self._clock.boot() >= lease.until:
            return None
        if bundle.revision < lease.revision or self.last_notice(domain) < lease.notice:
            return None
        until = self.disk.until[domain]
        if EVERYBODY in until:
            return None
        return frozenset(bundle.allowed) - self.disk.denied[domain] - set(until)

    def hears(self, message: Message, nonce: str = "") -> str:
        """Take an honest message; returns the answer that it must get.

        Args:
            message: what came.
            nonce: of a lease, that of the question that it answers.
        """
        if isinstance(message, Bundle):
            return self._bundle(message)
        if isinstance(message, Chunk):
            return self._chunk(message)
        if isinstance(message, Notice):
            return self._notice(message)
        if isinstance(message, Lease):
            return self._lease(message, nonce)
        assert isinstance(message, Roots)
        return self._roots(message)

    # bundles

    def _bundle(self, bundle: Bundle) -> str:
        if bundle.root != self.disk.root:
            return "signature"
        held = self.force.get(bundle.domain)
        if held is not None and held.digest == bundle.digest:
            return APPLIED
        if refusal := self._refusal(bundle):
            return refusal
        if not bundle.chunked:
            return self._take_new(bundle)
        waiting, _ = self._pieces.get(bundle.domain, (None, set()))
        if waiting is not None and waiting.revision > bundle.revision:
            return "rollback"
        if waiting is None or waiting.digest != bundle.digest:
            self._pieces[bundle.domain] = (bundle, set())
        return RECEIVED

    def _refusal(self, bundle: Bundle) -> str:
        number, digest = self.disk.known.get(bundle.domain, (0, ""))
        if bundle.domain not in self.force:
            # its file was lost: it may come once more, or another whole one of its revision
            if digest == bundle.digest:
                return ""
            if number == bundle.revision:
                number, digest = 0, ""
        if number == bundle.revision:
            return "replay"
        if number > bundle.revision:
            return "rollback"
        if START + bundle.expires <= self.now():
            return "expired"
        return "" if _follows(bundle, digest) else "previous"

    def _take_new(self, bundle: Bundle) -> str:
        if bundle.delta and self.disk.bundles.get(bundle.domain) != bundle.follows:
            return "previous"
        self._take(bundle)
        self._pieces.pop(bundle.domain, None)
        return APPLIED

    def _take(self, bundle: Bundle) -> None:
        domain = bundle.domain
        self.disk.bundles[domain] = self.force[domain] = bundle
        self.disk.known[domain] = bundle.revision, bundle.digest
        self.disk.notices[domain] |= set(range(1, bundle.through + 1))
        self._wait(domain, {})

    def _chunk(self, chunk: Chunk) -> str:
        waiting, pieces = self._pieces.get(chunk.of.domain, (None, set()))
        if waiting is None or waiting.digest != chunk.of.digest:
            return "previous"
        count = len(waiting.sealed.chunks)
        pieces.add(chunk.index % count)
        if len(pieces) < count:
            return SILENCE
        if refusal := self._refusal(waiting):
            del self._pieces[chunk.of.domain]
            return refusal
        return self._take_new(waiting)

    # notices, leases, roots

    def _notice(self, notice: Notice) -> str:
        if notice.root != self.disk.root:
            return "signature"
        self.disk.notices[notice.domain].add(notice.number)
        self.disk.denied[notice.domain] |= set(notice.deny)
        self._wait(notice.domain, dict(notice.until) | {EVERYBODY: notice.below})
        return APPLIED

    def _wait(self, domain: str, more: dict[str, int]) -> None:
        """The higher revision counts, and one that was reached is forgotten."""
        held, reached = self.disk.until[domain], self.disk.known.get(domain, (0, ""))[0]
        both = {who: max(held.get(who, 0), more.get(who, 0)) for who in {*held, *more}}
        self.disk.until[domain] = {who: at for who, at in both.items() if at > reached}

    def _lease(self, lease: Lease, nonce: str) -> str:
        if lease.root != self.disk.root:
            return "signature"
        if lease.needs_root > self.disk.root:
            return "root"
        time = self._clock.wall() + lease.skew
        if self.disk.root_ends <= max(self._clock.wall(), time):
            return "expired"
        asked = self.questions.pop(nonce, None)
        if asked is None:
            return "replay"
        if asked < self._granted_for:
            return SILENCE
        self._granted_for, self._ahead = asked, time - asked
        self.leases = {
            domain: Granted(asked + lease.seconds, *minimum)
            for domain, minimum in lease.minimum.items()
        }
        return SILENCE

    def _roots(self, roots: Roots) -> str:
        later = [version for version in roots.versions if version > self.disk.root]
        if not later:
            return SILENCE if self.disk.root in roots.versions else "rollback"
        for expected, version in enumerate(later, self.disk.root + 1):
            if version != expected:
                return "rollback" if version < expected else "previous"
        if START + roots.lasts <= max(self._clock.wall(), self.now()):
            return "expired"
        self.disk.root, self.disk.root_ends = later[-1], START + roots.lasts
        self.leases, self._pieces = {}, {}
        for domain in roots.reset:
            self.force.pop(domain, None)
            self.disk.known.pop(domain, None)
            self.disk.notices[domain] = set()
        return SILENCE

    # the disk, put back by hand

    def copy(self) -> Disk:
        """The disk as it is now."""
        return deepcopy(self.disk)

    def put_back(self, part: str, then: Disk) -> None:
        """A part of the disk as it was then."""
        names = {
            "bundles": ("bundles",),
            "state": ("known", "notices", "denied", "until"),
            "roots": ("root", "root_ends"),
        }
        for name in names[part]:
            setattr(self.disk, name, deepcopy(getattr(then, name)))

    def damaged(self) -> None:
        """The bundles' files are no bundles any more."""
        self.disk.bundles = {}


def _follows(bundle: Bundle, digest: str) -> bool:
    return bundle.follows is None or bundle.follows.digest == digest
