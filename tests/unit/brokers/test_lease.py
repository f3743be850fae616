"""Leases: counted from the asking, on the boot-time clock, with minimums."""

from __future__ import annotations

import pytest

from brokers.control.lease import READS, LeaseBook, Telling
from policyengine.bundles import Lease
from policyengine.errors import RejectedError


def _lease(nonce: str, *, seconds: int = 30, revision: int = 0, notice: int = 0) -> Lease:
    minimum = {"minimum_revision": revision, "minimum_notice": notice}
    return Lease("agent:alpha", nonce, 1_000_000.0, {"heating": seconds}, {"heating": minimum})


A, B, C = ("a" * 32, "b" * 32, "c" * 32)


def _standing(book: LeaseBook, boot: float, revision: int = 5, notice: int = 2) -> str:
    return book.standing("heating", boot=boot, revision=revision, notice=notice)


def test_nothing_is_served_before_the_first_answer() -> None:
    book = LeaseBook.empty()
    assert _standing(book, 0.0) == "no-lease"
    assert _standing(book.ask(A, 0.0), 1.0) == "no-lease"


def test_a_lease_counts_from_the_asking_however_late_the_answer() -> None:
    book = LeaseBook.empty().ask(A, 100.0).answer(_lease(A))
    assert _standing(book, 129.9) == "serving"
    assert _standing(book, 130.0) == "lease-over"
    assert book.remaining("heating", 120.0) == 10.0
    assert book.remaining("heating", 200.0) == 0.0


def test_an_answer_is_good_once_and_only_to_an_open_question() -> None:
    book = LeaseBook.empty().ask(A, 100.0)
    answered = book.answer(_lease(A))
    for wrong, lease in ((answered, _lease(A)), (book, _lease(B))):
        with pytest.raises(RejectedError) as refused:
            wrong.answer(lease)
        assert refused.value.reason == "replay"


def test_an_answer_to_an_earlier_question_never_replaces_a_later_one() -> None:
    asked = LeaseBook.empty().ask(A, 100.0).ask(B, 105.0)
    book = asked.answer(_lease(B, revision=9)).answer(_lease(A, revision=1))
    assert book.leases["heating"].minimum_revision == 9
    assert book.leases["heating"].until == 135.0


def test_old_questions_are_forgotten() -> None:
    book = LeaseBook.empty().ask(A, 0.0)
    for number in range(8):
        book = book.ask(f"{number:032x}", float(number))
    with pytest.raises(RejectedError):
        book.answer(_lease(A))


def test_minimums_and_domains_left_out() -> None:
    book = LeaseBook.empty().ask(A, 0.0).answer(_lease(A, revision=5, notice=2))
    assert _standing(book, 1.0) == "serving"
    assert _standing(book, 1.0, revision=4) == "behind-revision"
    assert _standing(book, 1.0, notice=1) == "behind-notice"
    assert book.standing("flights", boot=1.0, revision=9, notice=9) == "no-lease"
    empty = book.ask(C, 2.0).answer(Lease("agent:alpha", C, 1.0, {}, {}))
    assert _standing(empty, 3.0) == "no-lease"


def test_time_follows_the_signed_time_not_the_wall() -> None:
    book = LeaseBook.empty()
    assert book.now(boot=5.0, wall=77.0) == 77.0
    book = book.ask(A, 5.0).answer(_lease(A))
    assert book.now(boot=8.0, wall=0.0) == 1_000_003.0


def test_a_question_tells_what_is_read_until_silence_says_that_nobody_understands() -> None:
    telling = Telling()
    told = []
    for number in range(6):
        telling, reads = telling.ask(f"{number}")
        told.append(reads)
    assert told == [READS, READS, (), READS, (), READS]
    # one that told was answered: the control plane understands
    assert telling.answered("5") == Telling(nonce="4")
    # a plain one was answered where the others were not: plain ones for a while, then again
    telling, _ = telling.ask("6")
    telling = telling.answered("6")
    rounds = 0
    while True:
        telling, reads = telling.ask("plain")
        telling = telling.answered("plain")
        if reads:
            break
        rounds += 1
    assert rounds == 60
