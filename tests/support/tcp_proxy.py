"""A network between two processes that can be made bad: a TCP proxy on loopback.

It runs in a thread of its own. Each direction passes, is delayed, drips or is held back: what is
held is lost to nobody, it comes late, as TCP would bring it, unless the connection ends before.
What a connection went through is kept with its moments where that is asked for: a history that
knows nothing of what the two sides believe.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from brokers.simulation.chance import Chance
from tests.support.tcp_link import BOTH, HELD, OPEN, Direction, Link, Piece, Stream, Way

__all__ = ["BOTH", "HELD", "OPEN", "Piece", "TcpProxy", "Way"]

LOOPBACK = "127.0.0.1"
_CHUNK = 65_536
_MOST_HELD = 64 * 2**20
_KEPT_FOR_REPLAY = 2**20
_PATIENCE = 60.0


class TcpProxy:
    """Passes connections to a port on, as well or as badly as it is told.

    Every change is in effect when the call returns. From the seed are drawn the jitter, and
    where a stream is cut off.

    Args:
        target: where to: host and port, or a port on loopback.
        seed: decides what is drawn.
        record: whether everything that came is kept; see `heard` and `pieces`.
    """

    def __init__(
        self, target: tuple[str, int] | int, *, seed: str = "", record: bool = False
    ) -> None:
        self.target = (LOOPBACK, target) if isinstance(target, int) else target
        self._record = record
        self._chance = Chance(f"proxy/{seed}")
        self._ways: dict[Direction, Way] = {"there": OPEN, "back": OPEN}
        self._dead = False
        self._streams: list[Stream] = []
        self._kept: list[Stream] = []
        self._links: set[Link] = set()
        self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._ready = threading.Event()
        self.port = 0
        self._thread = threading.Thread(target=self._run, name="tcp-proxy", daemon=True)
        self._thread.start()
        if not self._ready.wait(_PATIENCE) or not self.port:
            raise OSError("the proxy could not listen on loopback")

    # what can be done to the network

    def ways(self, *, there: Way | None = None, back: Way | None = None) -> None:
        """Change how bytes fare from now on, on connections of now and of later.

        Args:
            there: of the direction to the target; None leaves it as it is.
            back: of the other one.
        """

        def change() -> None:
            for direction, way in (("there", there), ("back", back)):
                if way is not None:
                    self._ways[direction] = way  # type: ignore[index]
            self._wake()

        self._call(change)

    def half_open(self) -> None:
        """Connections stay and carry nothing any more, not even their end; new ones neither.

        What they carried is lost: after `heal` they stay as they are, and only new ones pass.
        """

        def change() -> None:
            self._dead = True
            for link in self._links:
                link.dead = True
            self._wake()

        self._call(change)

    def cut(self, kind: str) -> None:
        """A partition by its name: `there`, `back`, `both` or `half-open`."""
        if kind == "half-open":
            self.half_open()
        else:
            self.ways(
                there=OPEN if kind == "back" else HELD, back=OPEN if kind == "there" else HELD
            )

    def heal(self, *, reset: bool = False) -> None:
        """Let everything pass; with `reset` all connections of before are reset.

        What was held is passed on late, on connections that are still there.
        """
        if reset:
            self.reset()

        def change() -> None:
            self._dead = False
            self._ways.update(there=OPEN, back=OPEN)
            self._wake()

        self._call(change)

    def reset(self) -> int:
        """Reset all connections, both sides; returns how many there were."""
        return self._call(self._reset)

    def truncate(self, direction: Direction = "there", *, most: int = 200) -> None:
        """Cut each connection off within its next bytes of a direction, as the seed says.

        Args:
            direction: whose bytes count.
            most: cut off after at least 1 and at most so many.
        """

        def change() -> None:
            for stream in self._streams:
                if stream.direction == direction:
                    stream.left = 1 + self._chance.below(most)

        self._call(change)

    def replay(
        self, direction: Direction = "there", *, begin: Callable[[bytes], int] | None = None
    ) -> int:
        """Pass what a direction of each connection carried once more, behind what it carries.

        Args:
            direction: which one.
            begin: finds in the bytes of before where to begin; from the beginning of what is
                kept (the last MiB) where it is None.

        Returns:
            How many bytes that were.
        """

        def change() -> int:
            count = 0
            for stream in self._streams:
                if stream.direction != direction or stream.ended:
                    continue
                data = bytes(stream.passed)
                data = data[0 if begin is None else begin(data) :]
                stream.add(0.0, data)
                count += len(data)
            return count

        return self._call(change)

    # what came

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._links)

    @property
    def heard(self) -> list[bytes]:
        """Every byte that came, one stream for each direction of each connection."""
        return self._call(lambda: [b"".join(p.data for p in s.pieces) for s in self._kept])

    def pieces(self, direction: Direction) -> list[list[Piece]]:
        """What came in a direction, of each connection, with the moments at which it came."""
        return self._call(
            lambda: [list(each.pieces) for each in self._kept if each.direction == direction]
        )

    # its life

    @property
    def address(self) -> tuple[str, int]:
        """Where to connect instead of the target."""
        return LOOPBACK, self.port

    def close(self) -> None:
        """End everything."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._done.set)
            self._thread.join(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # in the thread

    def _call(self, work: Callable[[], Any]) -> Any:
        if not self._thread.is_alive():
            return work()  # it has ended: nobody else touches anything

        async def done() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(_PATIENCE)

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
        self._reset()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self.connections += 1
        link = Link(self.connections, back, dead=self._dead)
        self._links.add(link)
        try:
            if link.dead or any(way.held for way in self._ways.values()):
                # Its first packets would not arrive either; nobody tells the one who connects.
                await self._until(link, lambda: not self._held_anywhere())
            if link.gone:
                return
            far, there = await asyncio.open_connection(*self.target)
            link.writers.append(there)
            await self._carry(link, near, back, far, there)
        except (OSError, asyncio.CancelledError):
            return
        finally:
            self._links.discard(link)
            for writer in link.writers:
                with contextlib.suppress(OSError, RuntimeError):
                    writer.close()

    def _held_anywhere(self) -> bool:
        return any(way.held for way in self._ways.values())

    async def _until(self, link: Link, true: Callable[[], bool]) -> None:
        while not link.gone and (link.dead or not true()):
            link.changed.clear()
            await link.changed.wait()

    async def _carry(
        self,
        link: Link,
        near: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        far: asyncio.StreamReader,
        there: asyncio.StreamWriter,
    ) -> None:
        streams = [
            Stream(link.number, "there", near, there, asyncio.Event()),
            Stream(link.number, "back", far, back, asyncio.Event()),
        ]
        self._streams += streams
        if self._record:
            self._kept += streams
        link.streams = streams
        try:
            await asyncio.gather(
                *(self._read(link, stream) for stream in streams),
                *(self._write(link, stream) for stream in streams),
            )
        finally:
            self._streams = [one for one in self._streams if one not in streams]

    async def _read(self, link: Link, stream: Stream) -> None:
        """Take everything at once, whatever becomes of it: the sender notices nothing."""
        with contextlib.suppress(OSError):
            while data := await stream.source.read(_CHUNK):
                if self._record:
                    stream.pieces.append(Piece(time.time(), data))
                way = self._ways[stream.direction]
                jitter = self._chance.between(0.0, way.jitter) if way.jitter else 0.0
                stream.add(way.delay + jitter, data)
                if stream.waits > _MOST_HELD:
                    link.reset()  # no network holds back more
        stream.ended = True
        link.wake()

    async def _write(self, link: Link, stream: Stream) -> None:
        with contextlib.suppress(OSError):
            while not (link.gone or link.forgotten):
                held = link.dead or self._ways[stream.direction].held
                if held or not (stream.queue or stream.ended):
                    stream.waiting.clear()
                    await stream.waiting.wait()
                elif stream.queue:
                    await self._pass(link, stream)
                else:
                    break
        if not link.gone:
            # One end is the end of both: none of our protocols has half-closed connections.
            with contextlib.suppress(OSError, RuntimeError):
                stream.target.close()

    async def _pass(self, link: Link, stream: Stream) -> None:
        way, (due, data) = self._ways[stream.direction], stream.queue[0]
        pause = max(due - time.monotonic(), way.pause)
        if pause > 0:
            await asyncio.sleep(pause)
        if link.gone or link.dead or self._ways[stream.direction].held:
            return  # cut while it was on its way
        stream.queue.popleft()
        if way.drip and len(data) > way.drip:
            stream.queue.appendleft((due, data[way.drip :]))
            data = data[: way.drip]
        cut = stream.left is not None and len(data) >= stream.left
        if stream.left is not None:
            data = data[: stream.left]
            stream.left -= len(data)
        stream.waits -= len(data)
        stream.passed += data
        del stream.passed[:-_KEPT_FOR_REPLAY]
        stream.target.write(data)
        await stream.target.drain()
        if cut:
            await asyncio.sleep(0.05)  # so that these bytes are seen before the end
            link.reset()

    def _reset(self) -> int:
        links = list(self._links)
        for link in links:
            link.reset()
        return len(links)

    def _wake(self) -> None:
        for link in self._links:
            link.wake()
