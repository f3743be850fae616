"""Agents and clients of the release before at this control plane, beside those of this one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.core.authority import get_authority
from adminapp.distribution import endings, services
from adminapp.distribution import roots as trusted_roots
from adminapp.distribution.models import Bundle, Notice, Recipient, Revocation
from adminapp.identity.models import Domain, Principal
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment
from policyengine.bundles import messages
from tasks.authority.store import AuthorityState
from tests.support.audiences import Plane
from tests.support.earlier_audience import EarlierAudience, put_back
from tests.unit.distribution.test_roots import own_plane, rotate, state

__all__ = ["own_plane", "state"]


def change(domain: Domain, title: str) -> None:
    policy = Policy.objects.filter(domain=domain).order_by("pk").first()
    policies.update_policy(actor=None, policy=policy, data={"title": title})


def newest(address: str) -> Bundle:
    return Bundle.objects.filter(audience=address).order_by("-revision")[0]


def body_of(revocation: Revocation) -> dict[str, Any]:
    revocation.refresh_from_db()
    assert revocation.state == "complete"
    return messages.verify_receipt(revocation.receipt, get_authority().anchors().receipt)


def appointed(plane: Plane, heating: Domain) -> Appointment:
    """An appointment on which a role rests that may read statistics."""
    rules = [{"appointments": ["inspection"]}]
    roles.create_role(actor=None, domain=heating, name="inspector", rules=rules)
    policies.create_policy(
        actor=None,
        domain=heating,
        name="audit",
        action="subscribe",
        event_type="Statistics",
        expression='subject.role == "inspector"',
    )
    inspector = Principal.objects.get(name="X-104212")
    made = roles.appoint(actor=None, principal=inspector, name="inspection")
    plane.settle()
    plane.lease_all()
    return made


@pytest.fixture
def mixed(plane: Plane, heating: Domain) -> EarlierAudience:
    """Everybody up to date: alpha and every client of the release before, beta of this one."""
    clients = [address for address in plane.audiences if address.startswith("client:")]
    alpha = put_back(plane, "agent:alpha", *clients)[0]
    for name in ("beta", "gamma"):
        plane.audiences[f"agent:{name}"].reads = ("deltas",)
    plane.settle()
    plane.lease_all()
    return alpha


def earlier(plane: Plane) -> list[EarlierAudience]:
    return [one for one in plane.audiences.values() if isinstance(one, EarlierAudience)]


def test_changes_and_leases_reach_both(
    plane: Plane, heating: Domain, mixed: EarlierAudience
) -> None:
    for title in ("one", "two"):
        change(heating, title)
        plane.settle()
        plane.lease_all()
    assert newest("agent:beta").form == "delta"
    reached = [one for one in earlier(plane) if "heating" in one.bundles]
    assert len(reached) >= 3
    for one in earlier(plane):
        assert one.not_read == []
        assert one.refusals == []
    for one in reached:
        assert set(one.forms) == {"whole"}
        row = newest(one.address)
        assert (row.state, row.revision) == ("applied", one.state.revisions["heating"].revision)
        assert one.leases[-1].domains["heating"]["minimum_notice"] == 0
    # both hold the same revision of the same policy
    beta = plane.audiences["agent:beta"]
    assert mixed.state.revisions["heating"].revision == beta.state.revisions["heating"].revision


def test_the_end_of_a_customer_is_enforced_by_both(
    plane: Plane, heating: Domain, mixed: EarlierAudience
) -> None:
    victim = Principal.objects.get(name="X-104212")
    revocation = services.revoke_principal(actor=None, principal=victim, reason="moved away")
    plane.settle()
    plane.lease_all()
    plane.settle()
    services.advance_all()
    plane.settle()
    assert victim.handle in mixed.state.denied["heating"]
    assert mixed.leases[-1].domains["heating"]["minimum_notice"] == 1
    assert mixed.state.notices["heating"] == 1
    assert mixed.not_read == []
    body = body_of(revocation)
    assert body["unreachable"] == []
    assert "alpha" in {entry["agent"] for entry in body["notices"] if entry["acknowledged"]}


def test_a_notice_of_a_new_kind_stops_it_until_the_policy_is_there(
    plane: Plane, heating: Domain, mixed: EarlierAudience
) -> None:
    """It cannot read what the notice takes away: it serves nothing until its bundle knows."""
    inspection = appointed(plane, heating)
    revocation = services.revoke(
        actor=None, target=endings.appointment(inspection),
        reason="over",
    )  # fmt: skip
    notice = Notice.objects.get(audience="agent:alpha")
    (parcel,) = services.notice_parcels([notice.pk])
    assert mixed.take(parcel.body) == []
    assert mixed.not_read == ["notice"]
    assert mixed.state.notices["heating"] == 0
    # from T0 on its leases demand a notice that it does not have: it holds everything back
    plane.lease_all()
    assert mixed.leases[-1].domains["heating"]["minimum_notice"] == notice.number == 1
    plane.settle()
    plane.lease_all()
    # the bundle knows what the notice took, so that it serves again
    assert mixed.agent("heating").notices_through == 1
    assert mixed.state.notices["heating"] == 1
    assert mixed.state.revisions["heating"].revision >= notice.revision
    assert newest("agent:alpha").state == "applied"
    # nothing but its own word or the end of its last lease ends the revocation
    late = timezone.now() - timedelta(seconds=1)
    Notice.objects.filter(audience="agent:alpha").update(deadline=late)
    Recipient.objects.filter(audience="agent:alpha").update(leased_until=late)
    plane.settle()
    services.advance_all()
    body = body_of(revocation)
    assert body["unreachable"] == ["alpha"]


def test_a_rotated_root_ends_it_and_it_is_told_of(own_plane: Plane, state: AuthorityState) -> None:
    """It pins keys and follows no root: it gets nothing that it reads, and serves nothing."""
    plane = own_plane
    (alpha,) = put_back(plane, "agent:alpha")
    services.reconcile()
    plane.lease_all()
    Bundle.objects.filter(audience="agent:alpha").update(state="applied")
    granted = len(alpha.leases)
    rotate(state, "policy")
    plane.lease_all()
    services.reconcile()
    plane.settle()
    plane.lease_all()
    assert len(alpha.leases) == granted
    assert {"root", "lease", "bundle"} <= set(alpha.not_read)
    assert plane.audiences["agent:beta"].root is not None
    assert plane.audiences["agent:beta"].root.version == 2
    assert trusted_roots.agents_behind(2) == 1
