"""Messages that came and were not taken yet, bounded in bytes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable

from brokers.ports import Message

DEFAULT_BYTES = 64 * 2**20


class Inbox:
    """A queue of messages between the thread that reads and those that work.

    What does not fit is dropped, and everything behind it of the same source too: the
    broker keeps it, for it was not acknowledged, and gives it again to who asks afresh.
    The reading thread never waits, so that heart-beats and receipts are always heard.

    Args:
        most_bytes: of bodies; one message alone may be larger.
    """

    def __init__(self, most_bytes: int = DEFAULT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._arrived = threading.Condition()
        self._messages: deque[tuple[Hashable, Message]] = deque()
        self._bytes = 0
        self._overflowing: set[Hashable] = set()
        self._closed = False

    def put(self, source: Hashable, message: Message) -> bool:
        """Add a message; False where it was dropped.

        Args:
            source: what it came through, such as a subscription on a connection.
            message: the message.
        """
        with self._arrived:
            if source in self._overflowing:
                return False
            if self._messages and self._bytes + len(message.body) > self._most_bytes:
                self._overflowing.add(source)
                return False
            self._messages.append((source, message))
            self._bytes += len(message.body)
            self._arrived.notify()
            return True

    def take(self, limit: int, timeout: float) -> list[Message]:
        """Wait up to `timeout` seconds for a first message; return at most `limit`."""
        with self._arrived:
            if not self._messages and timeout > 0:
                self._arrived.wait_for(lambda: bool(self._messages) or self._closed, timeout)
            taken = [self._messages.popleft()[1] for _ in range(min(limit, len(self._messages)))]
            self._bytes -= sum(len(message.body) for message in taken)
            return taken

    def drained(self) -> set[Hashable]:
        """Sources of which something was dropped, once nothing is left here; each once."""
        with self._arrived:
            if self._messages:
                return set()
            found, self._overflowing = self._overflowing, set()
            return found

    def forget(self, gone: Callable[[Message], bool], source: Callable[[Hashable], bool]) -> None:
        """Drop messages, and what was noted of sources, for which these say so."""
        with self._arrived:
            self._messages = deque(item for item in self._messages if not gone(item[1]))
            self._bytes = sum(len(message.body) for _, message in self._messages)
            self._overflowing = {one for one in self._overflowing if not source(one)}

    def close(self) -> None:
        """Empty it and wake whoever waits."""
        with self._arrived:
            self._closed = True
            self._messages.clear()
            self._bytes = 0
            self._arrived.notify_all()
