"""Policies that go to a few agents first, played with agents in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.core.errors import Conflict, Forbidden, Invalid
from adminapp.distribution import rolloutplans, services, stages
from adminapp.distribution.models import Bundle, PolicyRollout, Recipient, RolloutPlan
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from tests.support.audiences import Plane
from tests.support.kept_planes import PlaneKeeper
from tests.support.known_keys import held_tag_keys
from tests.unit.distribution.conftest import at_rest, patient

CANARY = [{"agents": ["beta"], "share": 0, "wait_seconds": 0}]
SLOW = [{"agents": ["beta"], "share": 0, "wait_seconds": 600}]


@pytest.fixture
def heating(plane: Plane, planes: PlaneKeeper) -> Domain:
    return patient(at_rest(plane, planes, "heating"))


def begin(plane: Plane, domain: Domain, found: list[dict[str, Any]]) -> None:
    plane.settle()
    plane.lease_all()
    rolloutplans.set_plan(actor=None, domain=domain, stages=found, silence_seconds=3600)
    plane.settle()
    plane.lease_all()


def widen(domain: Domain, name: str = "late") -> Policy:
    return policies.create_policy(
        actor=None,
        domain=domain,
        name=name,
        action="subscribe",
        event_type="Statistics",
        expression='subject.type == "individual" && event.homes > 5',
    )


def holds(plane: Plane, agent: str, policy: Policy) -> bool:
    content = plane.audiences[f"agent:{agent}"].agent("heating")
    names = {rule.policy for epoch in content.epochs for rule in epoch.rules}
    return f"policy-{policy.pk}" in names


def newest(domain: Domain) -> PolicyRollout:
    found = PolicyRollout.objects.filter(domain=domain).first()
    assert found is not None
    return found


def built(agent: str) -> int:
    return Bundle.objects.filter(audience=f"agent:{agent}").count()


def refuse_all(plane: Plane, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent refuses every bundle until `monkeypatch.undo`, and goes on with what it has."""
    audience = plane.audiences[f"agent:{agent}"]
    open_it = audience._bundle

    def refuse(*given: Any) -> bytes:
        held, state = dict(audience.bundles), audience.state
        open_it(*given)
        opened = audience.bundles["heating"]
        audience.bundles, audience.state = held, state
        return audience.ack(
            "heating", "bundle", opened.header.revision, opened.digest, "rejected", "malformed"
        )

    monkeypatch.setattr(audience, "_bundle", refuse)


def test_without_a_plan_everybody_gets_everything_at_once(plane: Plane, heating: Domain) -> None:
    plane.settle()
    made = widen(heating)
    plane.settle()
    assert holds(plane, "alpha", made)
    assert holds(plane, "beta", made)
    assert not PolicyRollout.objects.exists()


def test_a_plan_by_itself_changes_nothing_anywhere(plane: Plane, heating: Domain) -> None:
    begin(plane, heating, CANARY)
    heating.refresh_from_db()
    held = Recipient.objects.filter(domain=heating, audience__startswith="agent:")
    assert {row.revision for row in held} == {heating.revision}
    assert not PolicyRollout.objects.exists()


def test_the_rest_waits_for_the_canary_and_its_time(plane: Plane, heating: Domain) -> None:
    begin(plane, heating, SLOW)
    before = built("alpha")
    made = widen(heating)
    plane.settle()
    row = newest(heating)
    assert (row.state, row.stage) == ("running", 0)
    assert row.stages == [
        {"agents": ["beta"], "wait_seconds": 600},
        {"agents": ["alpha"], "wait_seconds": 0},
    ]
    # The canary has it and acknowledged it; the other was sent nothing whatsoever.
    assert holds(plane, "beta", made)
    assert row.stage_applied is not None
    assert built("alpha") == before
    # Nothing is asked of its lease either.
    lease = lease_of(plane, "alpha")
    assert lease["minimum_revision"] < row.revision
    PolicyRollout.objects.update(stage_applied=timezone.now() - timedelta(seconds=601))
    services.advance_all()
    plane.settle()
    assert newest(heating).state == "complete"
    heating.refresh_from_db()
    for agent in ("alpha", "beta"):
        assert holds(plane, agent, made)
        held = Recipient.objects.get(audience=f"agent:{agent}", domain=heating)
        assert held.revision == heating.revision
    actions = Entry.objects.filter(action__startswith="policy-rollout.").order_by("sequence")
    assert list(actions.values_list("action", flat=True)) == [
        "policy-rollout.started",
        "policy-rollout.stage",
        "policy-rollout.completed",
    ]


