"""Publishing: wait for the answer, look at it later, or leave it to the outbox."""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from types import TracebackType
from typing import Self

from brokers.client.courier import Courier
from brokers.client.dispatch import Published, plan_parcel
from brokers.client.errors import NotReady, TimedOut
from brokers.client.homes import PATIENCE_SECONDS
from brokers.client.outbox import MAX_BYTES, MAX_EVENTS, Outbox, RefusedEvent
from brokers.client.policy import ClientPolicy
from brokers.client.session import Session, fresh_identifier
from brokers.client.vault import Vault
from policyengine.attributes import Value
from policyengine.bundles.limits import values_codec

_CLOSE_SECONDS = 5.0
_VALUES = values_codec()


class Handle:
    """A publication under way; made by `Publisher.publish_nowait`.

    As long as somebody holds it, its parts are sent again where that is needed.
    """

    def __init__(self, identifier: str, future: Future[Published], courier: Courier) -> None:
        self.id = identifier
        self.future = future
        # Nobody has to wait: what is not asked for must not pile up.
        weakref.finalize(self, courier.forget, identifier)

    def wait(self, timeout: float = 10.0) -> Published:
        """Wait until every part was accepted.

        A part that an agent refuses because its encoding epoch is over is sealed anew
        under the newest policy; doubles that this may cause agents recognise.

        Args:
            timeout: seconds.

        Raises:
            Refused: an agent's reason, or `timeout`.
            InputError: a value that no message can carry.
        """
        try:
            return self.future.result(timeout)
        except FutureTimeoutError:
            raise TimedOut("timeout", "no answer in time; it may still be accepted") from None


