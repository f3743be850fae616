"""Answers questions on a Unix socket, of users that may ask, in bounded frames."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import threading
from collections.abc import Collection
from pathlib import Path

from brokers.adapters.comparator_frames import (
    ANSWERED,
    COMPARE,
    DOES_NOT_OPEN,
    MALFORMED,
    REFUSED,
    UNKNOWN_COLUMN,
    FrameError,
    peer_uid,
    receive_frame,
    send_frame,
)
from brokers.adapters.files import StateError
from brokers.adapters.logs import log
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.ope import Comparator, answers_to_bytes, questions_from_bytes

_LOGGER = logging.getLogger("portcullis.comparator")
_FRAME_SECONDS = 5.0
_ACCEPT_SECONDS = 0.5
_BACKLOG = 64


class ComparatorServer:
    """Listens until it is closed; a thread for each connection.

    Args:
        path: where the socket stands; made with mode 0600. One that nobody listens on any
            more is replaced.
        comparator: who answers.
        uids: users that may ask.
        connections: most at once; one more is closed at once.

    Raises:
        StateError: something that is no socket stands there, or somebody listens on it.
        OSError: the socket cannot be made.
    """

    def __init__(
        self,
        path: Path,
        comparator: Comparator,
        *,
        uids: Collection[int],
        connections: int = 64,
    ) -> None:
        self._path = path
        self._comparator = comparator
        self._uids = frozenset(uids)
        self._free = threading.BoundedSemaphore(connections)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._socket = _listening(path)
        self._thread = threading.Thread(target=self._serve, name="comparator", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and end every connection."""
        self._stopping.set()
        self._thread.join(5)
        self._socket.close()
        self._path.unlink(missing_ok=True)
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):  # its thread may just have closed it
                    connection.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        self._socket.settimeout(_ACCEPT_SECONDS)
        while not self._stopping.is_set():
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                continue
            except OSError as error:
                # out of descriptors for a moment: those that are there go on
                log(_LOGGER, logging.WARNING, "not accepted", reason=error.strerror or "")
                self._stopping.wait(_ACCEPT_SECONDS)
                continue
            self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        uid = peer_uid(connection)
        if uid not in self._uids:
            log(_LOGGER, logging.WARNING, "refused", reason="another user", uid=uid)
            connection.close()
            return
        if not self._free.acquire(blocking=False):
            log(_LOGGER, logging.WARNING, "refused", reason="too many connections")
            connection.close()
            return
        with self._lock:
            self._open.add(connection)
        threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            with connection:
                while not self._stopping.is_set() and self._answer_one(connection):
                    pass
        except (OSError, FrameError) as error:
            log(_LOGGER, logging.INFO, "connection ended", reason=type(error).__name__)
        finally:
            with self._lock:
                self._open.discard(connection)
            self._free.release()

    def _answer_one(self, connection: socket.socket) -> bool:
        request = receive_frame(connection, first=None, rest=_FRAME_SECONDS)
        if request is None:
            return False
        word = ""
        response = b""
        try:
            response = ANSWERED + self._answers(request)
        except DecryptionError:
            word = DOES_NOT_OPEN
        except InputError as error:
            word = UNKNOWN_COLUMN if error.kind == "unknown" else MALFORMED
        except DecodeError:
            word = MALFORMED
        send_frame(connection, response or REFUSED + word.encode(), seconds=_FRAME_SECONDS)
        # who writes one frame wrongly is not listened to any further
        return word != MALFORMED

    def _answers(self, request: bytes) -> bytes:
        if request[0] != COMPARE:
            raise DecodeError("not a request")
        return answers_to_bytes(self._comparator.compare(questions_from_bytes(request[1:])))


def _listening(path: Path) -> socket.socket:
    _clear(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # before anybody can connect: a later chmod would leave a moment
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    except BaseException:
        listening.close()
        raise
    finally:
        os.umask(before)
    listening.listen(_BACKLOG)
    return listening


def _clear(path: Path) -> None:
    """Remove a socket that a killed process left behind."""
    if not path.exists() and not path.is_symlink():
        return
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise StateError(f"{path} is there and is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except OSError as error:
            raise StateError(f"{path} cannot be used: {error.strerror}") from None
    raise StateError(f"{path} is in use by another process")
