"""Subscribing: ask every home agent, take deliveries, hand each event out once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from brokers.adapters.seen import SeenLog
from brokers.client.assembly import Event, Whole
from brokers.client.inbox import WINDOW_SECONDS, Inbox
from brokers.client.session import Session
from brokers.client.wishes import Wish, Wishes


class Subscriber:
    """Receives events of one principal.

    A handler sees each event once: it is recorded as handled when the next one is asked for,
    or on `close`. Only a client that was killed in between sees its last event again.

    Args:
        profile_dir: its profile folder (`create_profile`).

    Raises:
        ProfileError: the profile is wrong or in use.
    """

    def __init__(self, profile_dir: str | Path) -> None:
        self._session = Session(profile_dir)
        self._wishes = Wishes(self._session)
        self._seen = SeenLog(self._session.profile.state / "seen.sqlite", seconds=WINDOW_SECONDS)
        self._inbox = Inbox(self._session, self._wishes.want, self._seen)
        self._pending: Whole | None = None
        self._session.start(on_delivery=self._inbox.take, on_change=self._policy_changed)
        self._wishes.start()

    @property
    def revision(self) -> int:
        """Revision of the policy in force at this client, 0 before the first."""
        policy = self._session.policy.current
        return 0 if policy is None else policy.revision

    @property
    def subscriptions(self) -> tuple[Wish, ...]:
        """Everything that this client is subscribed to."""
        return self._wishes.all

    @property
    def incomplete(self) -> int:
        """Events of which a part is awaited."""
        return self._inbox.incomplete

    @property
    def given_up(self) -> int:
        """Events given up since the start, because a part did not come in time."""
        return self._inbox.given_up

    @property
    def doubles(self) -> int:
        """Deliveries of events that were handled before, left out since the start."""
        return self._inbox.doubles

    def wait_ready(self, timeout: float = 30.0) -> None:
        """Wait until a policy has arrived and the brokers are connected.

        Raises:
            Refused: `not-ready`, and what is lacking.
        """
        self._session.wait_ready(timeout)

    def subscribe(
        self,
        event_type: str,
        filter: str = "",  # noqa: A002 - the word of the field
        *,
        timeout: float = 10.0,
    ) -> str:
        """Ask for events of a type and its sub-types. Durable: agents keep it on disk.

        The filter sees only what this subscriber may read; any other attribute counts as
        absent.

        Args:
            event_type: the type.
            filter: expression over the type's attributes; empty for all events.
            timeout: seconds to wait for every home agent's answer.

        Returns:
            The subscription's identifier.

        Raises:
            Refused: an agent's reason, `not-ready`, or `timeout` (it goes on asking in the
                background then).
            InputError: the filter is wrong, with the position.
        """
        wish = Wish.of(event_type, filter)
        self._wishes.add(wish, timeout)
        return wish.identifier

    def unsubscribe(self, identifier: str, *, timeout: float = 10.0) -> None:
        """End a subscription.

        Args:
            identifier: from `subscribe`.
            timeout: seconds to wait for every home agent's answer.

        Raises:
            Refused: an agent's reason, `not-ready`, or `timeout`.
        """
        self._wishes.remove(identifier, timeout)

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """Hand out events as they become whole.

        Args:
            timeout: end after so many seconds without an event; None waits for ever.
        """
        while (event := self.next_event(timeout)) is not None:
            yield event
            self._finish()

    def next_event(self, timeout: float | None = None) -> Event | None:
        """The next event, or None after `timeout` seconds; the one before counts as handled."""
        self._finish()
        self._pending = self._inbox.next(timeout)
        return None if self._pending is None else self._pending.event

    def _finish(self) -> None:
        whole, self._pending = self._pending, None
        if whole is not None:
            self._inbox.handled(whole)

    def _policy_changed(self) -> None:
        self._wishes.renew()
        self._inbox.retry()

    def close(self) -> None:
        """Record the last event as handled, disconnect and give the profile up."""
        self._inbox.wake()
        self._wishes.stop()
        self._finish()
        self._session.close()
        self._seen.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
