"""The table of cases: what a hostile control plane sends, and what it must hear.

What must be in force afterwards, on disk and in memory, and who may get an event, the model says
after every step; the table need not repeat it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.conformance.agent import forgeries
from tests.conformance.agent.model import APPLIED, RECEIVED, SILENCE
from tests.conformance.agent.play import (
    ALL,
    FIRST,
    Ask,
    Copy,
    Damage,
    PutBack,
    Restart,
    Send,
    Step,
    Wait,
)
from tests.conformance.agent.world import (
    ANNA,
    BEN,
    EVE,
    FLIGHTS,
    GONE,
    HEATING,
    Bundle,
    Chunk,
    Lease,
    Notice,
    Raw,
    Roots,
)
from tests.support.data_plane import DAY

YEAR = 365 * DAY


@dataclass(frozen=True)
class Case:
    """One case.

    Args:
        attack: the kind of attack.
        name: what is done.
        steps: one after the other; the model is held against the agent after each.
    """

    attack: str
    name: str
    steps: tuple[Step, ...]


EVIL = Bundle(6, (EVE,))
SIX, SEVEN = Bundle(6, (BEN,)), Bundle(7, (ANNA, BEN))
D6 = replace(SIX, follows=FIRST, delta=True)
D7 = replace(SEVEN, follows=D6, delta=True)
KEPT_EVIL = forgeries.kept(D6, EVIL)
BIG, BIGGER = replace(SIX, chunked=True), replace(SEVEN, chunked=True)
WARM_BIG = Bundle(4, (ANNA,), HEATING, chunked=True)
TWO = Bundle(6, (BEN,), root=2)
RENEWED: tuple[Step, ...] = (Ask(), Send(Lease(), SILENCE))
UNDER_TWO: tuple[Step, ...] = (Ask(), Send(Lease(root=2), SILENCE))


def _demands(revision: int = 0, notice: int = 0) -> Lease:
    return Lease(minimum={FLIGHTS: (revision, notice), HEATING: (0, 0)})


def _waits(*until: tuple[str, int], number: int = 2) -> Notice:
    return Notice(number, (), until)


def _pieces(of: Bundle, order: tuple[int, ...], last: str = APPLIED) -> tuple[Step, ...]:
    answers = [SILENCE] * (len(order) - 1) + [last]
    return tuple(Send(Chunk(of, n), word) for n, word in zip(order, answers, strict=True))


FORGED: tuple[Case, ...] = (
    *(Case(one.attack, f"a bundle: {name}", (Send(replace(EVIL, forged=name), one.reason),))
      for name, one in forgeries.BUNDLES.items()),
    *(Case(one.attack, f"a notice: {name}", (Send(Notice(2, (ANNA,), forged=name), one.reason),))
      for name, one in forgeries.NOTICES.items()),
    *(Case(one.attack, f"a lease: {name}",
           (Ask(), Send(Lease(seconds=600, forged=name), one.reason)))
      for name, one in forgeries.LEASES.items()),
    *(Case(one.attack, f"a piece: {name}",
           (Send(WARM_BIG, RECEIVED), Send(Chunk(WARM_BIG, 0, name), one.reason)))
      for name, one in forgeries.CHUNKS.items()),
    *(Case(one.attack, f"a root: {name}", (Send(Roots((2,), forged=name), one.reason),))
      for name, one in forgeries.ROOTS.items()),
    *(Case(one.attack, f"a message: {name}", (Send(Raw(name), one.reason),))
      for name, one in forgeries.RAW.items()),
)  # fmt: skip
"""One forged message each: nothing may come of it, in memory or on disk."""

_SEQUENCES: dict[str, dict[str, tuple[Step, ...]]] = {
    "rollback": {
        "the bundle before": (Send(ALL, "rollback"),),
        "the bundle before, after a restart": (Restart(), Send(ALL, "rollback")),
        "those before, after two more": (
            Send(SIX, APPLIED), Send(SEVEN, APPLIED), Send(SIX, "rollback"),
            Send(FIRST, "rollback")),
        "the same again is said again": (Send(FIRST, APPLIED),),
        "another of the revision in force": (Send(Bundle(5, (BEN,)), "replay"),),
        "another of that revision, after a restart": (
            Restart(), Send(Bundle(5, (BEN,)), "replay")),
        "an older one in pieces": (Send(Bundle(4, (BEN,), chunked=True), "rollback"),),
        "a delta that leads back": (
            Send(Bundle(4, (BEN,), follows=FIRST, delta=True), "rollback"),),
        "an older one of the other domain": (Send(Bundle(2, (BEN,), HEATING), "rollback"),),
    },
    "freeze": {
        "no answers any more": (Ask(), Wait(15), Ask(), Wait(14.9), Wait(0.1)),
        "an answer kept back counts from the asking": (
            Ask(), Wait(20), Send(Lease(), SILENCE), Wait(9.9), Wait(0.1)),
        "an answer kept back for too long": (Ask(), Wait(31), Send(Lease(), SILENCE)),
        "the revision that leases ask for is kept back": (
            Ask(), Send(_demands(6), SILENCE), Send(SIX, APPLIED)),
        "the notice that leases ask for is kept back": (
            Ask(), Send(_demands(0, 2), SILENCE), Send(Notice(2), APPLIED)),
        "a bundle that knows the notice does as well": (
            Ask(), Send(_demands(0, 2), SILENCE), Send(Bundle(6, (ANNA,), through=2), APPLIED)),
        "one notice of two is kept back": (
            Ask(), Send(_demands(0, 3), SILENCE), Send(Notice(3), APPLIED),
            Send(Notice(2), APPLIED)),
        "what was taken in time stays while leases come": (
            Send(Bundle(6, (BEN,), expires=10), APPLIED), Wait(11), *RENEWED),
        "a bundle kept back until it has expired": (
            Wait(20), *RENEWED, Send(Bundle(6, (BEN,), expires=10), "expired")),
        "pieces kept back until the bundle has expired": (
            Send(Bundle(6, (BEN,), chunked=True, expires=10), RECEIVED), Wait(11), *RENEWED,
            *_pieces(Bundle(6, (BEN,), chunked=True, expires=10), (0, 1, 2, 3), "expired")),
    },
    "fast-forward": {
        "a stolen policy key runs ahead, and a root leads back": (
            Send(Bundle(2**62, (ANNA,)), APPLIED), Send(SIX, "rollback"),
            Send(Roots((2,), reset=(FLIGHTS,)), SILENCE), Send(TWO, APPLIED), *UNDER_TWO),
        "to the last revision there is": (
            Send(Bundle(2**63 - 1, (ANNA,)), APPLIED), Send(SEVEN, "rollback"),
            Send(Roots((2,), reset=(FLIGHTS,)), SILENCE), Send(TWO, APPLIED), *UNDER_TWO),
        "a stolen lease key asks for what nobody has": (
            Ask(), Send(_demands(2**62), SILENCE), *RENEWED),
        "a lease asks for a notice that nobody wrote": (
            Ask(), Send(_demands(0, 2**62), SILENCE), *RENEWED),
        "a gap is none": (Send(Bundle(9, (BEN,)), APPLIED), Send(Bundle(8), "rollback")),
        "a notice far ahead denies and does not count": (
            Send(Notice(2**40, (ANNA,)), APPLIED), Ask(), Send(_demands(0, 2), SILENCE)),
    },
    "deltas": {
        "one after another": (Send(D6, APPLIED), Send(D7, APPLIED)),
        "the second without the first": (Send(D7, "previous"), Send(D6, APPLIED)),
        "the first again": (Send(D6, APPLIED), Send(D6, APPLIED)),
        "the first again, after the second": (
            Send(D6, APPLIED), Send(D7, APPLIED), Send(D6, "rollback")),
        "onto another bundle of the same revision": (
            Send(replace(SIX, follows=Bundle(5, (BEN,)), delta=True), "previous"),),
        "onto the bundle before": (Send(replace(SIX, follows=ALL, delta=True), "previous"),),
        "a whole that names another before": (Send(replace(SIX, follows=ALL), "previous"),),
        "a whole that names the one in force": (Send(replace(SIX, follows=FIRST), APPLIED),),
        "across a restart": (Send(D6, APPLIED), Restart(), Send(D7, APPLIED)),
        "onto a file that is lost": (Damage(), Send(D6, "previous"), Send(SIX, APPLIED)),
        "onto a file that was lost and came again": (
            Damage(), Send(FIRST, APPLIED), Send(D6, APPLIED)),
    },
    "chunks": {
        "in order": (Send(BIG, RECEIVED), *_pieces(BIG, (0, 1, 2, 3))),
        "out of order": (Send(BIG, RECEIVED), *_pieces(BIG, (3, 1, 0, 2))),
        "some twice": (Send(BIG, RECEIVED), *_pieces(BIG, (0, 0, 3, 3, 1, 2))),
        "before their manifest": (Send(Chunk(BIG, 0), "previous"),),
        "after a restart": (
            Send(BIG, RECEIVED), *_pieces(BIG, (0, 1, 2), SILENCE), Restart(),
            Send(Chunk(BIG, 3), "previous")),
        "of two bundles": (
            Send(BIG, RECEIVED), Send(Chunk(BIG, 0), SILENCE), Send(BIGGER, RECEIVED),
            Send(Chunk(BIG, 1), "previous"), *_pieces(BIGGER, (0, 1, 2, 3))),
        "an older manifest while a newer one is waited for": (
            Send(BIGGER, RECEIVED), Send(BIG, "rollback")),
        "overtaken by a whole": (
            Send(BIG, RECEIVED), Send(SEVEN, APPLIED), Send(Chunk(BIG, 0), "previous")),
        "half of them when the root changes": (
            Send(BIG, RECEIVED), Send(Chunk(BIG, 0), SILENCE), Send(Roots((2,)), SILENCE),
            Send(Chunk(BIG, 1), "previous")),
    },
    "lease replay": {
        "the same answer twice": (*RENEWED, Send(Lease(), "replay")),
        "the same answer when it is over": (*RENEWED, Wait(31), Send(Lease(), "replay")),
        "an older answer after a newer one": (
            Ask(), Wait(1), Ask(), Send(Lease(), SILENCE), Send(Lease(-2, seconds=600), SILENCE),
            Wait(31)),
        "an answer to a question before a restart": (Ask(), Restart(), Send(Lease(), "replay")),
        "an answer to a question long ago": (
            Ask(9), Send(Lease(-9), "replay"), Send(Lease(-8), SILENCE)),
        "one that leaves out a domain": (
            Ask(), Send(Lease(minimum={HEATING: (0, 0)}), SILENCE)),
        "one that leaves out every domain": (Ask(), Send(Lease(minimum={}), SILENCE)),
        "a shorter one takes the place of a longer one": (
            Ask(), Send(Lease(seconds=600), SILENCE), Wait(1), Ask(),
            Send(Lease(seconds=1), SILENCE), Wait(1)),
        "a longer one holds as long as it says": (
            Ask(), Send(Lease(seconds=600), SILENCE), Wait(599), Wait(1)),
        "its time goes back": (
            Ask(), Send(Lease(skew=-3000), SILENCE), Wait(1), *RENEWED),
        "by a key that the root retired": (
            Send(Roots((2,)), SILENCE), Ask(), Send(Lease(), "signature"),
            Send(Lease(root=2), SILENCE)),
        "for a root that is kept back": (Ask(), Send(Lease(needs_root=2), "root"), Wait(31)),
    },
    "clock": {
        "the wall clock a year back": (Wait(0, -YEAR), *RENEWED),
        "the wall clock a month ahead": (Wait(0, 20 * DAY), *RENEWED),
        "the wall clock back when the lease ends": (Wait(30, -100),),
        "asleep": (Wait(60),),
        "asleep, and the wall clock stood": (Wait(60, 0),),
        "a turned wall clock cannot stretch a late answer": (
            Ask(), Wait(29, -29), Send(Lease(), SILENCE), Wait(1)),
        "the wall clock beyond the root": (
            Wait(0, 2 * YEAR), Ask(), Send(Lease(), "expired"), Wait(0, -2 * YEAR)),
        "the signed time beyond the root": (Ask(), Send(Lease(skew=2 * YEAR), "expired")),
        "a bundle that has expired by the wall clock, before a lease": (
            Restart(), Wait(0, 40 * DAY), Send(SIX, "expired"), Wait(0, -40 * DAY)),
        "a wall clock in the past does not revive a bundle": (
            Wait(20), *RENEWED, Wait(0, -YEAR), Send(Bundle(6, (BEN,), expires=10), "expired")),
    },
    "notices": {
        "twice": (Send(Notice(2), APPLIED), Send(Notice(2), APPLIED)),
        "again after a restart": (Send(Notice(2), APPLIED), Restart(), Send(Notice(2), APPLIED)),
        "out of order": (Send(Notice(3, (ANNA,)), APPLIED), Send(Notice(2), APPLIED)),
        "with a gap": (Send(Notice(4, (ANNA,)), APPLIED), Send(Notice(2), APPLIED)),
        "with a gap, across a restart": (
            Send(Notice(3, (ANNA,)), APPLIED), Restart(), Send(Notice(2), APPLIED)),
        "a number again with others": (
            Send(Notice(2, (ANNA,)), APPLIED), Send(Notice(2, (BEN,)), APPLIED)),
        "one that denies nobody frees nobody": (Send(Notice(1, ()), APPLIED),),
        "by a key that the root retired": (
            Send(Roots((2,)), SILENCE), Send(Notice(2, (ANNA,)), "signature")),
        "by a key of a root that is not here yet": (Send(Notice(2, (ANNA,), root=2), "signature"),),
    },
    "floors": {
        "a reader waits for a revision": (
            Send(_waits((ANNA, 6)), APPLIED), Send(Bundle(6, (ANNA,)), APPLIED)),
        "a reader waits, across a restart": (
            Send(_waits((ANNA, 7)), APPLIED), Restart(), *RENEWED,
            Send(Bundle(6, (ANNA, BEN)), APPLIED), Send(SEVEN, APPLIED)),
        "everybody waits for a revision": (
            Send(Notice(2, (), below=6), APPLIED), Send(Bundle(6, (ANNA,)), APPLIED)),
        "everybody waits, across a restart": (
            Send(Notice(2, (), below=6), APPLIED), Restart(), *RENEWED,
            Send(Bundle(6, (ANNA,)), APPLIED)),
        "for a revision that is there already": (
            Send(Notice(2, (), ((ANNA, 5),), below=5), APPLIED),),
        "a lower one frees nobody": (
            Send(_waits((ANNA, 7)), APPLIED), Send(_waits((ANNA, 6), number=3), APPLIED),
            Send(Bundle(6, (ANNA,)), APPLIED), Send(SEVEN, APPLIED)),
        "a bundle that claims to know the notice frees nobody": (
            Send(_waits((ANNA, 7)), APPLIED), Send(Bundle(6, (ANNA,), through=2), APPLIED)),
        "a root has the domain forgotten": (
            Send(_waits((ANNA, 6)), APPLIED), Send(Roots((2,), reset=(FLIGHTS,)), SILENCE),
            Send(Bundle(1, (ANNA, BEN), root=2), APPLIED), *UNDER_TWO),
        "of the other domain": (
            Send(Notice(1, (), ((ANNA, 9),), 9, HEATING), APPLIED), *RENEWED),
    },
    "ban": {
        "a reader in every later bundle": (
            Send(Notice(2, (ANNA,)), APPLIED), Send(Bundle(6, (ANNA,)), APPLIED),
            Send(Bundle(7, (ANNA, BEN), follows=Bundle(6, (ANNA,)), delta=True), APPLIED)),
        "a reader, before a restart": (
            Send(Notice(2, (ANNA,)), APPLIED), Restart(), *RENEWED,
            Send(Bundle(6, (ANNA,)), APPLIED)),
        "a reader, in a bundle that claims to know the notice": (
            Send(Notice(2, (ANNA,)), APPLIED), Send(Bundle(6, (ANNA,), through=2), APPLIED)),
        "a reader, and a root has the domain forgotten": (
            Send(Notice(2, (ANNA,)), APPLIED), Send(Roots((2,), reset=(FLIGHTS,)), SILENCE),
            Send(Bundle(1, (ANNA, BEN), root=2), APPLIED), *UNDER_TWO),
        "the agent: leases name no domain, bundles still come": (
            Ask(), Send(Lease(minimum={}), SILENCE), Send(SIX, APPLIED), Send(SEVEN, APPLIED)),
        "the agent: nothing but bundles": (Wait(31), Send(SIX, APPLIED), Restart()),
    },
    "roots": {
        "the next one": (
            Send(Roots((2,)), SILENCE), Send(SIX, "signature"), Send(TWO, APPLIED), *UNDER_TWO),
        "two at once": (Send(Roots((2, 3)), SILENCE), Send(TWO, "signature")),
        "known ones again": (Send(Roots((2, 3)), SILENCE), Send(Roots((2, 3)), SILENCE)),
        "one is skipped": (Send(Roots((3,)), "previous"),),
        "one in the middle is skipped": (Send(Roots((2, 4)), "previous"),),
        "in the wrong order": (Send(Roots((3, 2)), "previous"),),
        "one twice": (Send(Roots((2, 2)), "rollback"),),
        "back to the one before": (Send(Roots((2, 3)), SILENCE), Send(Roots((2,)), "rollback")),
        "back, after a restart": (
            Send(Roots((2, 3)), SILENCE), Restart(), Send(Roots((1,)), "rollback")),
        "expired when it comes": (Send(Roots((2,), lasts=-10), "expired"),),
        "expired after it came": (
            Send(Roots((2,), lasts=100), SILENCE), Wait(101), Ask(),
            Send(Lease(root=2), "expired"), Send(Roots((3,)), SILENCE)),
        "a bundle before its root": (
            Send(TWO, "signature"), Send(Roots((2,)), SILENCE), Send(TWO, APPLIED)),
        "after a restart old keys vouch for nothing": (
            Send(Roots((2,)), SILENCE), Restart(), *UNDER_TWO, Send(FIRST, "signature"),
            Send(Bundle(5, (BEN,), root=2), APPLIED)),
        "a root does not lead a domain back by itself": (
            Send(Roots((2,)), SILENCE), Send(Bundle(4, (BEN,), root=2), "rollback")),
        "a reset is for the domains that it names": (
            Send(Roots((2,), reset=(HEATING,)), SILENCE),
            Send(Bundle(4, (BEN,), root=2), "rollback"),
            Send(Bundle(1, (BEN,), HEATING, root=2), APPLIED), *UNDER_TWO),
        "a reset twice is one": (
            Send(Roots((2,), reset=(FLIGHTS,)), SILENCE), Send(TWO, APPLIED),
            Send(Roots((2,), reset=(FLIGHTS,)), SILENCE), Send(Bundle(5, root=2), "rollback")),
    },
    "restart": {
        "a reset is over once it was done": (
            Send(Roots((2,), reset=(FLIGHTS,)), SILENCE), Send(TWO, APPLIED),
            Send(Notice(1, (GONE,), root=2), APPLIED), Restart(), Ask(),
            Send(replace(_demands(0, 1), root=2), SILENCE)),
        "nothing is served before a lease": (Restart(),),
        "the bundle one step ahead of the state": (
            Copy(), Send(SIX, APPLIED), PutBack("state"), *RENEWED),
        "the state one step ahead of the bundle": (
            Copy(), Send(SIX, APPLIED), PutBack("bundles"), *RENEWED,
            Send(FIRST, "rollback"), Send(SIX, APPLIED)),
        "the state two steps ahead of the bundle": (
            Copy(), Send(SIX, APPLIED), Send(SEVEN, APPLIED), PutBack("bundles"),
            Send(SIX, "rollback"), Send(SEVEN, APPLIED)),
        "a delta ahead of the state": (
            Copy(), Send(D6, APPLIED), PutBack("state"), *RENEWED, Send(D7, APPLIED)),
        "the state ahead of a delta": (
            Copy(), Send(D6, APPLIED), PutBack("bundles"), *RENEWED, Send(D7, "previous"),
            Send(D6, APPLIED)),
        "a notice that was not kept is asked for": (
            Copy(), Send(Notice(2, (ANNA,)), APPLIED), PutBack("state"), Ask(),
            Send(_demands(0, 2), SILENCE), Send(Notice(2, (ANNA,)), APPLIED)),
        "the root ahead of the state": (
            Copy(), Send(Roots((2,)), SILENCE), Send(TWO, APPLIED), PutBack("state"), *UNDER_TWO),
        "damaged files": (Damage(), *RENEWED, Send(ALL, "rollback"), Send(FIRST, APPLIED)),
        "empty files": (Damage(b""), *RENEWED, Send(SIX, APPLIED)),
        "damaged files, and another of their revision": (
            Damage(), *RENEWED, Send(Bundle(5, (BEN,)), APPLIED)),
        "another content on disk under a signed header": (
            Send(D6, APPLIED), Damage(KEPT_EVIL), *RENEWED, Send(D6, "previous"),
            Send(SEVEN, APPLIED)),
        "between every two steps": (
            Restart(), Send(D6, APPLIED), Restart(), Send(Notice(3, (ANNA,)), APPLIED), Restart(),
            Send(Notice(2, ()), APPLIED), Restart(), *RENEWED, Restart(), Send(D7, APPLIED),
            Restart(), Send(Roots((2,)), SILENCE), Restart(), Send(D7, "signature"), Restart(),
            Send(Bundle(8, (BEN,), root=2), APPLIED), Restart(), *UNDER_TWO),
    },
    "two domains": {
        "a newer one of the other changes nothing here": (
            Send(Bundle(9, (ANNA,), HEATING), APPLIED), Send(SIX, APPLIED)),
        "a notice of the other denies nobody here": (
            Send(Notice(1, (ANNA,), domain=HEATING), APPLIED),),
        "numbers of notices are counted apart": (
            Send(Notice(2, (), domain=HEATING), APPLIED), Ask(), Send(_demands(0, 2), SILENCE)),
        "what the other lacks stops the other alone": (
            Ask(), Send(Lease(minimum={FLIGHTS: (0, 0), HEATING: (4, 0)}), SILENCE)),
        "the other's bundle as the one before": (
            Send(replace(SIX, follows=Bundle(3, (ANNA, BEN), HEATING)), "previous"),),
        "the other's base for a delta": (
            Send(replace(SIX, follows=Bundle(3, (ANNA, BEN), HEATING)), "previous"),
            Send(D6, APPLIED)),
    },
}  # fmt: skip

SEQUENCES: tuple[Case, ...] = tuple(
    Case(attack, name, steps)
    for attack, cases in _SEQUENCES.items()
    for name, steps in cases.items()
)
"""Cases of several steps, each on an agent of its own."""
CASES = FORGED + SEQUENCES
