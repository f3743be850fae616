"""The authority's socket: four bytes of length, then one canonical JSON object, both ways."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import socketserver
import struct
from pathlib import Path

from policyengine.errors import DecodeError
from policyengine.primitives import canonical
from tasks.authority.files import StateError
from tasks.authority.operations import Operations

MAX_REQUEST = 16 * 2**20
IDLE_SECONDS = 600

log = logging.getLogger("portcullis.authority")


class AuthorityServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Serves `operations` on a socket that only this user (and root) may open."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: Path, operations: Operations) -> None:
        self.operations = operations
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_stale(path)
        previous = os.umask(0o177)
        try:
            super().__init__(str(path), _Connection)
        finally:
            os.umask(previous)

    def verify_request(self, request: object, client_address: object) -> bool:
        """Refuse callers of other users, even where the file's mode was loosened."""
        assert isinstance(request, socket.socket)
        size = struct.calcsize("3i")
        peer = request.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        _, uid, _ = struct.unpack("3i", peer)
        return uid in {0, os.geteuid()}

    def service_actions(self) -> None:
        """Between requests: what is due by the clock."""
        try:
            self.operations.tick()
        except StateError:
            log.exception("counts could not be written; they are tried again")

    def server_close(self) -> None:
        """Close and take the socket's file away."""
        super().server_close()
        self.path.unlink(missing_ok=True)

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that breaks off is no event; anything else is logged without its bytes."""
        log.warning("a connection ended with an error", exc_info=True)


class _Connection(socketserver.BaseRequestHandler):
    server: AuthorityServer
    request: socket.socket

    def handle(self) -> None:
        self.request.settimeout(IDLE_SECONDS)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while (frame := read_frame(self.request)) is not None:
                self.request.sendall(encode_frame(self._answer(frame)))

    def _answer(self, frame: bytes) -> bytes:
        try:
            request = canonical.loads(frame, max_bytes=MAX_REQUEST)
        except DecodeError:
            return canonical.dumps({"ok": False, "error": "not canonical JSON"})
        return canonical.dumps(self.server.operations.answer(request))


def encode_frame(body: bytes) -> bytes:
    """A body with its length before it."""
    return struct.pack("!I", len(body)) + body


def read_frame(connection: socket.socket) -> bytes | None:
    """The next body, or None at the end of the stream; raises ConnectionError when cut short."""
    head = _read_exactly(connection, 4, at_start=True)
    if head is None:
        return None
    (length,) = struct.unpack("!I", head)
    if length > MAX_REQUEST:
        raise ConnectionError("the request is too large")
    return _read_exactly(connection, length, at_start=False)


def _read_exactly(connection: socket.socket, size: int, *, at_start: bool) -> bytes | None:
    chunks: list[bytes] = []
    missing = size
    while missing:
        chunk = connection.recv(min(missing, 65536))
        if not chunk:
            if at_start and missing == size:
                return None
            raise ConnectionError("the connection ended inside a message")
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)


def _remove_stale(path: Path) -> None:
    """Take away a dead process's socket; refuse to push a living one aside."""
    if not path.exists():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink()
            return
    raise FileExistsError(f"an authority already answers on {path}")
