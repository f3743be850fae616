"""What one looks at while something goes on: how far it is, who does not answer, what waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adminapp.catalog.models import AttributeKey
from adminapp.distribution.models import (
    DecisionSegment,
    EncodingEpoch,
    Notice,
    PolicyRollout,
    Recipient,
    Revocation,
    RevocationCheck,
    RevocationEvent,
    RevokedRight,
    Rollout,
    RolloutMember,
)
from adminapp.distribution.roots import shown as shown_root
from adminapp.distribution.serving import serving_agents
from adminapp.identity import services as identity
from tests.support.audiences import live_authority
from tests.support.control_plane import World, key

__all__ = ["live_authority"]

pytestmark = pytest.mark.django_db
Browsers = dict[str, Client]
PARTLY = {"HX-Request": "true"}


def holds(world: World, agent: str, revision: int, **more: Any) -> Recipient:
    now = timezone.now()
    row, _ = Recipient.objects.update_or_create(
        audience=f"agent:{agent}",
        domain=world.flights,
        defaults={
            "revision": revision,
            "last_seen": now,
            "leased_until": now + timedelta(hours=1),
            **more,
        },
    )
    return row


# -- rollouts ----------------------------------------------------------------------------------


@pytest.fixture
def rollout(world: World) -> PolicyRollout:
    holds(world, "alpha", 7, state="applied")
    holds(world, "gamma", 6, state="behind")
    return PolicyRollout.objects.create(
        domain=world.flights,
        revision=7,
        stage_revision=7,
        content={},
        stages=[
            {"agents": ["alpha"], "wait_seconds": 600},
            {"agents": ["gamma"], "wait_seconds": 0},
        ],
    )


def test_a_rollout_is_drawn_and_says_when_it_goes_on(
    world: World, browsers: Browsers, rollout: PolicyRollout
) -> None:
    page = browsers["auditor"].get("/d/flights/rollouts/").content.decode()
    assert '<progress max="2" value="1" aria-label="Agents that hold revision 7"' in page
    assert "now, 1 of 1 hold it" in page
    assert "later, 0 of 1 hold it" in page
    assert "before the next stage" in page
    rollout.stage_applied = timezone.now()
    rollout.save()
    page = browsers["auditor"].get("/d/flights/rollouts/").content.decode()
    assert "The next stage begins" in page
    assert "in 10 min" in page


def test_the_buttons_follow_what_happens_to_a_rollout(
    world: World, browsers: Browsers, rollout: PolicyRollout
) -> None:
    def buttons(standing: str) -> str:
        answer = browsers[standing].get("/d/flights/rollouts/?part=decide", headers=PARTLY)
        assert "<html" not in answer.content.decode()
        return answer.content.decode()

    assert "Go back to what was in force" in buttons("manager")
    assert "Go on without" not in buttons("manager")
    assert "The rollout of revision 7" not in browsers["manager"].get("/").content.decode()
    PolicyRollout.objects.update(state="stopped", reason="agent gamma refused it")
    assert "Go on without" in buttons("manager")
    assert "form" not in buttons("auditor")
    overview = browsers["manager"].get("/").content.decode()
    assert "The rollout of revision 7" in overview
    assert "agent gamma refused it" in overview
    PolicyRollout.objects.update(state="aborted")
    assert "form" not in buttons("manager")


# -- revocations -------------------------------------------------------------------------------


@pytest.fixture
def revocation(world: World) -> Revocation:
    """Alpha has signed that it stopped; gamma has not."""
    row = Revocation.objects.create(
        domain=world.flights, principal=world.united, reason="left", actor=world.manager
    )
    now = timezone.now()
    for number, (agent, at) in enumerate((("alpha", now), ("gamma", None)), start=1):
        Notice.objects.create(
            audience=f"agent:{agent}",
            domain=world.flights,
            number=number,
            revocation=row,
            state="applied" if at else "sent",
            acknowledged_at=at,
            deadline=now + timedelta(seconds=30),
        )
    return row


def test_a_running_revocation_says_who_does_not_answer_and_what_holds_all_the_same(
    world: World, browsers: Browsers, revocation: Revocation
) -> None:
    address = f"/d/flights/revocations/{revocation.uid}/"
    page = browsers["auditor"].get(address).content.decode()
    assert "1 of 2 agents confirmed" in page
    assert page.count('aria-current="step"') == 1
    assert "no answer" in page
    assert "its last lease ends" in page
    assert "at the latest, whatever the network does" in page
    # Later: gamma never answered, and what it was promised before has run out.
    Notice.objects.filter(audience="agent:gamma").update(
        deadline=timezone.now() - timedelta(seconds=5)
    )
    page = browsers["auditor"].get(address).content.decode()
    assert "it delivers nothing" in page
    assert "at the latest" not in page
    assert "1 of 2 agents confirmed" in page  # silence is no confirmation


def test_the_parts_of_a_revocation_are_counted_from_what_agents_signed(
    world: World, browsers: Browsers, revocation: Revocation
) -> None:
    now = timezone.now()
    rollout = Rollout.objects.create(domain=world.flights, cause="revocation", state="switching")
    rollout.epoch_to = EncodingEpoch.objects.create(
        domain=world.flights, number=9, cause="revocation", parameters={}
    )
    rollout.save()
    moments = {"staged_at": now, "switched_at": now}
    RolloutMember.objects.create(rollout=rollout, audience="agent:alpha", **moments)
    RolloutMember.objects.create(rollout=rollout, audience="agent:beta", staged_at=now)
    RolloutMember.objects.create(rollout=rollout, audience="agent:gamma", skipped_in="staging")
    Revocation.objects.update(rollout=rollout, state="switching")
    address = f"/d/flights/revocations/{revocation.uid}/"
    page = browsers["auditor"].get(address).content.decode()
    assert "2 of 2 hold them" in page
    assert "1 of 2 switched" in page
    assert "not reached while staging" in page
    # All is done at the agents, but nothing is signed yet: the receipt is what is waited for.
    Rollout.objects.update(state="complete")
    Revocation.objects.update(state="draining")
    page = browsers["auditor"].get(address).content.decode()
    now_at = page.index('aria-current="step"')
    assert "Receipt" in page[now_at : now_at + 400]


def test_what_is_only_taken_away_promises_no_switch(
    world: World, browsers: Browsers, revocation: Revocation
) -> None:
    rollout = Rollout.objects.create(domain=world.flights, cause="revocation", state="staging")
    RolloutMember.objects.create(rollout=rollout, audience="agent:alpha", staged_at=timezone.now())
    Revocation.objects.update(rollout=rollout, state="staging")
    RevocationEvent.objects.create(revocation=revocation, kind="recomputing")
    page = browsers["auditor"].get(f"/d/flights/revocations/{revocation.uid}/").content.decode()
    assert "1 of 1 hold them" in page
    assert "The encodings of those concerned are to be replaced" in page
    for word in ("All switch", "Switched", "New keys"):
        assert word not in page, word


def test_a_receipt_that_logs_speak_against_needs_somebody(
    world: World, browsers: Browsers, revocation: Revocation
) -> None:
    assert "Events passed after" not in browsers["manager"].get("/").content.decode()
    today = timezone.now().date()
    RevocationCheck.objects.create(
        revocation=revocation, domain=world.flights, day=today, decisions=9, after=2
    )
    assert "Events passed after United was revoked" in browsers["manager"].get("/").content.decode()
    assert "Events passed" not in browsers["stranger"].get("/").content.decode()


def _covered(world: World, revocation: Revocation, *agents: str) -> None:
    begin = int(revocation.created.timestamp() * 1000) - 1
    for agent in agents:
        DecisionSegment.objects.create(
            domain=world.flights, agent=agent, stream="s", sequence=1, begin=begin,
            end=begin + 10**6, records=0, state="counted",
        )  # fmt: skip


def test_a_receipt_is_held_against_logs_and_what_is_missing_is_said(
    world: World, browsers: Browsers, revocation: Revocation
) -> None:
    def panel() -> str:
        page = browsers["auditor"].get(f"/d/flights/revocations/{revocation.uid}/")
        return page.content.decode().split('id="check-title"')[1].split("</section>")[0]

    assert "before what a revocation takes away was kept" in panel()
    assert "cannot be told" in panel()
    right = RevokedRight.objects.create(
        revocation=revocation, domain=world.flights, names=["p-1"], state="unlogged",
        until=revocation.created + timedelta(seconds=30),
    )  # fmt: skip
    assert "nothing can be checked" in panel()
    right.state = "watched"
    right.save()
    assert "No decision since the revocation was counted yet" in panel()
    served = [agent.name for agent in serving_agents(world.flights)]
    _covered(world, revocation, "alpha")
    assert "cannot be told" in panel()
    assert "nothing is known of an agent" in panel()
    assert "nothing known</td><td>everything" in panel()
    _covered(world, revocation, *({"gamma", *served} - {"alpha"}))
    assert "they agree" in panel()
    assert "and nothing is missing" in panel()
    Recipient.objects.update_or_create(
        audience="agent:gamma", domain=world.flights, defaults={"state": "contradicts"}
    )
    assert "its own word is no evidence" in panel()
    RevocationCheck.objects.create(
        revocation=revocation, domain=world.flights, day=timezone.now().date(), decisions=9,
        after=2, early=3, contradicting=["gamma"],
    )  # fmt: skip
    assert "2 too many" in panel()
    assert "at gamma." in panel()
    assert "3 passed later by rights that were left" in panel()
    assert "they agree" not in panel()


# -- keys and the root ---------------------------------------------------------------------------


def test_the_page_of_keys_costs_the_same_for_many(world: World, browsers: Browsers) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert browsers["auditor"].get("/d/flights/keys/").status_code == 200
        return len(seen)

    cost()  # the first look notes in the session which domain it was
    few = cost()
    for number in range(20):
        more = AttributeKey.objects.create(domain=world.flights, name=f"k{number}")
        world.group.keys.add(more)
    assert cost() == few
    part = browsers["auditor"].get("/d/flights/keys/?part=coverage", headers=PARTLY)
    assert "Who holds which epoch" in part.content.decode()
    assert "Attribute keys" not in part.content.decode()


def test_the_root_says_who_vouches_for_what_and_who_follows(
    world: World, browsers: Browsers, live_authority: Path, settings: Any
) -> None:
    settings.AUTHORITY_SOCKET = live_authority
    root = shown_root()
    assert root is not None
    assert root.issued < datetime.now(UTC) < root.expires
    assert sum(each.signed for each in root.holders) >= root.threshold
    holds(world, "alpha", 1, root_version=root.version)
    holds(world, "gamma", 1, root_version=root.version, leased_until=timezone.now())
    page = browsers["stranger"].get("/root/").content.decode()
    assert root.fingerprint in page
    assert all(each.name in page for each in root.holders)
    assert all(name in page for _, name in root.online)
    assert "self-made: for development only" in page
    assert page.count("follows</span>") == 1
    assert page.count("no lease</span>") == 2  # gamma's has ended, beta never had one


def test_an_authority_that_does_not_answer_is_said(
    world: World, browsers: Browsers, tmp_path: Path, settings: Any
) -> None:
    settings.AUTHORITY_SOCKET = tmp_path / "nobody.sock"
    page = browsers["operator"].get("/root/")
    assert page.status_code == 200
    assert "does not answer" in page.content.decode()


def test_an_agent_that_serves_nobody_says_so_on_its_page(world: World, browsers: Browsers) -> None:
    identity.register_agent(
        actor=None, name="idle", overlay=world.alpha.overlay, sealing_key=key(7), verify_key=key(8)
    )
    page = browsers["operator"].get("/agents/idle/").content.decode()
    assert "It serves nobody yet" in page
    assert "No agent serves this yet" not in page
    assert "serving no domain" in browsers["operator"].get("/agents/").content.decode()
