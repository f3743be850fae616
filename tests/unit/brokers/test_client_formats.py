"""How a client says that it reads deliveries in sessions, to agents of two releases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from brokers.client.errors import ProfileError
from brokers.client.formats import READS, TRY_AGAIN_SECONDS, AgentFormats, PlaceFile
from brokers.client.homes import HomeWatch
from brokers.client.policy import ClientPolicy
from brokers.client.wish import Wish
from brokers.client.wishes import Wishes
from policyengine.bundles import HomeAgent, Reply, SubscribeRequest, open_subscribe
from tests.support.data_plane import airport, wait_until
from tests.support.pure_agents import client_policy

ORGANISATION = airport()
HANDLE = "p-ua"
AT = ("flights", "alpha")
OTHER = ("flights", "gamma")


class Clock:
    """Both clocks, moved by the test."""

    now = 1000.0

    def boot(self) -> float:
        return self.now


@dataclass
class Policies:
    """What is in force: one domain."""

    domains: dict[str, ClientPolicy]

    def of(self, domain: str) -> ClientPolicy | None:
        return self.domains.get(domain)


@dataclass
class Profile:
    """Whose subscriptions they are."""

    state: Path
    handle: str = HANDLE
    domain: str = "flights"
    keys: Any = field(default_factory=lambda: ORGANISATION.clients[HANDLE].keys)


class Session:
    """A client's session whose agents answer at once, or say nothing to what they do not know.

    Args:
        state: the client's folder.
        earlier: agents of the release before, which do not read requests that say more.
    """

    def __init__(self, state: Path, earlier: set[str]) -> None:
        self.profile, self.clock = Profile(state), Clock()
        self.policy = Policies({"flights": client_policy(ORGANISATION, HANDLE)})
        self.watch = HomeWatch(patience=0.2)
        self.earlier = earlier
        self.asked: list[tuple[str, SubscribeRequest]] = []
        self._answers: dict[tuple[str, int], str] = {}

    def wait_ready(self, timeout: float, domain: str) -> ClientPolicy:
        return self.policy.domains[domain]

    def now(self) -> float:
        return 1_000_000.0

    def connected_to(self, overlay: str) -> bool:
        return True

    def expect(self, place: tuple[str, int]) -> None:
        """Replies are never late here."""

    def forget(self, place: tuple[str, int]) -> None:
        self._answers.pop(place, None)

    def send(
        self, agent: HomeAgent, kind: str, sealed: bytes, timeout: float, *, domain: str
    ) -> None:
        key = ORGANISATION.agents[agent.agent].keys.sealing
        request = open_subscribe(sealed, key=key, agent=agent.agent).request
        self.asked.append((agent.agent, request))
        if not (request.reads and agent.agent in self.earlier):
            self._answers[request.request, 0] = agent.agent

    def wait_reply(self, place: tuple[str, int], timeout: float) -> Reply | None:
        agent = self._answers.get(place)
        if agent is None:
            return None
        self.watch.heard(agent, self.clock.boot())
        return Reply(
            request=place[0], part=0, ok=True, reason="", message="", dropped=(), agent=agent
        )

    def reads(self, agent: str) -> list[tuple[str, ...]]:
        """What an agent was told, request by request."""
        return [request.reads for name, request in self.asked if name == agent]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path


def begun(state: Path, *earlier: str) -> tuple[Session, Wishes]:
    session = Session(state, set(earlier))
    wishes = Wishes(session)  # type: ignore[arg-type]
    wishes.start()
    return session, wishes


def test_every_wish_is_told_anew_once_its_agent_understood(state: Path) -> None:
    session, wishes = begun(state)
    try:
        for text in ("", "delay > 5"):
            wishes.add(Wish.of("Flight", text), 30.0)
        wait_until(lambda: _last_words(session, "alpha") == {READS}, "alpha to be told")
        assert session.reads("alpha")[0] == ()  # first in the form that everybody reads
        wait_until(lambda: _last_words(session, "gamma") == {READS}, "gamma to be told")
    finally:
        wishes.stop()
    # and from then on at once, after a restart too
    again, wishes = begun(state)
    try:
        wait_until(lambda: len(again.asked) >= 4, "both to be asked for both")
        wishes.add(Wish.of("Departure", ""), 30.0)
        assert set(again.reads("alpha")) == {READS}
        wishes.remove(Wish.of("Departure", "").identifier, 30.0)
        # Whoever renews it at this moment says at once that it is over.
        wait_until(lambda: again.reads("alpha")[-1] == (), "the last word")
    finally:
        wishes.stop()


def _last_words(session: Session, agent: str) -> set[tuple[str, ...]]:
    last = {one.subscription: one.reads for name, one in session.asked if name == agent}
    return set(last.values()) if len(last) == 2 else set()


def test_an_agent_of_an_earlier_release_serves_as_before(state: Path) -> None:
    session, wishes = begun(state, "alpha")
    try:
        wishes.add(Wish.of("Flight", ""), 30.0)
        wait_until(lambda: READS in session.reads("alpha"), "alpha to be tried")
        wait_until(lambda: READS in session.reads("gamma"), "gamma to be tried")
        wishes.add(Wish.of("Flight", "delay > 5"), 30.0)
        assert session.reads("alpha").count(READS) == 1  # tried once, and not for an hour
        # It owes no answer to what it does not know; to what it knows the answer comes.
        wait_until(
            lambda: not session.watch.silent("alpha", session.clock.boot() + 60), "its answer"
        )
        session.clock.now += TRY_AGAIN_SECONDS
        session.earlier.clear()
        wishes.renew()
        wait_until(lambda: _last_words(session, "alpha") == {READS}, "alpha to be told")
    finally:
        wishes.stop()


def test_an_agent_that_went_back_to_an_earlier_release_is_asked_as_before(state: Path) -> None:
    AgentFormats(state / "formats.json").understood(AT)
    session, wishes = begun(state, "alpha")
    try:
        wishes.add(Wish.of("Flight", ""), 30.0)
        assert session.reads("alpha")[0] == READS
        assert () in session.reads("alpha")
        assert AT not in PlaceFile(state / "formats.json").places
    finally:
        wishes.stop()


def test_what_agents_understand_is_remembered_and_tried_once_an_hour(state: Path) -> None:
    path = state / "formats.json"
    formats = AgentFormats(path)
    assert formats.told(AT) == ()
    assert formats.try_now(AT, 10.0)
    assert not formats.try_now(AT, 10.0 + TRY_AGAIN_SECONDS - 1)
    assert formats.try_now(OTHER, 11.0)
    assert formats.try_now(AT, 10.0 + TRY_AGAIN_SECONDS)
    formats.understood(AT)
    assert (AgentFormats(path).told(AT), AgentFormats(path).told(OTHER)) == (READS, ())
    assert not formats.try_now(AT, 1e9)
    formats.unanswered(AT)
    assert AgentFormats(path).told(AT) == ()
    assert formats.try_now(AT, 1e9)
    for damaged in ("{", "[1]", "3"):
        path.write_text(damaged)
        with pytest.raises(ProfileError, match="damaged"):
            AgentFormats(path)


def test_what_two_threads_hear_at_once_is_kept_of_both(state: Path) -> None:
    path = state / "places.json"
    kept = PlaceFile(path)
    places = [("flights", f"agent-{number}") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(kept.put, places))
        assert kept.places == PlaceFile(path).places == frozenset(places)
        list(pool.map(kept.drop, places))
    assert kept.places == PlaceFile(path).places == frozenset()