def lease_of(plane: Plane, agent: str) -> dict[str, int]:
    audience = plane.audiences[f"agent:{agent}"]
    ((_, body),) = services.answer_request(audience.lease_request())
    audience.take(body)
    return dict(audience.leases[-1].domains["heating"])


def test_a_canary_that_was_not_heard_holds_the_rest_back(plane: Plane, heating: Domain) -> None:
    """Progress is by acknowledgement: what was sent and even received is not applied."""
    begin(plane, heating, CANARY)
    plane.audiences["agent:beta"].deaf = True
    made = widen(heating)
    plane.settle()
    assert (newest(heating).state, newest(heating).stage) == ("running", 0)
    assert not holds(plane, "alpha", made)
    plane.audiences["agent:beta"].deaf = False
    plane.settle()
    assert newest(heating).state == "complete"
    assert holds(plane, "alpha", made)


def test_a_refusal_stops_it_and_a_person_goes_back(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(plane, heating, CANARY)
    heating.refresh_from_db()
    start = heating.revision
    refuse_all(plane, "beta", monkeypatch)
    made = widen(heating)
    plane.settle()
    row = newest(heating)
    assert (row.state, row.reason) == ("stopped", "agent beta refused it: malformed")
    assert not holds(plane, "alpha", made)
    stranger = identity.create_user(actor=None, username="stranger")
    with pytest.raises(Forbidden):
        rolloutplans.abort_rollout(actor=stranger, rollout=row, reason="envy")
    with pytest.raises(Forbidden):
        rolloutplans.continue_rollout(actor=stranger, rollout=row)
    with pytest.raises(Invalid):
        rolloutplans.abort_rollout(actor=None, rollout=row, reason=" ")
    monkeypatch.undo()
    rolloutplans.abort_rollout(actor=None, rollout=row, reason="it was refused")
    plane.settle()
    heating.refresh_from_db()
    assert heating.revision > row.revision > start
    for agent in ("alpha", "beta"):
        assert not holds(plane, agent, made)
        held = Recipient.objects.get(audience=f"agent:{agent}", domain=heating)
        assert (held.revision, held.state) == (heating.revision, "applied")
    with pytest.raises(Conflict):
        rolloutplans.abort_rollout(actor=None, rollout=row, reason="again")


def test_what_was_taken_back_stays_so_until_policies_change(plane: Plane, heating: Domain) -> None:
    begin(plane, heating, SLOW)
    made = widen(heating)
    plane.settle()
    assert holds(plane, "beta", made)
    rolloutplans.abort_rollout(actor=None, rollout=newest(heating), reason="too many get it")
    plane.settle()
    assert not holds(plane, "beta", made)
    # Other changes reach everybody and do not bring it along.
    services.resume_after_loss(by=1)
    plane.settle()
    heating.refresh_from_db()
    held = Recipient.objects.filter(domain=heating, audience__startswith="agent:")
    assert {row.revision for row in held} == {heating.revision}
    assert not holds(plane, "alpha", made)
    assert not holds(plane, "beta", made)
    assert PolicyRollout.objects.count() == 1
    again = widen(heating, "another")
    plane.settle()
    assert newest(heating).state == "running"
    assert holds(plane, "beta", again)
    assert not holds(plane, "alpha", again)


def test_a_person_goes_on_without_the_agent_that_refused(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(plane, heating, [{"agents": ["alpha", "beta"], "share": 0, "wait_seconds": 0}])
    refuse_all(plane, "beta", monkeypatch)
    made = widen(heating)
    plane.settle()
    row = newest(heating)
    assert row.state == "stopped"
    rolloutplans.continue_rollout(actor=None, rollout=row)
    plane.settle()
    assert newest(heating).state == "complete"
    assert holds(plane, "alpha", made)
    with pytest.raises(Conflict):
        rolloutplans.continue_rollout(actor=None, rollout=newest(heating))


@pytest.mark.parametrize("how", ["its lease ends", "no acknowledgement", "a lie"])
def test_an_agent_that_goes_silent_stops_it(plane: Plane, heating: Domain, how: str) -> None:
    begin(plane, heating, SLOW)
    beta = Recipient.objects.filter(audience="agent:beta", domain=heating)
    if how == "no acknowledgement":
        plane.audiences["agent:beta"].deaf = True
    widen(heating)
    plane.settle()
    assert newest(heating).state == "running"
    if how == "its lease ends":
        beta.update(leased_until=timezone.now() - timedelta(seconds=1))
    elif how == "a lie":
        beta.update(state="contradicts")
    else:
        PolicyRollout.objects.update(stage_started=timezone.now() - timedelta(seconds=3601))
    services.advance_all()
    row = newest(heating)
    said = {
        "its lease ends": "agent beta has gone silent",
        "no acknowledgement": "agent beta did not acknowledge it within 3600 s",
        "a lie": "agent beta says that it holds what was not built for it",
    }
    assert (row.state, row.reason) == ("stopped", said[how])


def test_a_canary_that_was_off_already_has_tried_nothing(plane: Plane, heating: Domain) -> None:
    begin(plane, heating, CANARY)
    beta = plane.audiences["agent:beta"]
    beta.deaf = True
    gone = timezone.now() - timedelta(seconds=1)
    Recipient.objects.filter(audience="agent:beta").update(leased_until=gone)
    made = widen(heating)
    plane.settle()
    assert (newest(heating).state, newest(heating).skipped) == ("running", ["beta"])
    assert not holds(plane, "alpha", made)
    beta.deaf = False
    plane.lease_all()
    plane.settle()
    assert newest(heating).state == "complete"
    assert holds(plane, "alpha", made)


def test_what_takes_rights_away_waits_for_no_canary(plane: Plane, heating: Domain) -> None:
    begin(plane, heating, SLOW)
    old = Policy.objects.filter(domain=heating, action="subscribe").first()
    assert old is not None
    made = widen(heating)
    plane.settle()
    assert holds(plane, "alpha", old)
    policies.delete_policy(actor=None, policy=old)
    plane.settle()
    # Everybody lost it, and nobody but the canary got what is on its way.
    assert not holds(plane, "alpha", old)
    assert not holds(plane, "beta", old)
    assert holds(plane, "beta", made)
    assert not holds(plane, "alpha", made)
    assert (newest(heating).state, PolicyRollout.objects.count()) == ("running", 1)


def test_a_deletion_alone_is_no_rollout(plane: Plane, heating: Domain) -> None:
    begin(plane, heating, SLOW)
    old = Policy.objects.filter(domain=heating, action="subscribe").first()
    assert old is not None
    policies.delete_policy(actor=None, policy=old)
    plane.settle()
    assert not PolicyRollout.objects.exists()
    assert not holds(plane, "alpha", old)


def test_a_revocation_meanwhile_ships_no_unvetted_policy(plane: Plane, heating: Domain) -> None:
    begin(plane, heating, SLOW)
    made = widen(heating)
    plane.settle()
    customer = held_tag_keys("X-104211")
    revocation = services.revoke_principal(actor=None, principal=customer, reason="moved away")
    plane.settle()
    revocation.refresh_from_db()
    assert revocation.state == "complete"
    assert revocation.receipt["body"]["unreachable"] == []
    for agent in ("alpha", "beta"):
        content = plane.audiences[f"agent:{agent}"].agent("heating")
        assert [(e.epoch, e.state) for e in content.epochs] == [(2, "current")]
        assert customer.handle not in str(content.to_json())
    assert holds(plane, "beta", made)
    assert not holds(plane, "alpha", made)
    assert (newest(heating).state, newest(heating).stage) == ("running", 0)
    # When its stage comes it gets it, in the new epoch.
    PolicyRollout.objects.update(stage_applied=timezone.now() - timedelta(seconds=601))
    services.advance_all()
    plane.settle()
    assert holds(plane, "alpha", made)


def test_a_newer_change_takes_the_place_of_one_on_its_way(plane: Plane, heating: Domain) -> None:
    begin(plane, heating, SLOW)
    first = widen(heating)
    plane.settle()
    second = widen(heating, "later")
    plane.settle()
    rows = list(PolicyRollout.objects.filter(domain=heating).order_by("pk"))
    assert [row.state for row in rows] == ["superseded", "running"]
    assert holds(plane, "beta", first)
    assert holds(plane, "beta", second)
    assert not holds(plane, "alpha", first)


def test_taking_the_change_back_ends_it(plane: Plane, heating: Domain) -> None:
    begin(plane, heating, SLOW)
    made = widen(heating)
    plane.settle()
    policies.delete_policy(actor=None, policy=made)
    plane.settle()
    assert newest(heating).state == "superseded"
    assert not holds(plane, "beta", made)
    heating.refresh_from_db()
    held = Recipient.objects.filter(domain=heating, audience__startswith="agent:")
    assert {row.revision for row in held} == {heating.revision}


def test_an_agent_that_waits_and_lost_everything_gets_what_it_had(
    plane: Plane, heating: Domain
) -> None:
    begin(plane, heating, SLOW)
    made = widen(heating)
    plane.settle()
    alpha = plane.audiences["agent:alpha"]
    alpha.forget()
    plane.lease_all()
    plane.settle()
    assert alpha.agent("heating").epochs
    assert not holds(plane, "alpha", made)


def test_switching_the_plan_off_lets_everything_through(plane: Plane, heating: Domain) -> None:
    begin(plane, heating, SLOW)
    made = widen(heating)
    plane.settle()
    assert not holds(plane, "alpha", made)
    rolloutplans.set_plan(actor=None, domain=heating, enabled=False)
    plane.settle()
    assert holds(plane, "alpha", made)
    assert newest(heating).state == "superseded"
    assert RolloutPlan.objects.get().accepted is None


@pytest.mark.parametrize(
    ("found", "pointer"),
    [
        ([], "/stages"),
        ([{"agents": ["nobody"]}], "/stages/0/agents"),
        ([{"agents": [], "share": 0}], "/stages/0"),
        ([{"share": 101}], "/stages/0/share"),
        ([{"share": 5, "wait_seconds": -1}], "/stages/0/wait_seconds"),
        ([{"share": True}], "/stages/0/share"),
        ([{"agents": "beta"}], "/stages/0/agents"),
        ([{"percent": 5}], "/stages/0"),
        ([{"share": 1}] * 9, "/stages"),
    ],
)
def test_a_plan_that_is_none_is_refused(
    plane: Plane, heating: Domain, found: list[Any], pointer: str
) -> None:
    with pytest.raises(Invalid) as caught:
        rolloutplans.set_plan(actor=None, domain=heating, stages=found)
    assert [each.pointer for each in caught.value.problems] == [pointer]
    assert not RolloutPlan.objects.filter(enabled=True).exists()


def test_shares_take_the_same_agents_every_time() -> None:
    agents = [f"agent-{number}" for number in range(10)]
    plan = [{"agents": ["agent-3"], "share": 20, "wait_seconds": 5}, {"agents": [], "share": 30}]
    plan[1]["wait_seconds"] = 7
    found = stages.resolved(plan, agents, "heating")
    assert found == stages.resolved(plan, reversed(agents), "heating")
    assert [len(stage["agents"]) for stage in found] == [2, 3, 5]
    assert "agent-3" in found[0]["agents"]
    assert sorted(name for stage in found for name in stage["agents"]) == agents
    assert stages.resolved(plan, [], "heating") == [{"agents": [], "wait_seconds": 0}]
