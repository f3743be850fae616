"""Publications under way: who is asked, what is sent again, when somebody else is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from brokers.client.dispatch import (
    AGAIN_SECONDS,
    PAUSE_BEFORE_RETRY,
    Dispatch,
    Outcome,
    Shipment,
    plan_parcel,
)
from brokers.client.errors import BadRequest, NotAuthorised, Refused, TooOften, refusal
from brokers.client.homes import HomeWatch
from brokers.client.policy import ClientPolicy
from brokers.data.reasons import EPOCH_RETIRED
from policyengine.bundles import Reply
from tests.support.data_plane import airport
from tests.support.pure_agents import client_policy

FLIGHT: dict[str, Any] = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}
SPLIT = [
    {"overlay": "a", "attributes": ["carrier", "delay"]},
    {"overlay": "b", "attributes": ["origin", "tail"]},
]
NAME = "0" * 32


def second_home(*, split: bool = False) -> ClientPolicy:
    """The airport's: alpha with beta behind it on overlay a, gamma alone on b."""
    organisation = airport(splits={"Flight": SPLIT} if split else None)
    organisation.clients["p-airport"].fallbacks = {"a": "beta"}
    return client_policy(organisation, "p-airport")


@dataclass
class Scene:
    """A dispatch, and a clock that the test moves."""

    policy: ClientPolicy | None = field(default_factory=second_home)
    patience: float = 10.0
    now: float = 1000.0
    away: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.watch = HomeWatch(self.patience)
        self.dispatch = Dispatch(
            lambda _domain: self.policy, self.watch, lambda overlay: overlay not in self.away
        )

    def give(self, values: dict[str, Any] = FLIGHT, *, patient: bool = False) -> None:
        assert self.policy is not None
        parcel = plan_parcel(self.policy, NAME, "Flight", values)
        self.dispatch.add(parcel, patient=patient)

    def step(self, later: float = 0.0) -> list[str]:
        """Send what is due; returns agents and parts."""
        self.now += later
        self.dispatch.wait_for(self.now)
        shipments, outcomes = self.dispatch.step(self.now)
        assert not outcomes
        return self._sent(shipments)

    def _sent(self, shipments: list[Shipment]) -> list[str]:
        for shipment in shipments:
            self.dispatch.sent(shipment, self.now)
        return [f"{one.agent.agent}/{one.part.part}" for one in shipments]

    def reply(
        self, agent: str, reason: str = "", part: int = 0, dropped: tuple[str, ...] = ()
    ) -> None:
        self.watch.heard(agent, self.now)
        made = Reply(
            agent=agent, request=NAME, part=part, ok=not reason, reason=reason,
            message="why" if reason else "", dropped=dropped,
        )  # fmt: skip
        assert self.dispatch.answered(made)

    def used_up(self) -> None:
        """Alpha says that there is room again in a minute."""
        self.watch.heard("alpha", self.now)
        made = Reply(
            agent="alpha", request=NAME, part=0, ok=False, reason="too-often",
            message="later", dropped=(), again=1_000_060,
        )  # fmt: skip
        assert self.dispatch.answered(made, again=self.now + 60)

    def outcome(self) -> Outcome:
        shipments, (outcome,) = self.dispatch.step(self.now)
        assert not shipments
        assert len(self.dispatch) == 0
        return outcome


def test_a_part_is_sent_once_and_its_answer_decides() -> None:
    scene = Scene()
    scene.give()
    assert scene.step() == ["alpha/0"]
    assert scene.step(5.0) == []
    scene.reply("alpha", dropped=("tail",))
    done = scene.outcome()
    assert done.published is not None
    assert (done.published.id, done.published.dropped) == (NAME, ("tail",))


def test_every_part_must_be_accepted() -> None:
    scene = Scene(second_home(split=True))
    scene.give()
    assert scene.step() == ["alpha/0", "gamma/1"]
    scene.reply("gamma", part=1)
    assert scene.step(1.0) == []
    scene.reply("alpha", part=0, dropped=("delay",))
    done = scene.outcome().published
    assert done is not None
    assert done.dropped == ("delay",)


def test_a_silent_home_is_left_and_its_first_word_brings_everybody_back() -> None:
    scene = Scene()
    scene.give()
    assert scene.step() == ["alpha/0"]
    assert scene.step(9.9) == []
    assert scene.step(0.2) == ["beta/0"]
    assert scene.step(5.0) == []
    scene.reply("beta")
    assert scene.outcome().published is not None
    scene.give()
    assert scene.step(60.0) == ["beta/0"]  # it stays silent until it is heard
    scene.watch.heard("alpha", scene.now)
    scene.give()
    assert scene.step() == ["alpha/0"]


