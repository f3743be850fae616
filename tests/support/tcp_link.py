"""One connection through the tests' bad network: its two streams and their way."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

Direction = Literal["there", "back"]
BOTH: tuple[Direction, Direction] = ("there", "back")


@dataclass(frozen=True)
class Way:
    """How bytes of one direction fare.

    Args:
        held: they stay here until the way changes, and so does the end of the stream.
        delay: seconds that each piece stays on its way.
        jitter: seconds more, at most, drawn from the seed.
        drip: at most so many bytes at a time; 0 for as many as there are.
        pause: seconds between two drips.
    """

    held: bool = False
    delay: float = 0.0
    jitter: float = 0.0
    drip: int = 0
    pause: float = 0.0


OPEN = Way()
HELD = Way(held=True)


@dataclass
class Piece:
    """Bytes as they came.

    Args:
        at: Unix time in seconds.
        data: the bytes.
    """

    at: float
    data: bytes


@dataclass
class Stream:
    """One direction of one connection."""

    number: int
    direction: Direction
    source: asyncio.StreamReader
    target: asyncio.StreamWriter
    waiting: asyncio.Event
    queue: deque[tuple[float, bytes]] = field(default_factory=deque)  # when due, and what
    due: float = 0.0
    waits: int = 0
    passed: bytearray = field(default_factory=bytearray)
    pieces: list[Piece] = field(default_factory=list)
    ended: bool = False
    left: int | None = None  # bytes until the connection is cut off in the middle

    def add(self, delay: float, data: bytes) -> None:
        """Queue bytes; they never overtake those before them."""
        self.due = max(self.due, time.monotonic() + delay)
        self.queue.append((self.due, data))
        self.waits += len(data)
        self.waiting.set()


class Link:
    """One connection: the sockets of both sides."""

    def __init__(self, number: int, back: asyncio.StreamWriter, *, dead: bool) -> None:
        self.number = number
        self.writers = [back]
        self.streams: list[Stream] = []
        self.dead = dead
        self.gone = False
        self.changed = asyncio.Event()

    @property
    def forgotten(self) -> bool:
        """Whether both sides have given up a connection that carries nothing any more."""
        return self.dead and all(stream.ended for stream in self.streams)

    def wake(self) -> None:
        """Something changed."""
        self.changed.set()
        for stream in self.streams:
            stream.waiting.set()

    def reset(self) -> None:
        """RST to both sides, at once."""
        self.gone = True
        for writer in self.writers:
            sock = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        self.wake()
