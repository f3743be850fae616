"""The bytes between an agent and its comparator: bounded frames over a Unix socket.

frame    = length of the rest (4 bytes, big-endian), the rest
request  = one byte (1: compare), questions as `policyengine.ope` writes them
response = one byte (0: answers, as `policyengine.ope` writes them; 1: refused, one word)
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

COMPARE: Final = 1
ANSWERED: Final = b"\x00"
REFUSED: Final = b"\x01"
MAX_FRAME: Final = 4 * 2**20
"""Most bytes of a frame; nothing of a longer one is read."""
MAX_BATCH: Final = 2**20
"""Bytes of questions that a client puts into one frame."""

MALFORMED: Final = "malformed"
UNKNOWN_COLUMN: Final = "unknown-column"
DOES_NOT_OPEN: Final = "does-not-open"
WORDS: Final = (MALFORMED, UNKNOWN_COLUMN, DOES_NOT_OPEN)

_LENGTH: Final = 4
_CHUNK: Final = 65_536
_CREDENTIALS: Final = struct.Struct("3i")


class FrameError(Exception):
    """The other side sent something else than a frame, or stopped in the middle of one."""


def peer_uid(connection: socket.socket) -> int:
    """The user on the other side, as the kernel says."""
    size = _CREDENTIALS.size
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return int(_CREDENTIALS.unpack(found)[1])


def send_frame(connection: socket.socket, body: bytes, *, seconds: float) -> None:
    """Send a frame.

    Args:
        connection: the socket.
        body: 1 to `MAX_FRAME` bytes.
        seconds: the other side must have taken it by then.

    Raises:
        FrameError: too long.
        OSError: not sent, or not in time.
    """
    if not 1 <= len(body) <= MAX_FRAME:
        raise FrameError("a frame has 1 byte to 4 MiB")
    connection.settimeout(seconds)
    connection.sendall(len(body).to_bytes(_LENGTH, "big") + body)


def receive_frame(connection: socket.socket, *, first: float | None, rest: float) -> bytes | None:
    """Wait for a frame.

    Args:
        connection: the socket.
        first: seconds to wait for its first byte; None waits for ever.
        rest: seconds in which all of it must follow, however it drips.

    Returns:
        The frame without its length; None where the other side has closed before one.

    Raises:
        FrameError: its length is impossible, or the other side stopped in the middle.
        OSError: not in time, or the connection is lost.
    """
    connection.settimeout(first)
    begun = connection.recv(_LENGTH)
    if not begun:
        return None
    deadline = time.monotonic() + rest
    head = _exactly(connection, begun, _LENGTH, deadline)
    size = int.from_bytes(head, "big")
    if not 1 <= size <= MAX_FRAME:
        raise FrameError("a frame has 1 byte to 4 MiB")
    return _exactly(connection, b"", size, deadline)


def _exactly(connection: socket.socket, begun: bytes, size: int, deadline: float) -> bytes:
    found = bytearray(begun)
    while len(found) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise FrameError("the frame did not come in time")
        connection.settimeout(left)
        chunk = connection.recv(min(_CHUNK, size - len(found)))
        if not chunk:
            raise FrameError("the frame ends too early")
        found += chunk
    return bytes(found)
