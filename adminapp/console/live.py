"""Live pages: one task a process watches the database and tells every open page what changed.

A page holds one server-sent event stream. A stream never touches the database: it waits for the
hub, which reads the marks of all areas once a second in a thread of its own, however many pages
are open. What goes over a stream is only the name of what changed (`agents`,
`revocations:heating`); the page then asks for those parts through the ordinary views, with their
permissions.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_GET

from adminapp.console import pages
from adminapp.distribution import marks

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
PULSE_SECONDS = 5.0
# A stream is opened anew after this time, so that a right taken away ends it.
STREAM_SECONDS = 600.0
STREAMS_PER_PROCESS = 1000
SIGNALS = (signal.SIGINT, signal.SIGTERM)

Marks = Mapping[str, str]


class Subscription:
    """What one page still has to be told: a set, so that a slow page costs no more than a fast."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.woken = asyncio.Event()

    def add(self, topics: set[str]) -> None:
        self.topics |= topics
        self.woken.set()

    async def next(self, timeout: float) -> set[str] | None:
        """The topics that changed since the last call, or None after `timeout` seconds."""
        try:
            await asyncio.wait_for(self.woken.wait(), timeout)
        except TimeoutError:
            return None
        self.woken.clear()
        topics, self.topics = self.topics, set()
        return topics


class Hub:
    """Reads the marks while somebody listens, and hands on which of them changed."""

    def __init__(self, read: Callable[[], Marks], *, every: float = POLL_SECONDS) -> None:
        self._read = read
        self._every = every
        self._subscriptions: set[Subscription] = set()
        self._task: asyncio.Task[None] | None = None
        self._marks: Marks | None = None
        self._executor: ThreadPoolExecutor | None = None
        self.stopping = False

    def __len__(self) -> int:
        return len(self._subscriptions)

    def subscribe(self) -> Subscription:
        """Start to listen; the caller must `unsubscribe`."""
        subscription = Subscription()
        self._subscriptions.add(subscription)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        if not self._subscriptions and self._task is not None:
            self._task.cancel()
            self._task = None

    def stop(self) -> None:
        """End every stream: the server wants to stop."""
        self.stopping = True
        for subscription in self._subscriptions:
            subscription.woken.set()

    async def _run(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="live")
        loop = asyncio.get_running_loop()
        self._marks = None
        try:
            while not self.stopping:
                await self._look(loop)
                await asyncio.sleep(self._every)
        finally:
            # The thread's database connection goes with the thread.
            self._executor.submit(_close_connections)
            self._executor.shutdown(wait=False)

    async def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            found = await loop.run_in_executor(self._executor, self._read)
        except Exception:  # the database may be away for a while: pages keep what they have
            log.exception("live pages: the marks cannot be read")
            return
        before, self._marks = self._marks, found
        if before is None:
            return
        changed = {topic for topic in {*before, *found} if before.get(topic) != found.get(topic)}
        if changed:
            for subscription in self._subscriptions:
                subscription.add(changed)


def _read_marks() -> Marks:
    close_old_connections()
    return marks.read()


def _close_connections() -> None:
    connections.close_all()


_hub: Hub | None = None
_hub_loop: asyncio.AbstractEventLoop | None = None


def hub() -> Hub:
    """The hub of this process (of its event loop)."""
    global _hub, _hub_loop
    loop = asyncio.get_running_loop()
    if _hub is None or _hub_loop is not loop:
        _hub, _hub_loop = Hub(_read_marks), loop
        _stop_with_server(_hub, loop)
    return _hub


def _stop_with_server(target: Hub, loop: asyncio.AbstractEventLoop) -> None:
    """End the streams as soon as the server is told to stop.

    uvicorn waits for open responses before it tells an application anything, so without this an
    open page would hold up the stop. The server's own handler runs as before.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        previous = signal.getsignal(number)
        signal.signal(number, _chained(previous, target, loop))


def _chained(previous: Any, target: Hub, loop: asyncio.AbstractEventLoop) -> Any:
    def handler(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(target.stop)
        if callable(previous):
            previous(number, frame)
        elif previous is signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    return handler


@require_GET
async def stream(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """The events of one page; what the user may not see is left out."""
    user = await request.auser()
    if not user.is_authenticated:
        return HttpResponse(status=403)
    domains = await sync_to_async(_seen_by)(user)
    if hub().stopping or len(hub()) >= STREAMS_PER_PROCESS:
        # The page falls back to polling and tries again later.
        return HttpResponse(status=503)
    response = StreamingHttpResponse(
        events(hub(), domains, lifetime=STREAM_SECONDS), content_type="text/event-stream"
    )
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def _seen_by(user: Any) -> frozenset[str]:
    """What the user may be told of; then the request's connection goes back.

    A request keeps its connection until its response ends, and a stream ends late: a few hundred
    open pages would otherwise use up what a database server has.
    """
    domains = pages.visible_domain_names(user)
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
    return domains


async def events(source: Hub, domains: frozenset[str], *, lifetime: float) -> AsyncIterator[bytes]:
    """The bytes of one stream: `ready`, then `changed` with topics, `pulse` when nothing does."""
    subscription = source.subscribe()
    ends = time.monotonic() + lifetime
    quiet = time.monotonic() + PULSE_SECONDS
    try:
        yield event("ready", {"every": PULSE_SECONDS})
        while not source.stopping and time.monotonic() < ends:
            topics = await subscription.next(max(quiet - time.monotonic(), 0))
            told = sorted(topic for topic in topics or () if visible(topic, domains))
            if told:
                yield event("changed", {"topics": told})
            elif time.monotonic() < quiet:
                continue
            else:
                yield event("pulse", {})
            quiet = time.monotonic() + PULSE_SECONDS
    finally:
        source.unsubscribe(subscription)


def visible(topic: str, domains: frozenset[str]) -> bool:
    """Whether a topic may be told to somebody who sees `domains`."""
    _, separator, domain = topic.partition(":")
    return not separator or domain in domains


def event(kind: str, data: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
