"""What a subscriber asked for: kept on disk, and asked of every home agent it ever has."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from brokers.adapters.files import write_atomically
from brokers.adapters.logs import log
from brokers.client.assembly import Event, Interests
from brokers.client.errors import ProfileError, Refused
from brokers.client.session import Session, fresh_identifier
from brokers.data.reasons import RETRYABLE
from brokers.data.subscriptions import compile_filter
from brokers.ports import TransportError
from policyengine.bundles import HomeAgent, Reply, SubscribeRequest, seal_subscribe
from policyengine.errors import InputError, RejectedError
from policyengine.primitives.signatures import SigningKey

_LOGGER = logging.getLogger("portcullis.client")
_RETRY_PAUSE = 0.3
_RENEW_SECONDS = 10.0


@dataclass(frozen=True)
class Wish:
    """One subscription.

    Args:
        identifier: names it; the same wish always has the same name.
        type: event type; its sub-types are included.
        filter: expression over the type's attributes, or empty.
    """

    identifier: str
    type: str
    filter: str

    @classmethod
    def of(cls, event_type: str, text: str) -> Wish:
        """The wish for a type and a filter."""
        digest = blake2b(f"{event_type}\n{text}".encode(), digest_size=16).hexdigest()
        return cls(f"s-{digest}", event_type, text)


def seal_wish(
    wish: Wish,
    action: str,
    home: HomeAgent,
    *,
    domain: str,
    client: str,
    request: str,
    issued: float,
    signing_key: SigningKey,
) -> bytes:
    """A signed request to begin or end a subscription, sealed for one home agent.

    Args:
        wish: what is asked for.
        action: `subscribe` or `unsubscribe`.
        home: who is asked.
        domain: the client's domain.
        client: its handle.
        request: identifies the request, 32 hexadecimal digits.
        issued: Unix time in seconds.
        signing_key: the client's own.
    """
    return seal_subscribe(
        SubscribeRequest(
            domain=domain,
            client=client,
            request=request,
            subscription=wish.identifier,
            action=action,
            type=wish.type,
            filter=wish.filter,
            issued=int(issued),
        ),
        signing_key=signing_key,
        recipient=home.sealing_key,
        agent=home.agent,
    )


class Wishes:
    """Keeps the subscriptions of one client and sees to it that its home agents know them.

    Args:
        session: the client's session, not started yet.

    Raises:
        ProfileError: the file with the subscriptions is damaged.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._file = session.profile.state / "wishes.json"
        self._kept = _load(self._file)
        self._confirmed: set[tuple[str, str]] = set()
        self._compiled: tuple[str, dict[str, Wish], Interests] | None = None
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="client-wishes", daemon=True)

    @property
    def all(self) -> tuple[Wish, ...]:
        """Every subscription."""
        return tuple(self._kept.values())

    def want(self, event: Event) -> bool:
        """Whether one of the subscriptions wants a whole event."""
        policy, kept, held = self._session.policy.current, self._kept, self._compiled
        if policy is None:
            return False
        if held is None or held[0] != policy.digest or held[1] is not kept:
            pairs = [(wish.type, wish.filter) for wish in kept.values()]
            held = (policy.digest, kept, Interests.build(policy.types, pairs))
            self._compiled = held
        return held[2].meet(event)

    # begin and end

    def add(self, wish: Wish, timeout: float) -> None:
        """Begin a subscription at every home agent.

        Raises:
            Refused: an agent's reason, `not-ready`, or `timeout`.
            InputError: the filter is wrong.
        """
        deadline = time.monotonic() + timeout
        policy = self._session.wait_ready(timeout)
        if wish.type in policy.types.names:
            compile_filter(wish.filter, policy.types.attributes(wish.type))
        before = self._kept
        # Kept first: events may arrive before the last agent has answered.
        self._keep({**before, wish.identifier: wish})
        try:
            for home in policy.homes.values():
                self._ask(home, wish, "subscribe", deadline)
        except Refused as error:
            if error.reason != "timeout":
                self._keep(before)
            raise

    def remove(self, identifier: str, timeout: float) -> None:
        """End a subscription at every home agent.

        Raises:
            Refused: an agent's reason, `not-ready`, or `timeout`.
        """
        wish = self._kept.get(identifier)
        if wish is None:
            return
        deadline = time.monotonic() + timeout
        self._keep({name: kept for name, kept in self._kept.items() if name != identifier})
        for home in self._session.wait_ready(timeout).homes.values():
            self._ask(home, wish, "unsubscribe", deadline)

    def _keep(self, kept: dict[str, Wish]) -> None:
        entries = [asdict(wish) for wish in kept.values()]
        write_atomically(self._file, json.dumps(entries).encode())
        self._kept = kept

    # asking

    def _ask(self, home: HomeAgent, wish: Wish, action: str, deadline: float) -> None:
        while (left := deadline - time.monotonic()) > 0:
            reply = self._ask_once(home, wish, action, left)
            if reply is not None and reply.ok:
                self._note(home, wish, action)
                return
            if reply is not None and reply.reason not in RETRYABLE:
                raise Refused(reply.reason, reply.message)
            self._stopping.wait(min(_RETRY_PAUSE, left))
        raise Refused("timeout", f"agent `{home.agent}` did not answer in time")

    def _note(self, home: HomeAgent, wish: Wish, action: str) -> None:
        place = (wish.identifier, home.agent)
        if action == "subscribe":
            self._confirmed.add(place)
        else:
            self._confirmed.discard(place)

    def _ask_once(self, home: HomeAgent, wish: Wish, action: str, left: float) -> Reply | None:
        profile, request = self._session.profile, fresh_identifier()
        sealed = seal_wish(
            wish, action, home,
            domain=profile.domain, client=profile.handle, request=request,
            issued=self._session.now(), signing_key=profile.keys.signing,
        )  # fmt: skip
        self._session.expect((request, 0))
        try:
            self._session.send(home.overlay, home.agent, "subscribe", sealed, left)
            return self._session.wait_reply((request, 0), left)
        except TransportError:
            return None
        finally:
            self._session.forget((request, 0))

    # a home agent may change: tell the new one everything

    def start(self) -> None:
        """Begin to renew subscriptions in the background."""
        self._thread.start()
        self.renew()

    def renew(self) -> None:
        """Look soon whether every home agent knows every subscription."""
        self._changed.set()

    def stop(self) -> None:
        """Stop the background thread."""
        self._stopping.set()
        self._changed.set()
        self._thread.join(_RENEW_SECONDS)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._changed.wait(_RENEW_SECONDS)
            self._changed.clear()
            try:
                self._renew_all()
            except (Refused, RejectedError, InputError) as error:
                log(_LOGGER, logging.WARNING, "subscription not renewed", reason=str(error))

    def _renew_all(self) -> None:
        policy = self._session.policy.current
        if policy is None or self._stopping.is_set():
            return
        for home in policy.homes.values():
            self._session.transport(home.overlay)
            for wish in self.all:
                if (wish.identifier, home.agent) not in self._confirmed:
                    self._renew_one(home, wish)

    def _renew_one(self, home: HomeAgent, wish: Wish) -> None:
        self._ask(home, wish, "subscribe", time.monotonic() + _RENEW_SECONDS)
        if wish.identifier not in self._kept:
            # It was ended while we asked: the last word counts.
            self._ask(home, wish, "unsubscribe", time.monotonic() + _RENEW_SECONDS)


def _load(path: Path) -> dict[str, Wish]:
    if not path.exists():
        return {}
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        return {entry["identifier"]: Wish(**entry) for entry in document}
    except (ValueError, TypeError, KeyError):
        raise ProfileError(f"{path} is damaged; remove it and subscribe anew") from None
