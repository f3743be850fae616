"""A broker's port with somebody who listens: everything passes, and everything is kept."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

_CHUNK = 65_536
_LENGTH = b"\ncontent-length:"


class Wiretap:
    """Passes connections on to a port and keeps every byte of both directions.

    Args:
        host: where the broker listens.
        port: its port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._streams: list[bytearray] = []
        self._lock = threading.Lock()
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._target)
                for one, other in ((client, broker), (broker, client)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    kept = bytearray()
                    with self._lock:
                        self._open.append(one)
                        self._streams.append(kept)
                    threading.Thread(
                        target=self._pass, args=(one, other, kept), daemon=True
                    ).start()

    @staticmethod
    def _pass(one: socket.socket, other: socket.socket, kept: bytearray) -> None:
        with suppress(OSError):
            while data := one.recv(_CHUNK):
                kept += data
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    @property
    def heard(self) -> list[bytes]:
        """Every byte so far, one stream for each direction of each connection."""
        with self._lock:
            return [bytes(one) for one in self._streams]

    def bodies(self) -> Iterator[bytes]:
        """The bodies of all messages that passed, as STOMP frames carry them."""
        for stream in self.heard:
            at = 0
            while (found := stream.find(_LENGTH, at)) >= 0:
                end = stream.find(b"\n", found + len(_LENGTH))
                start = stream.find(b"\n\n", found) + 2
                length = int(stream[found + len(_LENGTH) : end])
                yield stream[start : start + length]
                at = start + length

    def close(self) -> None:
        """End it, and all connections through it."""
        self._listener.close()
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
