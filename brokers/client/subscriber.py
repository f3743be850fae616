"""Subscribing: ask the agents, take deliveries, hand each event out once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from brokers.adapters.seen import SeenLog
from brokers.client.aside import Aside, SetAside
from brokers.client.assembly import Event, Whole
from brokers.client.confirm import Confirmations
from brokers.client.filterkeys import FilterKey, FilterKeys
from brokers.client.homes import PATIENCE_SECONDS
from brokers.client.inbox import WINDOW_SECONDS, Inbox
from brokers.client.session import Session
from brokers.client.vault import Vault
from brokers.client.wish import Wish
from brokers.client.wishes import PROBE_SECONDS, Wishes

ATTEMPTS = 5
_PAUSE = 1.0
_NEVER_FINISHED = "it was handed out as often before, and never finished"


class Subscriber:
    """Receives events of one principal.

        with Subscriber("profiles/united") as subscriber:
            subscriber.subscribe("Flight", "delay > 120")
            for event in subscriber.events():
                print(event.type, dict(event.attributes))

    A handler sees each event once: it is recorded as handled (for a day, over restarts) when
    the next one is asked for, or on `close`, and only then acknowledged. A client that was
    killed in between, or left by an exception, sees its last event again, at most `attempts`
    times; then the event is put aside (`aside`).

    Args:
        profile_dir: its profile folder (`create_profile`).
        attempts: how often an event is handed out before it is put aside.
        patience: seconds after which an agent that owes an answer counts as silent.
        probe: seconds without a word after which the home is asked whether it is there; only
            where the control plane named a second agent.

    Raises:
        ProfileError: the profile is wrong or in use.
    """

    def __init__(
        self,
        profile_dir: str | Path,
        *,
        attempts: int = ATTEMPTS,
        patience: float = PATIENCE_SECONDS,
        probe: float = PROBE_SECONDS,
    ) -> None:
        self._attempts = attempts
        self._session = Session(profile_dir, patience=patience)
        profile = self._session.profile
        self._wishes = Wishes(self._session, probe=probe)
        self._seen = SeenLog(profile.state / "seen.sqlite", seconds=WINDOW_SECONDS)
        self._confirmations = Confirmations(self._session)
        self._inbox = Inbox(
            self._session, self._wishes.want, self._seen, confirmed=self._confirmations.carried
        )
        self._aside = Aside(profile.state / "aside.sqlite", Vault(profile.keys.sealing))
        self._filters = FilterKeys(self._session, profile.state / "filter-keys")
        self._pending: tuple[Whole, int] | None = None
        self._session.start(
            on_delivery=self._inbox.take,
            on_change=self._policy_changed,
            on_reply=self._confirmations.replied,
            on_answer=self._filters.answered,
            each_round=self._filters.step,
        )
        self._confirmations.start()
        self._wishes.start()

    @property
    def revision(self) -> int:
        """Revision of the policy in force at this client, 0 before the first."""
        policy = self._session.policy.current
        return 0 if policy is None else policy.revision

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains whose policy has arrived: its own, and those that it is a guest of."""
        return tuple(sorted(self._session.policy.domains))

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

    def wait_ready(self, timeout: float = 30.0, *, domain: str | None = None) -> None:
        """Wait until a policy has arrived and the brokers are connected.

        Args:
            timeout: seconds.
            domain: its own where None.

        Raises:
            NotReady: `not-ready`, and what is lacking.
        """
        self._session.wait_ready(timeout, domain)

    def subscribe(
        self,
        event_type: str,
        filter: str = "",  # noqa: A002 - the word of the field
        *,
        timeout: float = 10.0,
        domain: str | None = None,
    ) -> str:
        """Ask for events of a type and its sub-types. Durable: agents keep it on disk.

        The filter sees only what this subscriber may read; any other attribute counts as
        absent.

            late = subscriber.subscribe("Flight", "delay > 120")
            subscriber.unsubscribe(late)

        Args:
            event_type: the type.
            filter: expression over the type's attributes; empty for all events.
            timeout: seconds to wait for every home agent's answer.
            domain: whose events; the client's own where None.

        Returns:
            The subscription's identifier.

        Raises:
            Refused: an agent's reason, `not-ready`, or `timeout` (it goes on asking in the
                background then).
            InputError: the filter is wrong, with the position.
        """
        wish = self._wishes.wish(event_type, filter, domain)
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

    # keys of filters

    @property
    def filter_keys(self) -> tuple[FilterKey, ...]:
        """The keys of filters that it asked for and was given, or refused since."""
        return self._filters.all

    def filter_key(
        self, event_type: str, attributes: Iterable[str], *, timeout: float = 30.0
    ) -> FilterKey:
        """Ask the trusted authority for the key of a filter, where this client reads by filters.

            subscriber.filter_key("Quote", ["price", "sym"])
            subscriber.subscribe("Quote", 'sym == "IBM"')

        Durable: it is kept, and asked for again by itself when policies or epochs change.

        Args:
            event_type: the filter's type.
            attributes: names of the hidden attributes to be read.
            timeout: seconds to wait for the answer.

        Raises:
            NotAuthorised: policies do not give it; the message says which attribute, and why.
            NotReady: `not-ready`, where it cannot be given yet.
            TimedOut: no answer in time.
        """
        return self._filters.ask(event_type, attributes, timeout)

    def forget_filter_key(self, event_type: str, attributes: Iterable[str]) -> None:
        """Do without a filter's key: what it opened is withheld from the next event on."""
        self._filters.forget(event_type, attributes)

    # one at a time

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """Hand out events as they become whole.

        Args:
            timeout: end after so many seconds without an event; None waits for ever.
        """
        while (event := self.next_event(timeout)) is not None:
            yield event
            self.finish()

    def next_event(self, timeout: float | None = None) -> Event | None:
        """The next event, or None after `timeout` seconds; the one before counts as handled."""
        self.finish()
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            whole = self._inbox.next(None if end is None else max(0.0, end - time.monotonic()))
            if whole is None:
                return None
            attempts = self._aside.begun(whole)
            if attempts <= self._attempts:
                self._pending = (whole, attempts)
                return whole.event
            self._put_aside(whole, _NEVER_FINISHED, attempts - 1)

    # a handler

    def run(
        self,
        handler: Callable[[Event], object],
        *,
        timeout: float | None = None,
        count: int | None = None,
    ) -> int:
        """Call a handler with each event, until there is nothing more to do.

        An event counts as handled when the handler returned. One on which it raises comes
        again after a moment, with others in between; after `attempts` times it is put aside.

            def store(event):
                table.insert(event.publication, event.attributes)
            subscriber.run(store, timeout=60)
            print(subscriber.aside())

        Args:
            handler: called in this thread.
            timeout: end after so many seconds without an event; None waits for ever.
            count: end after so many events were handled; None for no limit.

        Returns:
            How many events were handled.

        Raises:
            BufferFull: so many events are put aside that a person must look first.
        """
        done = 0
        while count is None or done < count:
            event = self.next_event(timeout)
            if event is None:
                break
            try:
                handler(event)
            except Exception as error:  # noqa: BLE001 - whatever it is, the event is kept
                self.failed(error)
            except BaseException:
                self.give_back()
                raise
            else:
                self.finish()
                done += 1
        return done

    def failed(self, error: Exception) -> None:
        """The event handed out last could not be handled: it comes again, or is put aside.

        For programs with a loop of their own; `run` does it by itself.

        Args:
            error: why; its text is kept (encrypted) with an event that is put aside.
        """
        pending, self._pending = self._pending, None
        if pending is None:
            return
        whole, attempts = pending
        if attempts < self._attempts:
            self._inbox.again(whole, _PAUSE * attempts)
        else:
            self._put_aside(whole, f"{type(error).__name__}: {error}"[:1000], attempts)

    def give_back(self) -> None:
        """The event handed out last was not handled, through no fault of its own."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self._inbox.again(pending[0], 0.0)

    def aside(self) -> list[SetAside]:
        """Events that could not be handled, oldest first, with what the handler raised."""
        return self._aside.all()

    def forget_aside(self, publication: str) -> None:
        """Strike an event off the list of `aside`."""
        self._aside.forget(publication)

    def _put_aside(self, whole: Whole, error: str, attempts: int) -> None:
        self._aside.put(whole, error, attempts, self._session.clock.wall())
        self._inbox.handled(whole)

    def finish(self) -> None:
        """The event handed out last was handled: record it, and acknowledge it."""
        pending, self._pending = self._pending, None
        if pending is not None:
            self._inbox.handled(pending[0])
            self._aside.finished(pending[0])

    def on_arrival(self, callback: Callable[[], None] | None) -> None:
        """Have something called, on another thread, whenever an event may be waiting."""
        self._inbox.arrived = callback

    def _policy_changed(self) -> None:
        self._wishes.renew()
        self._inbox.retry()

    def close(self) -> None:
        """Record the last event as handled, disconnect and give the profile up."""
        self._inbox.wake()
        self._wishes.stop()
        self.finish()
        self._confirmations.stop()
        self._session.close()
        self._seen.close()
        self._aside.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            # Its handler was left by an exception: the last event comes again.
            self._pending = None
        self.close()
