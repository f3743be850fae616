"""Asks the comparator beside this agent over its Unix socket; connects anew by itself."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from brokers.adapters.comparator_frames import (
    ANSWERED,
    COMPARE,
    DOES_NOT_OPEN,
    MAX_BATCH,
    REFUSED,
    WORDS,
    FrameError,
    peer_uid,
    receive_frame,
    send_frame,
)
from brokers.ports import ComparatorAway
from policyengine.errors import DecodeError, DecryptionError
from policyengine.ope import Question, answers_from_bytes, questions_to_bytes

_OVERHEAD = 64


class SocketComparator:
    """A comparator that is a process of its own (`brokers.ports.ComparatorPort`).

    Safe for use by several threads, one question at a time. A lost connection is made anew at
    once, and again at the next question.

    Args:
        path: its socket.
        seconds: how long it may take to answer.
        uid: the user it must run as; None: the user of this process.
    """

    def __init__(self, path: Path, *, seconds: float = 5.0, uid: int | None = None) -> None:
        self._path = path
        self._seconds = seconds
        self._uid = os.geteuid() if uid is None else uid
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def compare(self, questions: Sequence[Question]) -> list[int]:
        """Place each needle among its pivots (`policyengine.ope.Comparator`).

        Raises:
            ComparatorAway: it cannot be asked, or lacks a key; asking again later may help.
            DecryptionError: a ciphertext does not open.
        """
        with self._lock:
            return [
                answer for batch in _batches(questions) for answer in self._compare_batch(batch)
            ]

    def close(self) -> None:
        """Disconnect."""
        with self._lock:
            self._disconnect()

    def _compare_batch(self, batch: Sequence[Question]) -> list[int]:
        request = bytes((COMPARE,)) + questions_to_bytes(batch)
        fresh = self._connection is None
        try:
            response = self._ask(request)
        except (OSError, FrameError) as error:
            if fresh:
                raise ComparatorAway("the comparator does not answer") from error
            # it may have been started anew since; asking twice changes nothing
            response = self._ask_again(request)
        return self._understood(response, batch)

    def _ask_again(self, request: bytes) -> bytes:
        try:
            return self._ask(request)
        except (OSError, FrameError) as error:
            raise ComparatorAway("the comparator does not answer") from error

    def _ask(self, request: bytes) -> bytes:
        try:
            if self._connection is None:
                self._connection = self._connected()
            send_frame(self._connection, request, seconds=self._seconds)
            found = receive_frame(self._connection, first=self._seconds, rest=self._seconds)
        except (OSError, FrameError):
            # half an answer must never be taken for the next one
            self._disconnect()
            raise
        if found is None:
            self._disconnect()
            raise FrameError("the comparator closed the connection")
        return found

    def _connected(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._seconds)
            connection.connect(str(self._path))
            self._check_peer(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_peer(self, connection: socket.socket) -> None:
        if peer_uid(connection) != self._uid:
            raise FrameError("the socket is another user's")

    def _understood(self, response: bytes, batch: Sequence[Question]) -> list[int]:
        status, rest = response[:1], response[1:]
        if status == REFUSED and rest in {word.encode() for word in WORDS}:
            if rest == DOES_NOT_OPEN.encode():
                raise DecryptionError("the ciphertext does not open")
            raise ComparatorAway(f"the comparator refused: {rest.decode()}")
        try:
            # a response that is no answer has no version of answers either
            return answers_from_bytes(rest if status == ANSWERED else b"", batch)
        except DecodeError as error:
            self._disconnect()
            raise ComparatorAway("the comparator's answer fits no question") from error

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _batches(questions: Sequence[Question]) -> Iterator[Sequence[Question]]:
    """Cut questions into batches that fit a frame."""
    start, size = 0, 0
    for at, question in enumerate(questions):
        own = _OVERHEAD + len(question.column) + len(question.needle)
        own += sum(_OVERHEAD + len(pivot) for pivot in question.pivots)
        if at > start and size + own > MAX_BATCH:
            yield questions[start:at]
            start, size = at, 0
        size += own
    if questions:
        yield questions[start:]
