"""Stand-ins hold no shares, and keys may be on their way: clients wait and lose nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokers.client.dispatch import Dispatch, Outcome, Shipment, plan_parcel
from brokers.client.homes import HomeWatch, lasting
from policyengine.bundles import HomeAgent, Reply
from tests.support.blind import READING, clinic
from tests.support.pure_agents import client_policy

CLINIC = clinic()
ID = "7" * 32


def _reply(agent: str, reason: str = "") -> Reply:
    return Reply(
        request=ID, part=0, ok=not reason, reason=reason, message="", dropped=(), agent=agent
    )


class _Publishing:
    """A publication whose home alpha has fallen silent, so that beta was asked too."""

    def __init__(self) -> None:
        policy = client_policy(CLINIC, "p-device")
        beta = CLINIC.agents["beta"].keys
        second = HomeAgent("beta", "a", beta.sealing.public, beta.signing.public)
        self.policy = replace(policy, fallbacks={"a": second})
        self.watch = HomeWatch(5.0)
        self.dispatch = Dispatch(lambda _domain: self.policy, self.watch, lambda _overlay: True)
        self.dispatch.add(plan_parcel(self.policy, ID, "Reading", READING))
        assert self.send(0.0) == "alpha"
        assert self.send(6.0) == "beta"

    def send(self, now: float) -> str:
        """Send what is due; to whom."""
        (shipment,) = self.step(now)[0]
        self.dispatch.sent(shipment, now)
        return shipment.agent.agent

    def step(self, now: float) -> tuple[list[Shipment], list[Outcome]]:
        """What is due and decided."""
        return self.dispatch.step(now)


def test_a_stand_in_without_a_share_does_not_decide_about_a_publication() -> None:
    publishing = _Publishing()
    assert publishing.dispatch.answered(_reply("beta", "no-share"))
    assert publishing.step(7.0) == ([], [])
    publishing.watch.heard("alpha", 8.0)
    assert publishing.dispatch.answered(_reply("alpha"))
    ((outcome,),) = (publishing.step(8.0)[1],)
    assert outcome.published is not None
    assert outcome.published.id == ID


@pytest.mark.parametrize(
    ("agent", "reason"), [("alpha", "no-share"), ("beta", "not-authorised"), ("beta", "malformed")]
)
def test_other_refusals_decide(agent: str, reason: str) -> None:
    publishing = _Publishing()
    publishing.dispatch.answered(_reply(agent, reason))
    (outcome,) = publishing.step(7.0)[1]
    assert getattr(outcome.error, "reason", "") == reason


def test_what_passes_by_itself_is_no_answer() -> None:
    assert lasting("no-share", at_home=True)
    assert not lasting("no-share", at_home=False)
    assert lasting("not-authorised", at_home=False)
    assert not lasting("epoch-unknown", at_home=True)
