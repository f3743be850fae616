"""Publishing: split, tag, sign, seal, send, and wait for every part's reply."""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from brokers.client.errors import Refused
from brokers.client.policy import ClientPolicy, PlannedPart
from brokers.client.session import Session, fresh_identifier
from brokers.data.reasons import RETRYABLE
from brokers.ports import TransportError
from policyengine.attributes import Value
from policyengine.bundles import PublicationPart, Reply, seal_publication

_PAUSE_BEFORE_RETRY = 0.3


@dataclass(frozen=True)
class Published:
    """An event that every home agent concerned has accepted.

    Args:
        id: identifier of the publication, 32 hexadecimal digits.
        dropped: attributes that were left out, because the publisher may not write them
            or no agent could protect them.
    """

    id: str
    dropped: tuple[str, ...]


class Handle:
    """A publication under way; made by `Publisher.publish_nowait`."""

    def __init__(
        self,
        session: Session,
        event_type: str,
        values: Mapping[str, Value],
        parts: tuple[PlannedPart, ...],
    ) -> None:
        self.id = fresh_identifier()
        self._session = session
        self._type = event_type
        self._values = values
        self._parts = parts
        self._policies: dict[int, ClientPolicy] = {}
        self._unsent: set[int] = set()
        # Nobody has to wait: what is not asked for must not pile up.
        places = [(self.id, part.part) for part in parts]
        weakref.finalize(self, _forget, session, places)

    def begin(self, timeout: float) -> None:
        """Send all parts; one that cannot be sent now is sent while waiting."""
        for part in self._parts:
            self._session.expect((self.id, part.part))
        for part in self._parts:
            self._send(part, timeout)

    def wait(self, timeout: float = 10.0) -> Published:
        """Wait until every part was accepted.

        A part that an agent refuses because its encoding epoch is over is sealed anew
        under the newest policy; doubles that this may cause agents recognise.

        Args:
            timeout: seconds.

        Raises:
            Refused: an agent's reason, or `timeout`.
        """
        deadline = time.monotonic() + timeout
        try:
            replies = [self._accepted(part, deadline) for part in self._parts]
        finally:
            _forget(self._session, [(self.id, part.part) for part in self._parts])
        dropped = [name for reply in replies for name in reply.dropped]
        return Published(self.id, tuple(dict.fromkeys(dropped)))

    def _accepted(self, part: PlannedPart, deadline: float) -> Reply:
        place = (self.id, part.part)
        while (left := deadline - time.monotonic()) > 0:
            if part.part in self._unsent:
                self._resend(part, left)
                continue
            reply = self._session.wait_reply(place, left)
            if reply is None:
                break
            if reply.ok:
                return reply
            if reply.reason not in RETRYABLE:
                raise Refused(reply.reason, reply.message)
            self._session.wait_newer(self._policies[part.part].digest, _PAUSE_BEFORE_RETRY)
            self._session.expect(place)
            self._resend(part, deadline - time.monotonic())
        raise Refused("timeout", "no answer in time; it may still be accepted")

    def _resend(self, part: PlannedPart, left: float) -> None:
        self._send(part, max(0.1, left))
        if part.part in self._unsent:
            time.sleep(min(0.1, max(0.0, left)))

    def _send(self, part: PlannedPart, timeout: float) -> None:
        policy = self._session.policy.current
        if policy is None:
            raise Refused("not-ready", "no policy has arrived from the control plane yet")
        home = policy.homes.get(part.overlay)
        if home is None:
            raise Refused("no-home", f"this client has no home agent on `{part.overlay}`")
        profile = self._session.profile
        publication = make_part(
            policy, part,
            domain=profile.domain, publisher=profile.handle, publication=self.id,
            event_type=self._type, values=self._values, issued=self._session.now(),
        )  # fmt: skip
        sealed = seal_publication(
            publication,
            signing_key=profile.keys.signing,
            recipient=home.sealing_key,
            agent=home.agent,
        )
        self._policies[part.part] = policy
        self._unsent.discard(part.part)
        try:
            self._session.send(part.overlay, home.agent, "publication", sealed, timeout)
        except TransportError:
            self._unsent.add(part.part)


