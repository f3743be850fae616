"""A subscriber's inbox: nothing acknowledged before it is handled, nothing handed out twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters.seen import SeenLog
from brokers.client.homes import HomeWatch
from brokers.client.inbox import WINDOW_SECONDS, Inbox
from brokers.client.policy import FORMER_HOME_SECONDS, PolicyHolder
from brokers.ports import Message
from policyengine.bundles import Delivery, begin_session, seal_delivery, seal_in_session
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import SigningKey
from tests.support.data_plane import Organisation, airport
from tests.support.pure_agents import client_policy

ORGANISATION = airport()


@dataclass
class Clock:
    time: float = 1000.0

    def wall(self) -> float:
        return self.time

    def boot(self) -> float:
        return self.time


@dataclass
class FakeProfile:
    """What an inbox asks of a profile."""

    state: Path
    handle: str = "p-ua"
    domain: str = "flights"
    keys: Any = field(default_factory=lambda: ORGANISATION.clients["p-ua"].keys)


@dataclass
class FakeSession:
    """What an inbox asks of a session; no broker behind it."""

    profile: FakeProfile
    clock: Clock = field(default_factory=Clock)
    connected: bool = True

    def __post_init__(self) -> None:
        self.policy = PolicyHolder(lambda: None, self.clock)
        self.watch = HomeWatch()

    def give(self, organisation: Organisation = ORGANISATION) -> None:
        """A new policy comes into force."""
        self.policy.commit("flights", client_policy(organisation, "p-ua"))


def window(session: FakeSession) -> SeenLog:
    """The window against doubles on the session's disk."""
    return SeenLog(session.profile.state / "seen.sqlite", seconds=WINDOW_SECONDS)


@pytest.fixture
def session(tmp_path: Path) -> FakeSession:
    made = FakeSession(FakeProfile(tmp_path))
    made.give()
    return made


@pytest.fixture
def inbox(session: FakeSession) -> Iterator[Inbox]:
    with closing(window(session)) as seen:
        yield Inbox(session, lambda event: event.type != "Unwanted", seen)


