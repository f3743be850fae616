"""Every kind of revocation from T0 to its receipt, with the real code of agents in between."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.agreements import services as agreements
from adminapp.catalog import services as catalog
from adminapp.core.authority import get_authority
from adminapp.core.errors import Forbidden, InUse, Invalid
from adminapp.distribution import endings, impact, receipts, scopes, services
from adminapp.distribution.models import Notice, Recipient, Revocation
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.policies import services as policies
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment, Role
from adminapp.trustgroups.models import KeyEpoch, TrustGroup
from policyengine.bundles import messages
from tests.support.audiences import Plane
from tests.support.live_agents import LiveSite
from tests.unit.distribution.inspected import heating, publish, site

__all__ = ["heating", "site"]


def inspection() -> endings.Target:
    return endings.appointment(Appointment.objects.get(name="inspection"))


def attribute() -> endings.Target:
    return endings.attribute(Principal.objects.get(name="X-104212"), "consumer")


def revoke(target: endings.Target) -> Revocation:
    return services.revoke(actor=None, target=target, reason="it is over")


def body_of(revocation: Revocation) -> dict[str, Any]:
    revocation.refresh_from_db()
    assert revocation.state == "complete"
    return messages.verify_receipt(revocation.receipt, get_authority().anchors().receipt)


ROLE_KINDS = {
    "appointment": inspection,
    "role-holder": lambda: endings.holder(Principal.objects.get(name="X-104212"), "auditor"),
    "role": lambda: endings.role(Role.objects.get(name="inspector")),
}


@pytest.mark.parametrize("kind", ROLE_KINDS)
def test_what_rests_on_a_role_ends_and_nothing_else(site: LiveSite, kind: str) -> None:
    events = publish(site)
    site.run()
    assert set(site.received("X-104212")) == {events["second"], events["statistics"]}
    revocation = revoke(ROLE_KINDS[kind]())
    site.run()
    later = publish(site)
    site.run()
    assert set(site.received("X-104212")) == {
        events["second"], events["statistics"], later["second"],
    }  # fmt: skip
    assert set(site.received("X-104211")) == {events["first"], later["first"]}
    body = body_of(revocation)
    assert (body["kind"], body["unreachable"]) == (kind, [])
    assert [entry["agent"] for entry in body["notices"]] == ["alpha"]
    assert body["notices"][0]["seconds_after_t0"] < 20
    assert body["epochs"] == {"from": None, "to": None}
    assert body["encodings_replaced"] > 0
    assert body["enforced_by"] == body["notices"][0]["acknowledged"]


def test_an_agent_holds_everything_back_until_it_has_the_policy(site: LiveSite) -> None:
    """The notice alone stops the delivery: the agent has the old revision still."""
    revoke(inspection())
    notice = Notice.objects.get()
    (parcel,) = services.notice_parcels([notice.pk])
    site.broker.put(parcel.queue, parcel.body)
    alpha = site.agents["alpha"]
    alpha.step()
    snapshot = alpha.policy.domains["heating"].snapshot
    assert snapshot.revision < notice.revision
    assert snapshot.held == {site.handle("X-104212")}
    assert not snapshot.denied
    events = publish(site)
    for agent in site.agents.values():
        agent.step()
    site._note()
    assert site.received("X-104212") == []
    assert site.received("X-104211") == [events["first"]]
    alpha.die()
    site.start("alpha")  # what it was told survives its death
    assert site.agents["alpha"].policy.domains["heating"].snapshot.held
    site.run()
    assert not site.agents["alpha"].policy.domains["heating"].snapshot.held


def test_who_answers_late_was_bound_by_the_end_of_its_lease(site: LiveSite) -> None:
    revocation = revoke(inspection())
    site.run()
    notice = Notice.objects.get()
    assert receipts.enforced_by(revocation) == notice.acknowledged_at
    early = revocation.created + timedelta(microseconds=1)
    Notice.objects.update(deadline=early)
    assert receipts.enforced_by(revocation) == early


def test_an_attribute_ends_with_what_it_was_good_for(site: LiveSite) -> None:
    revocation = revoke(attribute())
    site.run()
    events = publish(site)
    site.run()
    assert site.received("X-104212") == [events["statistics"]]
    body = body_of(revocation)
    assert body["subject"] == {"attribute": "consumer"}
    assert body["principal"]["name"] == "X-104212"
    assert body["encodings_replaced"] > 0


def test_from_t0_no_lease_lacks_the_notice(site: LiveSite, heating: Domain) -> None:
    from adminapp.distribution import leases

    revoke(inspection())
    found = leases.demands({"agent:alpha": [heating], "agent:beta": [heating]})
    assert found["agent:alpha"]["heating"].minimum_notice == 1
    assert found["agent:beta"]["heating"].minimum_notice == 0


def test_an_agent_that_is_cut_off_is_named_with_the_end_of_its_lease(
    site: LiveSite, heating: Domain
) -> None:
    site.run(2)
    site.cut.add("alpha")
    revocation = revoke(inspection())
    site.run(4)
    services.advance_all()
    revocation.refresh_from_db()
    assert revocation.state == "applying"  # it may still have a lease from before
    site.clock.ahead = heating.lease_seconds + 1
    events = publish(site)
    for _ in range(3):
        site.agents["alpha"].step()
        site._note()
    assert events["statistics"] not in site.received("X-104212")
    late = timezone.now()
    Notice.objects.update(deadline=late)
    Recipient.objects.filter(audience="agent:alpha").update(leased_until=late)
    site.plane.work()
    services.advance_all()
    body = body_of(revocation)
    assert body["unreachable"] == ["alpha"]
    assert body["notices"][0]["acknowledged"] is None
    assert body["enforced_by"] == late.isoformat() == body["notices"][0]["lease_ended"]


def test_a_clients_key_is_worthless_and_what_it_was_given(site: LiveSite) -> None:
    revocation = revoke(endings.client_key(Principal.objects.get(name="X-104212")))
    site.run()
    events = publish(site)
    site.run()
    assert site.received("X-104212") == []
    assert site.received("X-104211") == [events["first"]]
    body = body_of(revocation)
    # It published nothing, so it was given no tag keys: its own encodings are all that goes.
    assert body["epochs"] == {"from": None, "to": None}
    assert body["encodings_replaced"] > 0
    gateway = Principal.objects.get(name="meter-gateway")
    assert scopes.for_principal(gateway) == scopes.EVERYTHING
    assert Principal.objects.get(name="X-104212").state == "active"
    with pytest.raises(InUse):
        revoke(endings.client_key(Principal.objects.get(name="X-104212")))


def test_an_agent_loses_its_lease_its_keys_and_its_peers(site: LiveSite) -> None:
    before = {k.group_ref for k in KeyEpoch.objects.filter(domain__name="heating")}
    (revocation,) = services.revoke_agent(
        actor=None, agent=Agent.objects.get(name="beta"), reason="stolen"
    )
    site.cut.add("beta")
    assert timezone.now().isoformat() < revocation.before["own_lease"]
    revocation.before["own_lease"] = (timezone.now() + timedelta(hours=1)).isoformat()
    revocation.save()
    notice = Notice.objects.get()
    assert notice.audience == "agent:alpha"
    site.run(2)
    assert "beta" not in site.agents["alpha"].policy.domains["heating"].snapshot.agents
    site.run()
    revocation.refresh_from_db()
    assert revocation.state == "draining"  # everybody is done, but its last lease is not over
    revocation.before["own_lease"] = timezone.now().isoformat()
    revocation.save()
    services.advance_all()
    body = body_of(revocation)
    assert {name.rpartition(" ")[0] for name in body["keys_replaced"]} == before
    assert body["epochs"] == {"from": 1, "to": 2}
    # Its own last lease counts too.
    assert body["enforced_by"] > body["notices"][0]["acknowledged"]


def test_a_member_that_leaves_a_trust_group_stops_at_once(site: LiveSite) -> None:
    group = TrustGroup.objects.get(name="consumer-data")
    revocation = revoke(endings.member(group, Agent.objects.get(name="beta")))
    notice = Notice.objects.get()
    assert (notice.audience, notice.floors) == ("agent:beta", {"revision": notice.revision})
    (parcel,) = services.notice_parcels([notice.pk])
    site.broker.put(parcel.queue, parcel.body)
    beta = site.agents["beta"]
    assert beta.link.standing("heating") == "serving"
    beta.step()
    assert beta.link.standing("heating") == "behind-revision"
    site.run()
    assert beta.link.standing("heating") == "serving"
    body = body_of(revocation)
    assert body["keys_replaced"] == ["key:consumer 2"]
    assert body["epochs"] == {"from": None, "to": None}


def test_what_would_give_somebody_more_is_no_revocation(site: LiveSite, heating: Domain) -> None:
    policies.create_policy(
        actor=None,
        domain=heating,
        name="open",
        action="publish",
        event_type="Statistics",
        expression="!has(subject.consumer)",
    )
    with pytest.raises(InUse, match="only takes away"):
        revoke(attribute())
    assert not Revocation.objects.exists()
    assert "consumer" in Principal.objects.get(name="X-104212").attributes


def test_what_is_wrong_changes_nothing(site: LiveSite, heating: Domain) -> None:
    person = Principal.objects.get(name="X-104211")
    stranger = identity.create_user(actor=None, username="stranger")
    with pytest.raises(Forbidden):
        services.revoke(actor=stranger, target=inspection(), reason="envy")
    with pytest.raises(Forbidden):
        services.revoke_agent(actor=stranger, agent=Agent.objects.get(name="beta"), reason="no")
    with pytest.raises(Invalid):
        services.revoke(actor=None, target=inspection(), reason=" ")
    with pytest.raises(Invalid):
        revoke(endings.attribute(person, "service"))
    with pytest.raises(Invalid):
        revoke(endings.holder(person, "auditor"))
    with pytest.raises(Invalid):
        revoke(endings.member(TrustGroup.objects.get(), Agent.objects.get(name="gamma")))
    with pytest.raises(Invalid):
        services.revoke_agent(actor=None, agent=Agent.objects.get(name="gamma"), reason="unused")
    assert not Revocation.objects.exists()
    assert not Notice.objects.exists()
    assert Agent.objects.filter(state="banned").count() == 0


def test_a_role_without_an_appointment_cannot_be_taken_from_one(
    site: LiveSite, heating: Domain
) -> None:
    catalog.create_subject_attribute(actor=None, domain=heating, name="x", type={"type": "int"})
    roles.create_role(actor=None, domain=heating, name="anybody", rules=[{}])
    with pytest.raises(InUse, match="without an appointment"):
        revoke(endings.holder(Principal.objects.get(name="X-104211"), "anybody"))


def test_the_impact_is_told_before_and_changes_nothing(site: LiveSite) -> None:
    revision = Domain.objects.get(name="heating").revision
    found = impact.foresee(actor=None, target=inspection())
    assert {(line.principal, line.type) for line in found.loses} == {("X-104212", "Statistics")}
    assert found.principals == 1
    assert found.agents == ("alpha",)
    assert found.roles == ("auditor", "inspector")
    assert found.appointments == ("inspection of X-104212",)
    assert not Revocation.objects.exists()
    assert Appointment.objects.get(name="inspection").closed is None
    assert Domain.objects.get(name="heating").revision == revision
    keys = impact.foresee(
        actor=None,
        target=endings.member(TrustGroup.objects.get(), Agent.objects.get(name="beta")),
    )
    assert keys.keys == ("key:consumer",)
    assert not KeyEpoch.objects.filter(state="staged").exists()


def test_an_agreement_closes_for_its_guests(plane: Plane) -> None:
    from tests.unit.distribution.test_guests import Town

    town = Town(plane)
    town.permit("officers", 'subject.role == "officer"')
    row = town.agree()
    plane.settle()
    plane.lease_all()
    revocation = revoke(endings.agreement(row, "provider"))
    chief = Principal.objects.get(name="chief").handle
    notice = Notice.objects.get(audience="agent:beta", domain=town.police)
    assert [floor["name"] for floor in notice.floors["handles"]] == [chief]
    plane.settle()
    body = body_of(revocation)
    assert body["subject"]["agreement"] == row.name
    assert body["unreachable"] == []
    row.refresh_from_db()
    assert row.state == "withdrawn"
    with pytest.raises(InUse):
        agreements.withdraw_agreement(actor=None, agreement=row)