def make_part(
    policy: ClientPolicy,
    part: PlannedPart,
    *,
    domain: str,
    publisher: str,
    publication: str,
    event_type: str,
    values: Mapping[str, Value],
    issued: float,
) -> PublicationPart:
    """One part of an event as its publisher signs it.

    Args:
        policy: in force at the publisher.
        part: from `ClientPolicy.plan`.
        domain: the publisher's domain.
        publisher: its handle.
        publication: the event's identifier.
        event_type: its type.
        values: of the whole event.
        issued: Unix time in seconds.

    Raises:
        Refused: `not-ready`, where no tag key of the overlay is current.
    """
    epoch, tags = policy.tags(part.overlay, values)
    return PublicationPart(
        domain=domain,
        publication=publication,
        type=event_type,
        publisher=publisher,
        part=part.part,
        parts=part.parts,
        overlay=part.overlay,
        epoch=epoch,
        policy=policy.digest,
        issued=int(issued),
        tags=tags,
        attributes=part.values,
    )


def _forget(session: Session, places: list[tuple[str, int]]) -> None:
    for place in places:
        session.forget(place)


class Publisher:
    """Publishes events of one principal.

    Args:
        profile_dir: its profile folder (`create_profile`).

    Raises:
        ProfileError: the profile is wrong or in use.
    """

    def __init__(self, profile_dir: str | Path) -> None:
        self._session = Session(profile_dir)
        self._session.start()

    @property
    def revision(self) -> int:
        """Revision of the policy in force at this client, 0 before the first."""
        policy = self._session.policy.current
        return 0 if policy is None else policy.revision

    def wait_ready(self, timeout: float = 30.0) -> None:
        """Wait until a policy with current tag keys has arrived and the brokers are connected.

        Raises:
            Refused: `not-ready`, and what is lacking.
        """
        self._ready(timeout)

    def _ready(self, timeout: float) -> ClientPolicy:
        # A domain's very first bundles come before its agents have the first epoch; the
        # tag keys follow in a newer one.
        deadline = time.monotonic() + timeout
        policy = self._session.wait_ready(timeout)
        while not policy.can_tag:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Refused("not-ready", "no current tag key has arrived for this publisher")
            self._session.wait_newer(policy.digest, left)
            policy = self._session.wait_ready(max(0.0, deadline - time.monotonic()))
        return policy

    def publish(
        self, event_type: str, values: Mapping[str, Value], *, timeout: float = 10.0
    ) -> Published:
        """Publish an event and wait until every home agent concerned accepted it.

        Args:
            event_type: its type.
            values: attribute name -> value.
            timeout: seconds for everything.

        Raises:
            Refused: an agent's reason, `timeout`, `not-ready` or `no-home`.
            InputError: a value that no message can carry.
        """
        deadline = time.monotonic() + timeout
        handle = self.publish_nowait(event_type, values, timeout=timeout)
        return handle.wait(max(0.0, deadline - time.monotonic()))

    def publish_nowait(
        self, event_type: str, values: Mapping[str, Value], *, timeout: float = 10.0
    ) -> Handle:
        """Send an event and return at once; `Handle.wait` tells what became of it.

        Args:
            event_type: its type.
            values: attribute name -> value.
            timeout: seconds to become ready and for the brokers' receipts.

        Raises:
            Refused: `not-ready` or `no-home`.
            InputError: a value that no message can carry.
        """
        policy = self._session.policy.current
        if policy is None or not policy.can_tag:
            policy = self._ready(timeout)
        canonical = policy.canonical(event_type, values)
        parts = policy.plan(event_type, canonical)
        handle = Handle(self._session, event_type, canonical, parts)
        handle.begin(timeout)
        return handle

    def close(self) -> None:
        """Disconnect and give the profile up."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
