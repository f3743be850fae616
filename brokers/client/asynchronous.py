"""The publisher and the subscriber for programs on asyncio.

They stand on the threads of the ordinary ones: replies wake futures, arrivals wake the loop.
What writes to disk or waits for a connection runs on one thread of the client's own.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from brokers.client.aside import SetAside
from brokers.client.assembly import Event
from brokers.client.dispatch import Published
from brokers.client.errors import TimedOut
from brokers.client.filterkeys import FilterKey
from brokers.client.outbox import RefusedEvent
from brokers.client.publisher import Publisher
from brokers.client.subscriber import Subscriber
from policyengine.attributes import Value

_HOUSEKEEPING = 1.0

P = ParamSpec("P")
T = TypeVar("T")


class _Worker:
    """One thread for what would hold up the event loop."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def do(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(work, *args, **named))

    def end(self) -> None:
        self._pool.shutdown(wait=False)


class AsyncPublisher:
    """Publishes events of one principal, on asyncio.

        async with AsyncPublisher("profiles/airport") as publisher:
            await publisher.publish("Flight", {"carrier": "UA", "delay": 130})
            await asyncio.gather(*(publisher.publish("Flight", each) for each in more))
            await publisher.enqueue("Flight", {"carrier": "DL"})   # kept on disk, sent later
            await publisher.flush()

    Args:
        profile_dir: its profile folder (`create_profile`).
        options: as of `Publisher`.

    Raises:
        ProfileError: the profile is wrong or in use.
    """

    def __init__(self, profile_dir: str | Path, **options: Any) -> None:
        self._inner = Publisher(profile_dir, **options)
        self._worker = _Worker("async-publisher")

    async def wait_ready(self, timeout: float = 30.0, *, domain: str | None = None) -> None:
        """As `Publisher.wait_ready`."""
        await self._worker.do(self._inner.wait_ready, timeout, domain=domain)

    async def publish(
        self,
        event_type: str,
        values: Mapping[str, Value],
        *,
        timeout: float = 10.0,
        domain: str | None = None,
    ) -> Published:
        """As `Publisher.publish`; many may be awaited at the same time.

        Raises:
            Refused: an agent's reason, `timeout`, `not-ready` or `no-home`.
            BufferFull: too many events are under way.
            InputError: a value that no message can carry.
        """
        deadline = time.monotonic() + timeout
        handle = await self._worker.do(
            self._inner.publish_nowait, event_type, values, timeout=timeout, domain=domain
        )
        left = max(0.0, deadline - time.monotonic())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(handle.future), left)
        except TimeoutError:
            raise TimedOut("timeout", "no answer in time; it may still be accepted") from None

    async def enqueue(
        self, event_type: str, values: Mapping[str, Value], *, domain: str | None = None
    ) -> str:
        """As `Publisher.enqueue`."""
        return await self._worker.do(self._inner.enqueue, event_type, values, domain=domain)

    async def flush(self, timeout: float = 30.0) -> bool:
        """As `Publisher.flush`; no other call of this publisher is held up by it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._inner.flush, timeout)

    @property
    def waiting(self) -> int:
        """Events kept on disk that no agent has accepted yet."""
        return self._inner.waiting

    async def refused(self) -> list[RefusedEvent]:
        """As `Publisher.refused`."""
        return await self._worker.do(self._inner.refused)

    async def close(self) -> None:
        """As `Publisher.close`."""
        await self._worker.do(self._inner.close)
        self._worker.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncSubscriber:
    """Receives events of one principal, on asyncio.

        async with AsyncSubscriber("profiles/united") as subscriber:
            await subscriber.subscribe("Flight", "delay > 120")
            async for event in subscriber:
                await store(event.attributes)

    The one before counts as handled when the next event is asked for. One task at a time may
    ask for events.

    Args:
        profile_dir: its profile folder (`create_profile`).
        options: as of `Subscriber`.

    Raises:
        ProfileError: the profile is wrong or in use.
    """

    def __init__(self, profile_dir: str | Path, **options: Any) -> None:
        self._inner = Subscriber(profile_dir, **options)
        self._worker = _Worker("async-subscriber")
        self._arrived = asyncio.Event()
        self._closed = False

    async def wait_ready(self, timeout: float = 30.0, *, domain: str | None = None) -> None:
        """As `Subscriber.wait_ready`."""
        await self._worker.do(self._inner.wait_ready, timeout, domain=domain)

    async def subscribe(
        self,
        event_type: str,
        filter: str = "",  # noqa: A002 - the word of the field
        *,
        timeout: float = 10.0,
        domain: str | None = None,
    ) -> str:
        """As `Subscriber.subscribe`."""
        return await self._worker.do(
            self._inner.subscribe, event_type, filter, timeout=timeout, domain=domain
        )

    async def unsubscribe(self, identifier: str, *, timeout: float = 10.0) -> None:
        """As `Subscriber.unsubscribe`."""
        await self._worker.do(self._inner.unsubscribe, identifier, timeout=timeout)

    async def filter_key(
        self, event_type: str, attributes: Iterable[str], *, timeout: float = 30.0
    ) -> FilterKey:
        """As `Subscriber.filter_key`; no other call of this subscriber is held up by it."""
        loop = asyncio.get_running_loop()
        work = partial(self._inner.filter_key, event_type, tuple(attributes), timeout=timeout)
        return await loop.run_in_executor(None, work)

    async def forget_filter_key(self, event_type: str, attributes: Iterable[str]) -> None:
        """As `Subscriber.forget_filter_key`."""
        await self._worker.do(self._inner.forget_filter_key, event_type, tuple(attributes))

    @property
    def filter_keys(self) -> tuple[FilterKey, ...]:
        """As `Subscriber.filter_keys`."""
        return self._inner.filter_keys

    async def events(self, timeout: float | None = None) -> AsyncIterator[Event]:
        """As `Subscriber.events`."""
        while (event := await self.next_event(timeout)) is not None:
            yield event

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.events()

    async def next_event(self, timeout: float | None = None) -> Event | None:
        """The next event, or None after `timeout` seconds; the one before counts as handled.

        An event that came when this was cancelled is handed out by the next call.
        """
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(self._arrived.set)

        self._inner.on_arrival(wake)
        end = None if timeout is None else loop.time() + timeout
        while not self._closed:
            self._arrived.clear()
            event = await self._take()
            left = _HOUSEKEEPING if end is None else min(_HOUSEKEEPING, end - loop.time())
            if event is not None or (end is not None and left <= 0):
                return event
            try:
                await asyncio.wait_for(self._arrived.wait(), left)
            except TimeoutError:
                continue  # an event that is to be tried again may be due
        return None

    async def _take(self) -> Event | None:
        taking = asyncio.ensure_future(self._worker.do(self._inner.next_event, 0.0))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            # Nobody will see what is taken now: it comes again.
            taking.add_done_callback(self._return_to_sender)
            raise

    def _return_to_sender(self, taken: asyncio.Future[Event | None]) -> None:
        if not taken.cancelled() and taken.exception() is None and taken.result() is not None:
            self._inner.give_back()

    async def run(
        self,
        handler: Callable[[Event], Awaitable[object] | object],
        *,
        timeout: float | None = None,
        count: int | None = None,
    ) -> int:
        """As `Subscriber.run`, with a handler that may be a coroutine function."""
        done = 0
        while count is None or done < count:
            event = await self.next_event(timeout)
            if event is None:
                break
            try:
                result = handler(event)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:  # noqa: BLE001 - whatever it is, the event is kept
                await self._worker.do(self._inner.failed, error)
            except BaseException:
                self._inner.give_back()
                raise
            else:
                await self._worker.do(self._inner.finish)
                done += 1
        return done

    async def aside(self) -> list[SetAside]:
        """As `Subscriber.aside`."""
        return await self._worker.do(self._inner.aside)

    async def close(self) -> None:
        """As `Subscriber.close`."""
        self._closed = True
        self._inner.on_arrival(None)
        self._arrived.set()
        await self._worker.do(self._inner.close)
        self._worker.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            # Its handler was left by an exception: the last event comes again.
            self._inner.give_back()
        await self.close()
