"""Everything that goes over the connections to a broker, for tests that look for plaintext."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class Tap:
    """A port on loopback that passes bytes on to another one and keeps them.

    Args:
        port: where to, on loopback.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock = threading.Lock()
        self._bytes = bytearray()
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._run(self._serve)

    @property
    def seen(self) -> bytes:
        """All bytes so far, both ways."""
        with self._lock:
            return bytes(self._bytes)

    def close(self) -> None:
        """End every connection."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for one in self._open:
            one.close()

    def _run(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._target), timeout=10)
            except OSError:
                return
            far.settimeout(None)
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                self._run(self._pass, source, target)

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                with self._lock:
                    self._bytes += data
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
