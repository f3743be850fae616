"""All sample publishers and subscribers, each through the client library."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from brokers.client import Event, Publisher, Refused, Subscriber
from tasks.local.layout import Layout
from tasks.local.samples import Document

Name = tuple[str, str]
"""(domain, principal)"""


@dataclass(frozen=True)
class Wish:
    """What a subscriber asks for: an event type and a filter over its attributes."""

    type: str
    filter: str = ""


class Inbox:
    """Takes every event of one subscriber as it comes, in a thread of its own."""

    def __init__(self, subscriber: Subscriber, name: Name) -> None:
        self.name = name
        self.subscriber = subscriber
        self._events: list[Event] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"inbox-{name[1]}", daemon=True)
        self._thread.start()

    @property
    def events(self) -> list[Event]:
        """Everything so far, in the order of arrival."""
        with self._lock:
            return list(self._events)

    def close(self) -> None:
        """Stop taking, and disconnect."""
        self._stopping.set()
        self._thread.join(10)
        self.subscriber.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for event in self.subscriber.events(timeout=0.3):
                with self._lock:
                    self._events.append(event)
                if self._stopping.is_set():
                    break


class Clients:
    """Publishers and inboxes of the sample organisations, by (domain, principal)."""

    def __init__(self, layout: Layout, documents: Mapping[str, Document]) -> None:
        self.publishers: dict[Name, Publisher] = {}
        self.inboxes: dict[Name, Inbox] = {}
        self._layout = layout
        self._documents = documents

    def open(self, *, timeout: float = 60.0) -> None:
        """Connect everybody and wait until each has its policy.

        Raises:
            Refused: `not-ready`, and what is lacking.
        """
        self.connect()
        for _, client in self.everybody():
            client.wait_ready(timeout)

    def connect(self) -> None:
        """Begin to connect everybody that has keys here."""
        for domain, principal in self._principals():
            name = (domain, principal["name"])
            folder = self._layout.client(*name)
            if principal["kind"] == "publisher":
                self.publishers[name] = Publisher(folder)
            else:
                self.inboxes[name] = Inbox(Subscriber(folder), name)

    def everybody(self) -> list[tuple[Name, Publisher | Subscriber]]:
        """All clients with their names, publishers first."""
        inboxes = ((name, inbox.subscriber) for name, inbox in self.inboxes.items())
        return [*self.publishers.items(), *inboxes]

    def ready_count(self) -> int:
        """How many clients have a policy."""
        return sum(client.revision > 0 for _, client in self.everybody())

    def subscribe(self, wishes: Mapping[Name, Iterable[Wish]], *, timeout: float = 30.0) -> None:
        """Ask for these; what a principal asked for before it keeps.

        Raises:
            Refused: an agent's reason.
        """
        for name, wanted in wishes.items():
            for wish in wanted:
                subscriber = self.inboxes[name].subscriber
                subscriber.subscribe(wish.type, wish.filter, timeout=timeout)

    def received(self) -> int:
        """How many events all subscribers have received."""
        return sum(len(inbox.events) for inbox in self.inboxes.values())

    def close(self) -> None:
        """Disconnect everybody, at the same time: each waits for its own threads to end."""
        closing = [one.close for one in (*self.inboxes.values(), *self.publishers.values())]
        with ThreadPoolExecutor(max_workers=len(closing) or 1) as pool:
            for done in [pool.submit(close) for close in closing]:
                done.result()
        self.inboxes.clear()
        self.publishers.clear()

    def _principals(self) -> Iterable[tuple[str, Document]]:
        for domain, document in self._documents.items():
            for principal in document["principals"]:
                # One that was revoked, or came later, has no keys here.
                if (self._layout.client(domain, principal["name"]) / "keys.json").is_file():
                    yield domain, principal


__all__ = ["Clients", "Inbox", "Name", "Refused", "Wish"]
