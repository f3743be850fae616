"""What a client confirms, when, and what it says when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from brokers.client.confirm import LONGEST_WAIT, Confirmations
from brokers.data.handle import event_key
from brokers.ports import Message, Outgoing, TransportError
from policyengine.bundles import (
    Confirmation,
    Delivery,
    HomeAgent,
    Reply,
    decode_framed,
    open_confirmation,
)
from tests.support.data_plane import fresh_keys, wait_until
from tests.support.overlay import Clock

AGENT, CLIENT = fresh_keys(), fresh_keys()
HOME = HomeAgent("alpha", "a", AGENT.sealing.public, AGENT.signing.public)


class Session:
    """As much of a session as confirming needs."""

    def __init__(self) -> None:
        policy = SimpleNamespace(domain="flights", homes={"a": HOME}, fallbacks={})
        self.policy = SimpleNamespace(domains={"flights": policy})
        self.profile = SimpleNamespace(handle="p-ua", keys=CLIENT)
        self.clock = Clock()
        self.said: list[Confirmation] = []
        self.up = True
        self.rounds = self.refused = 0

    def now(self) -> float:
        return 1_000_000.0

    def connected_to(self, overlay: str) -> bool:
        self.rounds += 1
        return overlay == "a"

    def after_a_round(self) -> None:
        """Return once somebody has looked, from beginning to end, what is to be said now."""
        through = self.rounds + 3
        wait_until(lambda: self.rounds >= through, "a whole round and the next to begin")

    def send_many(self, overlay: str, messages: list[Outgoing], timeout: float) -> None:
        if not self.up:
            self.refused += 1
            raise TransportError("away")
        for message in messages:
            assert message.queue == "pc.in.alpha.flights"
            kind, payload = decode_framed(message.body)
            signed = open_confirmation(payload, key=AGENT.sealing, agent="alpha")
            signed.verify(CLIENT.signing.public)
            assert kind == "confirm"
            self.said.append(signed.confirmation)


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def confirmations(session: Session) -> Iterator[Confirmations]:
    made: Any = Confirmations(session)  # type: ignore[arg-type]
    made.start()
    wait_until(lambda: len(session.said) == 1, "the greeting")
    assert session.said.pop() == Confirmation("flights", "p-ua", 1_000_000)
    yield made
    made.stop()


def _carried(confirmations: Confirmations, number: int) -> tuple[bytes, Callable[[], None]]:
    name = f"{number:032x}"
    delivery = Delivery(
        domain="flights", publication=name, type="Flight", publisher="p-airport", part=0,
        parts=1, agent="alpha", revision=1, epoch=1, attributes={}, withheld={},
    )  # fmt: skip
    message = Message("q", b"", {}, lambda: None)
    return event_key("p-airport", name, 0), confirmations.carried(delivery, message).ack


def _ask(confirmations: Confirmations, question: str, window: int = 8) -> None:
    confirmations.replied(Reply(question, 0, True, "confirm", str(window), ("flights",), "alpha"))


def test_an_agent_that_never_asks_is_told_nothing_more(
    session: Session, confirmations: Confirmations
) -> None:
    for number in range(100):
        _carried(confirmations, number)[1]()
    session.clock.time += 2 * LONGEST_WAIT
    session.after_a_round()
    assert session.said == []


def test_it_confirms_a_quarter_of_the_window_or_after_a_second(
    session: Session, confirmations: Confirmations
) -> None:
    _ask(confirmations, "a" * 32)
    wait_until(lambda: len(session.said) == 1, "the answer")
    assert (session.said[0].answers, session.said[0].held) == ("a" * 32, ())
    carried = [_carried(confirmations, number) for number in range(3)]
    for _, ack in carried[:2]:
        ack()
    # By the clock no time has passed: it is so many that count.
    wait_until(lambda: len(session.said) == 2, "a quarter to be confirmed")
    assert session.said[1].done == tuple(key for key, _ in carried[:2])
    carried[2][1]()
    session.after_a_round()
    assert len(session.said) == 2
    session.clock.time += LONGEST_WAIT
    wait_until(lambda: len(session.said) == 3, "the rest to be confirmed")
    assert session.said[2].done == (carried[2][0],)


def test_asked_it_says_what_it_holds_and_forgets_what_it_owed(
    session: Session, confirmations: Confirmations
) -> None:
    carried = [_carried(confirmations, number) for number in range(4)]
    carried[1][1]()
    session.up = False
    _ask(confirmations, "a" * 32)
    carried[2][1]()
    refused = session.refused
    wait_until(lambda: session.refused > refused, "an attempt to say it")
    session.up = True  # what could not be sent is said once it can
    wait_until(lambda: len(session.said) >= 1, "the answer")
    said = session.said[0]
    assert said.answers == "a" * 32
    assert set(said.held) == {carried[number][0] for number in (0, 2, 3)}
    session.clock.time += LONGEST_WAIT
    wait_until(lambda: carried[2][0] in [k for one in session.said for k in one.done], "the rest")
    assert carried[1][0] not in [key for one in session.said for key in one.done]


def test_what_is_left_is_confirmed_at_the_end(session: Session) -> None:
    made: Any = Confirmations(session)  # type: ignore[arg-type]
    made.start()
    _ask(made, "a" * 32, window=200)
    key, ack = _carried(made, 1)
    ack()
    made.stop()
    assert key in [one for said in session.said for one in said.done]
