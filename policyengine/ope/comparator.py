"""The comparator: the one party beside clients that can decrypt (paper 003, SBM-II).

It stands where the paper has an SGX enclave, answers in which gap between a few ciphertexts
another one lies, and tells nothing else. A process of its own is isolation by the operating
system and not an enclave: whoever owns the machine can read its memory. The same interface
serves the variant with round trips, where the owner of the key answers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from policyengine.errors import DecodeError
from policyengine.ope.clients import open_point, sbm2_key
from policyengine.primitives.canonical import pack, unpack_all

MAX_PIVOTS: Final = 127
MAX_QUESTIONS: Final = 2**20
_VERSION: Final = b"\x01"
_REMEMBERED: Final = 16_384
_COLUMNS: Final = 4096


@dataclass(frozen=True, slots=True)
class Question:
    """Where does a value lie between others?

    Args:
        column: the column of all these ciphertexts.
        needle: ciphertext of the value.
        pivots: ciphertexts in ascending order of their values, at most `MAX_PIVOTS`.
    """

    column: str
    needle: bytes
    pivots: tuple[bytes, ...]


class Comparator(Protocol):
    """Answers questions; one call is one round trip, wherever the comparator lives."""

    def compare(self, questions: Sequence[Question]) -> Sequence[int]:
        """Place each needle among its pivots.

        Returns:
            For each question 2i where i pivots are below the needle and the next is above,
            2i + 1 where the next one is equal.

        Raises:
            DecryptionError: a ciphertext does not open.
        """


class KeyedComparator:
    """The comparator itself, in this process; safe for use by several threads.

    Values that it opened are remembered, at most `remember` of them, since pivots come back
    in most questions.

    Args:
        key: the key of `sbm2_client`.
        remember: how many values.

    Raises:
        InputError: `invalid` for a short key.
    """

    def __init__(self, key: bytes, *, remember: int = _REMEMBERED) -> None:
        sbm2_key(key, "")  # refuses a short key now and not at the first question
        self._column_key = lru_cache(maxsize=_COLUMNS)(lambda column: sbm2_key(key, column))
        self._open = lru_cache(maxsize=remember)(self._opened)

    def compare(self, questions: Sequence[Question]) -> list[int]:
        """Place each needle among its pivots (`Comparator.compare`)."""
        return [self._place(question) for question in questions]

    def _place(self, question: Question) -> int:
        column, pivots = question.column, question.pivots
        value = self._open(column, question.needle)
        below = bisect_left(pivots, value, key=lambda pivot: self._open(column, pivot))
        equal = below < len(pivots) and self._open(column, pivots[below]) == value
        return 2 * below + equal

    def _opened(self, column: str, ciphertext: bytes) -> bytes:
        return open_point(self._column_key(column), ciphertext)


def questions_to_bytes(questions: Sequence[Question]) -> bytes:
    """Write questions for a comparator that lives elsewhere: version 1, then packed fields."""
    return _VERSION + pack(
        *(pack(one.column.encode(), one.needle, *one.pivots) for one in questions)
    )


def questions_from_bytes(data: bytes) -> tuple[Question, ...]:
    """Read what `questions_to_bytes` wrote.

    Raises:
        DecodeError: anything else.
    """
    if data[:1] != _VERSION:
        raise DecodeError("not questions of this version")
    return tuple(_question(part) for part in unpack_all(data[1:], limit=MAX_QUESTIONS))


def answers_to_bytes(answers: Sequence[int]) -> bytes:
    """Write answers: version 1, then one byte each."""
    return _VERSION + bytes(answers)


def answers_from_bytes(data: bytes, questions: Sequence[Question]) -> list[int]:
    """Read answers to questions.

    Raises:
        DecodeError: another number of them, or one that its question does not have.
    """
    if data[:1] != _VERSION or len(data) != 1 + len(questions):
        raise DecodeError("not answers to these questions")
    answers = list(data[1:])
    check_answers(answers, questions)
    return answers


def check_answers(answers: Sequence[int], questions: Sequence[Question]) -> None:
    """Check what a comparator said, which the broker need not believe.

    Raises:
        DecodeError: another number of answers, or one that its question does not have.
    """
    if len(answers) != len(questions) or not all(
        0 <= answer <= 2 * len(question.pivots)
        for answer, question in zip(answers, questions, strict=True)
    ):
        raise DecodeError("not answers to these questions")


def _question(data: bytes) -> Question:
    fields = unpack_all(data, limit=2 + MAX_PIVOTS)
    if len(fields) < 2:
        raise DecodeError("a question has a column and a needle")
    try:
        column = fields[0].decode()
    except UnicodeDecodeError as error:
        raise DecodeError("a column has a name") from error
    return Question(column, fields[1], fields[2:])