def test_silence_does_not_count_while_the_broker_is_away_and_a_silent_second_is_no_use() -> None:
    scene = Scene()
    scene.give()
    assert scene.step() == ["alpha/0"]
    scene.away.add("a")
    assert scene.step(30.0) == []
    scene.away.clear()
    assert scene.step(5.0) == []
    assert scene.step(6.0) == []  # counted from the broker's return
    assert scene.step(5.0) == ["beta/0"]
    scene.watch.asked("beta", scene.now)
    assert scene.step(12.0) == []  # both are silent: the home has it already


def test_a_part_without_any_answer_is_sent_again_ever_more_rarely() -> None:
    scene = Scene(replace(second_home(), fallbacks={}))
    scene.give()
    assert scene.step() == ["alpha/0"]
    assert scene.step(AGAIN_SECONDS - 1) == []
    assert scene.step(1.0) == ["alpha/0"]
    assert scene.step(2 * AGAIN_SECONDS - 1) == []
    assert scene.step(1.0) == ["alpha/0"]


def test_a_refusal_that_may_pass_is_answered_under_a_new_policy_or_after_a_pause() -> None:
    scene = Scene()
    scene.give()
    scene.step()
    scene.reply("alpha", EPOCH_RETIRED)
    assert scene.step() == []
    assert scene.step(PAUSE_BEFORE_RETRY) == ["alpha/0"]
    scene.reply("alpha", EPOCH_RETIRED)
    assert scene.step() == []
    assert scene.policy is not None
    scene.policy = replace(scene.policy, digest="f" * 64)
    assert scene.step() == ["alpha/0"]
    scene.reply("alpha")
    assert scene.outcome().published is not None


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("not-authorised", NotAuthorised), ("unknown-type", BadRequest), ("something-new", Refused)],
)
def test_a_refusal_for_good_ends_it(reason: str, kind: type[Refused]) -> None:
    scene = Scene(second_home(split=True))
    scene.give()
    scene.step()
    scene.reply("alpha")
    scene.reply("gamma", reason, part=1)
    error = scene.outcome().error
    assert type(error) is kind
    assert isinstance(error, Refused)
    assert (error.reason, error.message) == (reason, "why")
    assert type(refusal(reason, "why")) is kind


def test_published_too_often_is_an_exception_that_says_when() -> None:
    scene = Scene()
    scene.give()
    scene.step()
    scene.used_up()
    error = scene.outcome().error
    assert isinstance(error, TooOften)
    assert (error.reason, error.message, error.again) == ("too-often", "later", 1_000_060)


def test_what_is_kept_on_disk_waits_for_its_turn() -> None:
    scene = Scene()
    scene.give(patient=True)
    assert scene.step() == ["alpha/0"]
    scene.used_up()
    assert scene.step(59.0) == []
    assert scene.step(1.0) == ["alpha/0"]
    scene.used_up()
    assert scene.step() == []
    assert scene.policy is not None
    scene.policy = replace(scene.policy, digest="f" * 64)  # it may say another limit
    assert scene.step() == ["alpha/0"]
    scene.reply("alpha")
    assert scene.outcome().published is not None


def test_who_accepted_it_is_not_contradicted_by_whoever_came_later() -> None:
    scene = Scene(second_home(split=True))
    scene.give()
    scene.step()
    scene.reply("alpha")
    scene.reply("beta", "not-authorised")
    scene.reply("gamma", part=1)
    assert scene.outcome().published is not None


def test_answers_to_others_are_not_ours() -> None:
    scene = Scene()
    scene.give()
    reply = Reply("1" * 32, 0, True, "", "", (), "alpha")
    assert not scene.dispatch.answered(reply)
    assert not scene.dispatch.answered(replace(reply, request=NAME, part=7))


@pytest.mark.parametrize(
    "broken",
    [
        lambda policy: None,
        lambda policy: replace(policy, homes={}),
        lambda policy: replace(policy, tag_keys={}),
    ],
)
def test_what_cannot_be_sent_now_waits(
    broken: Callable[[ClientPolicy], ClientPolicy | None],
) -> None:
    scene = Scene()
    scene.give()
    whole = scene.policy
    assert whole is not None
    scene.policy = broken(whole)
    assert scene.step() == []
    assert scene.dispatch.unsent(NAME)
    scene.policy = whole
    assert scene.step() == ["alpha/0"]
    assert not scene.dispatch.unsent(NAME)


def test_a_broker_that_did_not_take_it_is_tried_a_little_later() -> None:
    scene = Scene()
    scene.give()
    ((shipment,), _) = scene.dispatch.step(scene.now)
    scene.dispatch.unsendable(shipment, scene.now)
    assert scene.step() == []
    assert scene.step(PAUSE_BEFORE_RETRY) == ["alpha/0"]
    scene.dispatch.forget(NAME)
    assert NAME not in scene.dispatch
    scene.dispatch.sent(shipment, scene.now)  # too late to matter
