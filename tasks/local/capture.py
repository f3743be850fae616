"""Everything that went to and from an ActiveMQ broker, and a search through it.

A TCP proxy stands before the broker and writes what passes, one file a connection and direction,
so that a text cut in two by the network is still found.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

from tasks.local.errors import LocalError
from tasks.local.ports import LOOPBACK

_CHUNK = 65_536


class CaptureProxy:
    """Forwards loopback connections to `target` (host, port) and keeps all bytes in `folder`.

    Runs in a thread of its own. `name` begins the files' names.
    """

    def __init__(self, folder: Path, *, name: str, target: tuple[str, int]) -> None:
        self.folder = folder
        self.name = name
        self.target = target
        self.port = 0
        self._connections = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"capture-{name}", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Where to connect instead of the target."""
        return LOOPBACK, self.port

    def start(self) -> None:
        """Listen on a free port; returns when it does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        if not self._ready.wait(10) or not self.port:
            raise LocalError("the capturing proxy could not listen on loopback")

    def stop(self) -> None:
        """Close all connections and files."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._done.set)
            self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, LOOPBACK, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._done.wait()
        server.close()
        pending = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        stem = f"{self.name}-{self._connections:04}"
        try:
            back, forth = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(
                self._pump(reader, forth, self.folder / f"{stem}-to.bin"),
                self._pump(back, writer, self.folder / f"{stem}-from.bin"),
            )
        except asyncio.CancelledError:
            return
        finally:
            for end in (writer, forth):
                with contextlib.suppress(OSError):
                    end.close()

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: Path) -> None:
        with path.open("ab", buffering=0) as file, contextlib.suppress(ConnectionError):
            while data := await reader.read(_CHUNK):
                file.write(data)
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError, RuntimeError):
            # The other direction ends with this one: STOMP has no half-closed connections.
            writer.close()