class Publisher:
    """Publishes events of one principal.

        with Publisher("profiles/airport") as publisher:
            publisher.publish("Flight", {"carrier": "UA", "delay": 130})   # waits for agents
            publisher.enqueue("Flight", {"carrier": "DL", "delay": 5})     # kept on disk, sent
            publisher.flush(timeout=30)                                    # when it can be
            print(publisher.refused())                                     # and what was not

    It reconnects by itself. Where a home agent does not answer for `patience` seconds and the
    control plane named a second one, that one is asked until the first is heard again.

    Args:
        profile_dir: its profile folder (`create_profile`).
        patience: seconds after which an agent that owes an answer counts as silent.
        max_events: most events that `enqueue` keeps.
        max_bytes: most bytes of them on disk.

    Raises:
        ProfileError: the profile is wrong or in use.
    """

    def __init__(
        self,
        profile_dir: str | Path,
        *,
        patience: float = PATIENCE_SECONDS,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._session = Session(profile_dir, patience=patience)
        profile = self._session.profile
        self._outbox = Outbox(
            profile.state / "outbox.sqlite",
            Vault(profile.keys.sealing),
            max_events=max_events,
            max_bytes=max_bytes,
        )
        self._courier = Courier(self._session, self._outbox)
        self._courier.start()
        self._session.start(on_change=self._courier.wake, on_reply=self._courier.reply)

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
    def waiting(self) -> int:
        """Events kept on disk that no agent has accepted yet."""
        return len(self._outbox)

    def wait_ready(self, timeout: float = 30.0, *, domain: str | None = None) -> None:
        """Wait until a policy with current tag keys has arrived and the brokers are connected.

        Args:
            timeout: seconds.
            domain: its own where None.

        Raises:
            NotReady: `not-ready`, and what is lacking.
        """
        self._ready(timeout, domain)

    def _ready(self, timeout: float, domain: str | None) -> ClientPolicy:
        # A domain's very first bundles come before its agents have the first epoch; the
        # tag keys follow in a newer one.
        deadline = time.monotonic() + timeout
        policy = self._session.wait_ready(timeout, domain)
        while not policy.can_tag:
            left = deadline - time.monotonic()
            if left <= 0:
                raise NotReady("not-ready", "no current tag key has arrived for this publisher")
            self._session.wait_newer(policy, left)
            policy = self._session.wait_ready(max(0.0, deadline - time.monotonic()), domain)
        return policy

    # now

    def publish(
        self,
        event_type: str,
        values: Mapping[str, Value],
        *,
        timeout: float = 10.0,
        domain: str | None = None,
    ) -> Published:
        """Publish an event and wait until every home agent concerned accepted it.

            done = publisher.publish("Flight", {"carrier": "UA", "delay": 130})
            if done.dropped:
                print("not published:", done.dropped)

        Args:
            event_type: its type.
            values: attribute name -> value.
            timeout: seconds for everything.
            domain: where to publish; the client's own where None.

        Raises:
            Refused: an agent's reason, `timeout`, `not-ready` or `no-home`.
            TooOften: a `Refused` that says when there is room again.
            BufferFull: too many events are under way.
            InputError: a value that no message can carry.
        """
        deadline = time.monotonic() + timeout
        handle = self.publish_nowait(event_type, values, timeout=timeout, domain=domain)
        return handle.wait(max(0.0, deadline - time.monotonic()))

    def publish_nowait(
        self,
        event_type: str,
        values: Mapping[str, Value],
        *,
        timeout: float = 10.0,
        domain: str | None = None,
    ) -> Handle:
        """Send an event in the background; `Handle.wait` tells what became of it.

        Args:
            event_type: its type.
            values: attribute name -> value.
            timeout: seconds to become ready, and for room where many are under way.
            domain: where to publish; the client's own where None.

        Raises:
            NotReady: `not-ready` or `no-home`.
            BufferFull: too many events are under way.
            InputError: a value that no message can carry.
        """
        deadline = time.monotonic() + timeout
        policy = self._session.policy.of(domain or self._session.profile.domain)
        if policy is None or not policy.can_tag or not policy.homes:
            policy = self._ready(timeout, domain)
        cleaned = _VALUES.clean(values, "attributes")
        parcel = plan_parcel(policy, fresh_identifier(), event_type, cleaned)
        future = self._courier.carry(parcel, max(0.0, deadline - time.monotonic()))
        return Handle(parcel.id, future, self._courier)

    # later

    def enqueue(
        self, event_type: str, values: Mapping[str, Value], *, domain: str | None = None
    ) -> str:
        """Keep an event on disk and send it as soon as that is possible; returns at once.

        It survives the end of this process and is sent in the order of `enqueue`, sealed at
        the moment when it is sent. Agents that refuse it are heard of in `refused`; where more
        is published than the policy permits in a span of time, it waits for its turn.

        Args:
            event_type: its type.
            values: attribute name -> value.
            domain: where to publish; the client's own where None.

        Returns:
            The publication's identifier.

        Raises:
            BufferFull: as many events wait as may.
            NotReady: nothing is known of a domain other than the client's own.
            InputError: a value that no message can carry.
            OSError: the disk is full or failing.
        """
        name = domain or self._session.profile.domain
        if name != self._session.profile.domain and self._session.policy.of(name) is None:
            raise NotReady("not-ready", f"no policy of domain `{name}` has arrived yet")
        identifier = fresh_identifier()
        cleaned = _VALUES.clean(values, "attributes")
        self._outbox.put(identifier, name, event_type, cleaned)
        self._courier.wake()
        return identifier

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until no event is left on disk; False where some are after `timeout` seconds."""
        return self._courier.flush(timeout)

    def refused(self) -> list[RefusedEvent]:
        """Events from `enqueue` that agents refused, with the reason; the last 1,000."""
        return self._outbox.refused()

    def forget_refused(self, identifier: str) -> None:
        """Strike an event off the list of `refused`."""
        self._outbox.forget_refused(identifier)

    def close(self) -> None:
        """Disconnect and give the profile up; what waits on disk is sent the next time."""
        self._courier.stop(_CLOSE_SECONDS)
        self._session.close()
        self._outbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
