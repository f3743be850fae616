"""Rollouts by stages and renewed keys, with agents' own code over a broker in memory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from adminapp.distribution import rolloutplans, services
from adminapp.distribution.models import PolicyRollout, Recipient, Rollout
from adminapp.identity.models import Domain
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from adminapp.trustgroups import emergency
from adminapp.trustgroups import services as trustgroups
from adminapp.trustgroups.models import KeyEpoch
from policyengine.bundles.hops import open_hop, seal_hop
from policyengine.errors import RejectedError
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.support import bundle_samples
from tests.support.audiences import Plane
from tests.support.real_agents import RealAgent, install
from tests.unit.distribution.conftest import patient

OVERLAY = {"alpha": "a", "beta": "a"}
HOP = "overlay:a"


@pytest.fixture
def agents(plane: Plane, heating: Domain, tmp_path: Path) -> dict[str, RealAgent]:
    """Alpha and beta with their own code, at the newest revision, with leases."""
    patient(heating)
    found = install(plane, OVERLAY, tmp_path)
    plane.settle()
    plane.lease_all()
    return found


def widen(domain: Domain, name: str) -> Policy:
    return policies.create_policy(
        actor=None,
        domain=domain,
        name=name,
        action="subscribe",
        event_type="Statistics",
        expression='subject.type == "individual" && event.homes > 5',
    )


def revisions(agents: dict[str, RealAgent]) -> dict[str, int]:
    return {name: agent.in_force("heating").revision for name, agent in agents.items()}


def test_a_canary_refuses_a_person_goes_back_and_numbers_only_rise(
    plane: Plane, heating: Domain, agents: dict[str, RealAgent]
) -> None:
    canary = [{"agents": ["beta"], "share": 0, "wait_seconds": 0}]
    rolloutplans.set_plan(actor=None, domain=heating, stages=canary, silence_seconds=3600)
    plane.settle()
    start = revisions(agents)
    agents["beta"].policy.refuses = True
    made = widen(heating, "late")
    plane.settle()
    row = PolicyRollout.objects.get()
    assert (row.state, row.reason) == ("stopped", "agent beta refused it: malformed")
    assert revisions(agents) == start
    agents["beta"].policy.refuses = False
    rolloutplans.abort_rollout(actor=None, rollout=row, reason="it was refused")
    plane.settle()
    heating.refresh_from_db()
    assert revisions(agents) == {"alpha": heating.revision, "beta": heating.revision}
    assert heating.revision > row.revision
    for agent in agents.values():
        assert f"policy-{made.pk}" not in agent.rules("heating")
    # The next one is taken by the canary, then by the rest.
    other = widen(heating, "other")
    plane.settle()
    assert PolicyRollout.objects.first().state == "complete"  # type: ignore[union-attr]
    for agent in agents.values():
        assert f"policy-{other.pk}" in agent.rules("heating")
        assert agent.refusals == []


def sealed(agent: RealAgent, number: int) -> bytes:
    """An event on its way: what this agent would now send to its peers."""
    key = agent.in_force("heating").sealing_overlay_key()
    assert key is not None
    routed = bundle_samples.routed(
        publication=f"{number:032x}", overlay="a", origin=agent.address.partition(":")[2]
    )
    return seal_hop(
        routed, signing_key=agent.signing, hop_key=key.key, epoch=key.epoch, random=SYSTEM_RANDOM
    )


def opened(agents: dict[str, RealAgent], at: str, message: bytes) -> str:
    """The publication that an agent makes of a hop."""
    hop_keys = agents[at].in_force("heating").opening_overlay_keys()
    keys = {name: agent.signing.public for name, agent in agents.items()}
    return open_hop(message, hop_keys=hop_keys, verify=keys.__getitem__).publication


def deliver_one(plane: Plane) -> int:
    """One message at a time, so that agents are apart for as long as they can be."""
    for audience in plane.audiences.values():
        queue = plane.queues[f"pc.control.{audience.address.replace(':', '.')}"]
        if queue and not audience.deaf:
            for request in audience.take(queue.pop(0)):
                plane.receive(request)
            return 1
    return 0


def epoch_states() -> dict[int, str]:
    return dict(KeyEpoch.objects.filter(group_ref=HOP).values_list("number", "state"))


def test_keys_are_renewed_while_events_flow_and_every_one_opens(
    plane: Plane, heating: Domain, agents: dict[str, RealAgent]
) -> None:
    trustgroups.rotate_keys(actor=None, domain=heating, group_refs=[HOP], reason="a year is over")
    services.advance_all()
    used: set[int] = set()
    for number in range(1, 300):
        message = sealed(agents["alpha"], number)
        # It is under way while the agents are told one more thing.
        moved = plane.work() + deliver_one(plane)
        assert opened(agents, "beta", message) == f"{number:032x}"
        back = sealed(agents["beta"], number)
        assert opened(agents, "alpha", back) == f"{number:032x}"
        used |= {held.epoch for held in (agents["alpha"].in_force("heating").overlay_keys.values())}
        if not moved:
            break
    assert used == {1, 2}
    assert epoch_states() == {1: "retired", 2: "current"}
    assert set(agents["beta"].in_force("heating").overlay_keys) == {2}


def test_no_epoch_is_retired_before_every_agent_left_it(
    plane: Plane, heating: Domain, agents: dict[str, RealAgent]
) -> None:
    """Beta is alive and does not answer: nothing goes on without it within its minute."""
    agents["beta"].deaf = True
    trustgroups.rotate_keys(actor=None, domain=heating, group_refs=[HOP], reason="a year is over")
    services.advance_all()
    plane.settle()
    assert epoch_states() == {1: "current", 2: "staged"}
    agents["beta"].deaf = False
    plane.settle()
    assert epoch_states() == {1: "retired", 2: "current"}


def test_an_agent_that_never_staged_gets_no_lease_that_it_fulfils(
    plane: Plane, heating: Domain, agents: dict[str, RealAgent]
) -> None:
    beta = agents["beta"]
    assert beta.standing("heating") == "serving"
    before = sealed(beta, 1)
    beta.deaf = True
    trustgroups.rotate_keys(actor=None, domain=heating, group_refs=[HOP], reason="a year is over")
    for _ in range(5):
        services.advance_all()
        plane.settle()
        long_ago = timezone.now() - timedelta(seconds=61)
        Rollout.objects.update(stage_started=long_ago)
    services.advance_all()
    assert epoch_states() == {1: "retired", 2: "current"}
    assert Rollout.objects.get().members.get(audience="agent:beta").skipped_in != ""
    # It comes back with the old epoch: its lease demands the new one, so it handles nothing.
    queue = plane.queues["pc.control.agent.beta"]
    waiting, queue[:] = list(queue), []
    plane.receive(beta.lease_request())
    lease, queue[:] = queue[-1], []
    beta.take(lease)
    assert beta.standing("heating") == "behind-revision"
    with pytest.raises(RejectedError):
        opened(agents, "alpha", before)
    # What was waiting for it, and what it asks for, brings it back.
    queue[:] = waiting
    beta.deaf = False
    plane.settle()
    plane.receive(beta.lease_request())
    plane.settle()
    assert set(beta.in_force("heating").overlay_keys) == {2}
    assert beta.standing("heating") == "serving"
    assert opened(agents, "alpha", sealed(beta, 2)) == f"{2:032x}"


def test_an_agent_whose_lease_ended_holds_up_nothing(
    plane: Plane, heating: Domain, agents: dict[str, RealAgent], settings: Any
) -> None:
    settings.DRAIN_LIMIT_SECONDS = 0  # an epoch is kept for it no longer than that
    agents["beta"].deaf = True
    gone = timezone.now() - timedelta(seconds=1)
    Recipient.objects.filter(audience="agent:beta").update(leased_until=gone)
    trustgroups.rotate_keys(actor=None, domain=heating, group_refs=[HOP], reason="a year is over")
    services.advance_all()
    plane.settle()
    assert epoch_states() == {1: "retired", 2: "current"}
    held = Recipient.objects.get(audience="agent:beta", domain=heating)
    assert held.minimum_revision > held.revision


def test_an_epoch_that_ends_at_once_opens_nothing_more(
    plane: Plane, heating: Domain, agents: dict[str, RealAgent]
) -> None:
    message = sealed(agents["alpha"], 1)
    assert opened(agents, "beta", message) == f"{1:032x}"
    epoch = KeyEpoch.objects.get(group_ref=HOP)
    emergency.retire_now(actor=None, epoch=epoch, reason="it was copied")
    # From the commit on no lease is given that does not demand it.
    heating.refresh_from_db()
    held = Recipient.objects.filter(domain=heating, audience__startswith="agent:")
    assert {row.minimum_revision for row in held} == {heating.revision}
    plane.settle()
    assert epoch_states() == {1: "retired", 2: "current"}
    for name in agents:
        with pytest.raises(RejectedError):
            opened(agents, name, message)
    assert opened(agents, "beta", sealed(agents["alpha"], 2)) == f"{2:032x}"