class Post:
    """Sends deliveries to an inbox and notes what is acknowledged."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.acknowledged: list[int] = []
        self.sent = 0

    def send(
        self,
        publication: int = 1,
        *,
        part: int = 0,
        parts: int = 1,
        agent: str = "alpha",
        signer: SigningKey | None = None,
        **changes: Any,
    ) -> int:
        """One delivery; returns its number."""
        number = self.sent
        self.sent += 1
        made: dict[str, Any] = {
            "domain": "flights",
            "publication": f"{publication:032x}",
            "type": "Flight",
            "publisher": "p-airport",
            "part": part,
            "parts": parts,
            "agent": agent,
            "revision": 1,
            "epoch": 1,
            "attributes": {f"a{part}": part},
            "withheld": {},
        }
        keys = ORGANISATION.agents[agent].keys
        sealed = seal_delivery(
            Delivery(**{**made, **changes}),
            signing_key=signer or keys.signing,
            recipient=ORGANISATION.clients["p-ua"].keys.sealing.public,
            handle="p-ua",
        )
        ack: Callable[[], None] = lambda: self.acknowledged.append(number)  # noqa: E731
        self._inbox.take(Message("q", b"", {}, ack), sealed)
        return number


def test_acknowledged_only_when_handled(inbox: Inbox) -> None:
    post = Post(inbox)
    post.send(1)
    whole = inbox.next(0)
    assert whole is not None
    assert post.acknowledged == []
    post.send(1)  # comes again after a reconnect: belongs to the same event
    assert inbox.next(0) is None
    assert post.acknowledged == []
    inbox.handled(whole)
    assert post.acknowledged == [0, 1]
    post.send(1)
    assert (post.acknowledged, inbox.doubles) == ([0, 1, 2], 1)


def test_what_was_handled_stays_handled_over_a_restart(inbox: Inbox, session: FakeSession) -> None:
    Post(inbox).send(1)
    whole = inbox.next(0)
    assert whole is not None
    inbox.handled(whole)
    seen = window(session)
    again = Inbox(session, lambda _: True, seen)
    post = Post(again)
    post.send(1)
    post.send(2)
    found = again.next(0)
    assert found is not None
    assert found.event.publication == f"{2:032x}"
    assert post.acknowledged == [0]
    seen.close()


def test_what_nobody_wants_is_done_with(inbox: Inbox) -> None:
    post = Post(inbox)
    post.send(1, type="Unwanted")
    assert inbox.next(0) is None
    assert post.acknowledged == [0]


def test_forgeries_are_put_away(inbox: Inbox) -> None:
    post = Post(inbox)
    post.send(1, signer=ORGANISATION.agents["beta"].keys.signing)
    post.send(2, domain="heating")
    inbox.take(Message("q", b"", {}, lambda: post.acknowledged.append(9)), b"rubbish")
    assert post.acknowledged == [0, 1, 9]
    assert inbox.next(0) is None


def test_a_delivery_that_is_faster_than_our_bundle_waits(
    inbox: Inbox, session: FakeSession
) -> None:
    post = Post(inbox)
    post.send(1, agent="beta")
    assert inbox.next(0) is None
    assert post.acknowledged == []
    moved = airport()
    moved.agents, moved.authority = ORGANISATION.agents, ORGANISATION.authority
    moved.clients = {**ORGANISATION.clients}
    moved.clients["p-ua"].homes = {"a": "beta", "b": "gamma"}
    session.give(moved)
    try:
        inbox.retry()
        assert inbox.next(0) is not None
        # The former home's last deliveries count for a while, then no more.
        post.send(2, agent="alpha")
        assert inbox.next(0) is not None
        session.clock.time += FORMER_HOME_SECONDS + 1
        with pytest.raises(KeyError):
            session.policy.verify_key("alpha")
    finally:
        moved.clients["p-ua"].homes = {"a": "alpha", "b": "gamma"}


def test_parts_wait_for_one_another_and_are_given_up_in_the_end(
    inbox: Inbox, session: FakeSession
) -> None:
    post = Post(inbox)
    post.send(1, part=0, parts=2)
    assert inbox.incomplete == 1
    session.clock.time += 31
    session.connected = False
    assert inbox.next(0) is None
    assert inbox.incomplete == 1  # a broker is away: its part may still come
    session.connected = True
    session.clock.time += 29
    assert inbox.next(0) is None
    assert inbox.incomplete == 1  # it is back: only now publishers can send the part
    session.clock.time += 2
    assert inbox.next(0) is None
    assert (inbox.incomplete, inbox.given_up, post.acknowledged) == (0, 1, [0])
    post.send(2, part=1, parts=2, agent="gamma")
    post.send(2, part=0, parts=2)
    whole = inbox.next(0)
    assert whole is not None
    assert whole.event.attributes == {"a0": 0, "a1": 1}
    inbox.handled(whole)
    assert post.acknowledged == [0, 1, 2]


def test_wake_ends_every_wait(inbox: Inbox) -> None:
    inbox.wake()
    assert inbox.next(None) is None


def test_deliveries_in_a_session_and_of_an_earlier_release_are_read_alike(
    inbox: Inbox, session: FakeSession
) -> None:
    post = Post(inbox)
    post.send(1)
    agent, client = ORGANISATION.agents["alpha"].keys, ORGANISATION.clients["p-ua"].keys
    held = begin_session(
        "flights", 1, agent="alpha", signing_key=agent.signing,
        recipient=client.sealing.public, handle="p-ua", random=SYSTEM_RANDOM,
    )  # fmt: skip
    for publication in (2, 3):
        delivery = Delivery(
            domain="flights", publication=f"{publication:032x}", type="Flight",
            publisher="p-airport", part=0, parts=1, agent="alpha", revision=1, epoch=1,
            attributes={"a0": 0}, withheld={},
        )  # fmt: skip
        sealed = seal_in_session(delivery, held, random=SYSTEM_RANDOM)
        inbox.take(Message("q", b"", {}, lambda: None), sealed)
        spoiled = sealed[:-1] + bytes([sealed[-1] ^ 1])
        inbox.take(Message("q", b"", {}, lambda: post.acknowledged.append(9)), spoiled)
    found = [inbox.next(0) for _ in range(4)]
    assert [one and one.event.publication for one in found] == [
        *(f"{number:032x}" for number in (1, 2, 3)),
        None,
    ]
    assert post.acknowledged == [9, 9]


def test_a_session_of_an_agent_that_is_not_known_yet_waits_for_the_policy(
    tmp_path: Path,
) -> None:
    session = FakeSession(FakeProfile(tmp_path))
    with closing(window(session)) as seen:
        inbox = Inbox(session, lambda _: True, seen)
        agent, client = ORGANISATION.agents["alpha"].keys, ORGANISATION.clients["p-ua"].keys
        held = begin_session(
            "flights", 1, agent="alpha", signing_key=agent.signing,
            recipient=client.sealing.public, handle="p-ua", random=SYSTEM_RANDOM,
        )  # fmt: skip
        delivery = Delivery(
            domain="flights", publication="0" * 32, type="Flight", publisher="p-airport",
            part=0, parts=1, agent="alpha", revision=1, epoch=1, attributes={}, withheld={},
        )  # fmt: skip
        sealed = seal_in_session(delivery, held, random=SYSTEM_RANDOM)
        inbox.take(Message("q", b"", {}, lambda: None), sealed)
        assert inbox.next(0) is None
        session.give()
        assert inbox.next(0) is not None
