"""A revocation from T0 to its receipt, played with agents in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.core.authority import get_authority
from adminapp.core.errors import Conflict, Forbidden, Invalid
from adminapp.distribution import leases, selectors, services
from adminapp.distribution.models import (
    EncodedItem,
    EncodingEpoch,
    EncodingKey,
    Notice,
    Recipient,
    Revocation,
    Rollout,
)
from adminapp.identity import services as identity
from adminapp.identity.models import Domain, Principal
from adminapp.trustgroups import services as trustgroups
from adminapp.trustgroups.models import KeyEpoch, TrustGroup
from policyengine.bundles import messages
from tests.support.audiences import Plane
from tests.support.kept_planes import PlaneKeeper
from tests.support.known_keys import held_tag_keys
from tests.unit.distribution.conftest import at_rest, patient

STAGES = ["recomputing", "staging", "switching", "draining", "retiring", "complete"]


@pytest.fixture
def heating(plane: Plane, planes: PlaneKeeper) -> Domain:
    return patient(at_rest(plane, planes, "heating"))


@pytest.fixture
def flights(plane: Plane, planes: PlaneKeeper) -> Domain:
    return patient(at_rest(plane, planes, "flights"))


def revoke(name: str) -> Revocation:
    return services.revoke_principal(actor=None, principal=held_tag_keys(name), reason="moved away")


def states(plane: Plane, agent: str, domain: str) -> dict[int, str]:
    return {e.epoch: e.state for e in plane.audiences[f"agent:{agent}"].agent(domain).epochs}


def lease_of(plane: Plane, address: str) -> messages.Lease:
    audience = plane.audiences[address]
    plane.receive(audience.lease_request())
    plane.deliver()
    return audience.leases[-1]


def test_a_revocation_goes_through_to_a_receipt(plane: Plane, heating: Domain) -> None:
    plane.settle()
    plane.lease_all()
    kept = EncodedItem.objects.filter(epoch__number=1).count()
    plane.sent.clear()
    revocation = revoke("X-104211")
    plane.settle()
    assert plane.sent[0] == "pc.control.agent.alpha"
    revocation.refresh_from_db()
    assert revocation.state == "complete"
    kinds = [event.kind for event in selectors.revocation_timeline(revocation.pk).events]
    assert [kind for kind in kinds if kind in STAGES] == STAGES
    assert "notice-applied" in kinds
    assert (revocation.epoch_from, revocation.epoch_to) == (1, 2)
    assert states(plane, "alpha", "heating") == {2: "current"}
    assert states(plane, "beta", "heating") == {2: "current"}
    # The old epoch is worth nothing any more, and nothing of it is kept.
    assert not EncodedItem.objects.filter(epoch__number=1).exists()
    assert not EncodingKey.objects.filter(epoch__number=1).exists()
    assert 0 < EncodedItem.objects.filter(epoch__number=2).count() < kept


def test_the_receipt_verifies_and_says_what_happened(plane: Plane, heating: Domain) -> None:
    plane.settle()
    plane.lease_all()
    revocation = revoke("X-104211")
    plane.settle()
    revocation.refresh_from_db()
    body = messages.verify_receipt(revocation.receipt, get_authority().anchors().receipt)
    assert body["principal"]["name"] == "X-104211"
    assert body["t0"] == revocation.created.isoformat()
    assert [entry["agent"] for entry in body["notices"]] == ["alpha"]
    assert body["notices"][0]["acknowledged"] is not None
    assert {entry["agent"] for entry in body["switches"]} == {"alpha", "beta"}
    assert all(entry["switched"] for entry in body["switches"])
    assert body["unreachable"] == []
    assert body["encodings_replaced"] > 0


def test_a_tampered_receipt_does_not_verify(plane: Plane, heating: Domain) -> None:
    from policyengine.errors import RejectedError

    plane.settle()
    revocation = revoke("X-104211")
    plane.lease_all()
    plane.settle()
    revocation.refresh_from_db()
    receipt = revocation.receipt
    receipt["body"]["unreachable"] = ["beta"]
    with pytest.raises(RejectedError):
        messages.verify_receipt(receipt, get_authority().anchors().receipt)


def test_the_home_agent_denies_before_anything_else(plane: Plane, heating: Domain) -> None:
    plane.settle()
    plane.lease_all()
    customer = Principal.objects.get(name="X-104211")
    revoke("X-104211")
    alpha = plane.audiences["agent:alpha"]
    rows = dict(Notice.objects.values_list("audience", "number"))
    assert rows == {"agent:alpha": 1}
    for notice in Notice.objects.all():
        (parcel,) = services.notice_parcels([notice.pk])
        for request in alpha.take(parcel.body):
            plane.receive(request)
    assert alpha.state.denied["heating"] == {customer.handle}
    assert Notice.objects.get().state == "applied"


def test_a_publisher_is_denied_at_every_agent(plane: Plane, flights: Domain) -> None:
    plane.settle()
    plane.lease_all()
    revoke("jfk")
    plane.settle()
    handle = Principal.objects.get(name="jfk").handle
    for name in ("alpha", "beta", "gamma"):
        audience = plane.audiences[f"agent:{name}"]
        assert handle in audience.state.denied["flights"]
        assert handle not in str(audience.agent("flights").to_json())


def test_from_t0_no_lease_is_below_the_notice(plane: Plane, heating: Domain) -> None:
    plane.settle()
    plane.audiences["agent:alpha"].deaf = True
    before = lease_of_deaf(plane, "agent:alpha")
    assert before.domains["heating"]["minimum_notice"] == 0
    revoke("X-104211")
    after = lease_of_deaf(plane, "agent:alpha")
    assert after.domains["heating"]["minimum_notice"] == 1
    revoke("X-104212")
    assert lease_of_deaf(plane, "agent:alpha").domains["heating"]["minimum_notice"] == 2


def lease_of_deaf(plane: Plane, address: str) -> messages.Lease:
    """What is answered, without anything else being delivered."""
    audience = plane.audiences[address]
    ((_, body),) = services.answer_request(audience.lease_request())
    audience.take(body)
    return audience.leases[-1]


def test_a_lease_overtaken_by_a_revocation_is_signed_anew(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.settle()
    seal = leases._seal
    calls: list[Any] = []

    def overtaken(*arguments: Any) -> bytes:
        calls.append(arguments)
        if len(calls) == 1:
            revoke("X-104211")
        return seal(*arguments)

    monkeypatch.setattr(leases, "_seal", overtaken)
    lease = lease_of_deaf(plane, "agent:alpha")
    assert len(calls) == 2
    assert lease.domains["heating"]["minimum_notice"] == 1


def test_a_revoked_client_and_a_banned_agent_get_no_lease(plane: Plane, heating: Domain) -> None:
    from adminapp.identity.models import Agent

    plane.settle()
    handle = Principal.objects.get(name="X-104211").handle
    client = plane.audiences[f"client:{handle}"]
    assert services.answer_request(client.lease_request())
    revoke("X-104211")
    assert services.answer_request(client.lease_request()) == []
    alpha = plane.audiences["agent:alpha"]
    assert services.answer_request(alpha.lease_request())
    identity.set_agent_state(actor=None, agent=Agent.objects.get(name="alpha"), state="banned")
    assert services.answer_request(alpha.lease_request()) == []


def test_publishers_switch_only_after_all_agents(plane: Plane, flights: Domain) -> None:
    """At every moment an agent accepts what any publisher may tag with."""
    plane.settle()
    plane.lease_all()
    revoke("UA")
    publisher = plane.audiences[f"client:{Principal.objects.get(name='jfk').handle}"]
    seen: set[int] = set()
    for _ in range(200):
        moved = plane.work() + deliver_one(plane)
        used = {key.epoch for key in publisher.content("flights").tag_keys}
        seen |= used
        for name in ("alpha", "beta", "gamma"):
            accepted = {
                epoch
                for epoch, state in states(plane, name, "flights").items()
                if state in {"current", "draining"}
            }
            assert used <= accepted
        if not moved:
            break
    assert seen == {1, 2}


def deliver_one(plane: Plane) -> int:
    """Deliver one message only, so that every order of arrival between stages is visited."""
    for audience in plane.audiences.values():
        queue = plane.queues[f"pc.control.{audience.address.replace(':', '.')}"]
        if queue:
            for request in audience.take(queue.pop(0)):
                plane.receive(request)
            return 1
    return 0


def test_two_revocations_share_what_is_left(plane: Plane, heating: Domain) -> None:
    plane.settle()
    plane.lease_all()
    first = revoke("X-104211")
    services.advance_domain(heating.pk)
    second, third = revoke("X-104212"), revoke("X-118834")
    plane.settle()
    for revocation in (first, second, third):
        revocation.refresh_from_db()
        assert revocation.state == "complete"
    assert first.epoch_to == 2
    assert second.epoch_to == third.epoch_to == 3
    assert second.rollout_id == third.rollout_id
    assert plane.audiences["agent:alpha"].state.notices["heating"] == 2


def test_an_agent_without_a_lease_holds_up_nobody(
    plane: Plane, heating: Domain, settings: Any
) -> None:
    settings.DRAIN_LIMIT_SECONDS = 0  # an epoch is kept for it no longer than that
    plane.settle()
    plane.lease_all()
    beta = plane.audiences["agent:beta"]
    beta.deaf = True
    Recipient.objects.filter(audience="agent:beta").update(leased_until=timezone.now())
    revocation = revoke("X-104211")
    plane.settle()
    revocation.refresh_from_db()
    assert revocation.state == "complete"
    assert revocation.receipt["body"]["unreachable"] == ["beta"]
    # When it comes back, its lease demands what it missed.
    lease = lease_of_deaf(plane, "agent:beta")
    heating.refresh_from_db()
    assert lease.domains["heating"]["minimum_revision"] == heating.revision
    beta.deaf = False
    plane.settle()
    assert states(plane, "beta", "heating") == {2: "current"}


def test_an_agent_with_a_lease_is_waited_for_a_minute_and_no_longer(
    plane: Plane, heating: Domain
) -> None:
    plane.settle()
    plane.lease_all()
    plane.audiences["agent:beta"].deaf = True
    revocation = revoke("X-104211")
    plane.settle()
    revocation.refresh_from_db()
    assert revocation.state == "staging"
    for _ in range(4):
        long_ago = timezone.now() - timedelta(seconds=61)
        Rollout.objects.update(stage_started=long_ago)
        services.advance_all()
        plane.settle()
    revocation.refresh_from_db()
    assert revocation.state == "complete"
    assert revocation.receipt["body"]["unreachable"] == ["beta"]


def test_changes_during_a_recompute_are_in_the_new_epoch(plane: Plane, heating: Domain) -> None:
    from adminapp.distribution import recompute
    from adminapp.distribution.models import RecomputeJob
    from adminapp.policies import services as policies

    plane.settle()
    plane.lease_all()
    revoke("X-104211")
    services.advance_domain(heating.pk)
    job = recompute.take(RecomputeJob.objects.get().pk)
    assert job is not None
    load = recompute.workload(job)
    policies.create_policy(
        actor=None,
        domain=heating,
        name="late",
        action="subscribe",
        event_type="Statistics",
        expression='subject.type == "individual" && event.homes > 5',
    )
    recompute.encode_here(load)
    recompute.finish(job)
    plane.settle()
    epoch = plane.audiences["agent:alpha"].agent("heating").epochs[0]
    late = heating.policies.get(name="late")
    assert epoch.epoch == 2
    assert f"policy-{late.pk}" in {rule.policy for rule in epoch.rules}


def test_nothing_moves_twice_when_everybody_pushes(plane: Plane, heating: Domain) -> None:
    plane.settle()
    plane.lease_all()
    revocation = revoke("X-104211")
    for _ in range(60):
        services.advance_all()
        services.advance_revocation(revocation.pk)
        if not plane.work() + plane.deliver():
            break
    revocation.refresh_from_db()
    assert revocation.state == "complete"
    assert EncodingEpoch.objects.filter(domain=heating).count() == 2
    assert Rollout.objects.count() == 1
    completed = Entry.objects.filter(action="revocation.completed").count()
    assert completed == 1


def test_appointments_end_with_the_principal(plane: Plane, heating: Domain) -> None:
    from adminapp.roles import services as roles

    customer = Principal.objects.get(name="X-104211")
    appointment = roles.appoint(actor=None, principal=customer, name="tenant")
    revoke("X-104211")
    appointment.refresh_from_db()
    assert appointment.ends is not None
    assert appointment.ends <= timezone.now()


def test_who_may_not_revoke_changes_nothing(plane: Plane, heating: Domain) -> None:
    stranger = identity.create_user(actor=None, username="stranger")
    customer = Principal.objects.get(name="X-104211")
    with pytest.raises(Forbidden):
        services.revoke_principal(actor=stranger, principal=customer, reason="envy")
    with pytest.raises(Invalid):
        services.revoke_principal(actor=None, principal=customer, reason="  ")
    customer.refresh_from_db()
    assert customer.state == "active"
    assert not Revocation.objects.exists()
    revoke("X-104211")
    customer.refresh_from_db()
    with pytest.raises(Conflict):
        services.revoke_principal(actor=None, principal=customer, reason="again")
    assert Revocation.objects.count() == 1


def test_a_conjunction_that_does_not_fit_opens_a_larger_epoch(
    plane: Plane, heating: Domain
) -> None:
    from adminapp.catalog import services as catalog
    from adminapp.policies import services as policies

    plane.settle()
    plane.lease_all()
    names = [f"a{number}" for number in range(12)]
    for name in names:
        catalog.create_subject_attribute(
            actor=None, domain=heating, name=name, type={"type": "int"}
        )
    company = Principal.objects.get(name="heat-insight")
    values = {**company.attributes, **dict.fromkeys(names, 1)}
    identity.update_principal(actor=None, principal=company, data={"attributes": values})
    policies.create_policy(
        actor=None,
        domain=heating,
        name="long",
        action="subscribe",
        event_type="Statistics",
        expression=" && ".join(f"subject.{name} == 1" for name in names),
    )
    plane.settle()
    epoch = plane.audiences["agent:beta"].agent("heating").epochs
    assert [(e.epoch, e.state, e.parameters["n"]) for e in epoch] == [(2, "current", 32)]
    long = heating.policies.get(name="long")
    assert f"policy-{long.pk}" in {rule.policy for rule in epoch[0].rules}


def test_a_key_that_somebody_loses_is_replaced(plane: Plane, flights: Domain) -> None:
    plane.settle()
    plane.lease_all()
    group = TrustGroup.objects.get(name="airframe-data")
    alpha = group.members.get(name="alpha")
    trustgroups.update_trust_group(
        actor=None, trust_group=group, members=[alpha], authority=get_authority()
    )
    services.advance_all()
    plane.settle()
    held = {
        (e.number, e.state)
        for e in KeyEpoch.objects.filter(domain=flights, group_ref="key:airframe")
    }
    assert held == {(1, "retired"), (2, "current")}
    wraps = {
        name: {
            (wrap.group, wrap.epoch)
            for wrap in plane.audiences[f"agent:{name}"].agent("flights").wraps
        }
        for name in ("alpha", "beta")
    }
    assert ("key:airframe", 2) in wraps["alpha"]
    assert not any(group == "key:airframe" for group, _ in wraps["beta"])
    # Encodings have nothing to do with it: they stay in their epoch.
    assert EncodingEpoch.objects.filter(domain=flights).count() == 1
