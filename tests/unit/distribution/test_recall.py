"""What a restored database has forgotten is taken up again from the authority's journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from adminapp.core.authority import AuthorityError, get_authority
from adminapp.distribution import endings, services
from adminapp.distribution.models import EncodingEpoch, Notice, Revocation
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.policies import services as policies
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment, Role
from adminapp.trustgroups.models import KeyEpoch, TrustGroup
from policyengine.bundles import contexts
from policyengine.primitives.canonical import b64
from tests.support.audiences import Plane
from tests.support.kept_planes import PlaneKeeper
from tests.support.known_keys import held_tag_keys
from tests.unit.distribution.conftest import load
from tests.unit.distribution.test_numbering import lost

INSPECTOR = "X-104212"


@pytest.fixture
def running(plane: Plane, planes: PlaneKeeper) -> Domain:
    """JingFang with an inspector, everybody up to date."""
    planes.bring_up("heating with an inspector", plane, lambda: _with_an_inspector(plane))
    plane.lease_all()
    return Domain.objects.get(name="heating")


def _with_an_inspector(plane: Plane) -> None:
    heating = load(plane, "heating")
    roles.create_role(
        actor=None, domain=heating, name="inspector", rules=[{"appointments": ["inspection"]}]
    )
    policies.create_policy(
        actor=None, domain=heating, name="audit", action="subscribe", event_type="Statistics",
        expression='subject.role == "inspector"',
    )  # fmt: skip
    roles.appoint(actor=None, principal=inspector(), name="inspection")
    plane.settle()


def inspector() -> Principal:
    return Principal.objects.get(name=INSPECTOR)


def appointed() -> bool:
    return Appointment.objects.filter(name="inspection").active().exists()


KINDS: dict[str, tuple[Callable[[], endings.Target], Callable[[], bool]]] = {
    "principal": (
        lambda: endings.principal(inspector()), lambda: inspector().state == "active"
    ),
    "appointment": (
        lambda: endings.appointment(Appointment.objects.get(name="inspection")), appointed
    ),
    "role-holder": (lambda: endings.holder(inspector(), "inspector"), appointed),
    "role": (
        lambda: endings.role(Role.objects.get(name="inspector")),
        lambda: Role.objects.get(name="inspector").rules.count() > 0,
    ),
    "attribute": (
        lambda: endings.attribute(inspector(), "consumer"),
        lambda: "consumer" in inspector().attributes,
    ),
    "client-key": (
        lambda: endings.client_key(inspector()), lambda: bool(inspector().sealing_key)
    ),
    "trust-group-member": (
        lambda: endings.member(TrustGroup.objects.get(), Agent.objects.get(name="beta")),
        lambda: TrustGroup.objects.get().members.filter(name="beta").exists(),
    ),
    "agent": (
        lambda: endings.agents(Agent.objects.get(name="beta"), [Domain.objects.get()])[0],
        lambda: Agent.objects.get(name="beta").state == "active",
    ),
}  # fmt: skip


def revoke(target: endings.Target) -> Revocation:
    if target.kind == "principal":
        assert target.principal is not None
        return services.revoke_principal(actor=None, principal=target.principal, reason="over")
    return services.revoke(actor=None, target=target, reason="over")


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_was_revoked_since_the_backup_is_revoked_again(
    plane: Plane, running: Domain, kind: str
) -> None:
    target, there = KINDS[kind]
    with lost():
        before = revoke(target())
        plane.settle()
    assert there()
    assert services.recall(restored=True) == 1
    assert not there()
    again = Revocation.objects.get()
    assert (again.uid, again.kind, again.subject) == (before.uid, kind, before.subject)
    assert again.reason == "revoked before the database was restored"
    # Agents hold the first one's notices: those that follow are no copies of them.
    assert set(Notice.objects.values_list("number", flat=True)) == {2}
    assert services.recall(restored=True) == 0
    plane.settle()
    assert set(Notice.objects.values_list("state", flat=True)) == {"applied"}


def test_numbers_of_epochs_that_were_forgotten_are_given_to_no_other_keys(
    plane: Plane, running: Domain
) -> None:
    with lost():
        services.revoke_principal(actor=None, principal=held_tag_keys(INSPECTOR), reason="over")
        member = endings.member(TrustGroup.objects.get(), Agent.objects.get(name="beta"))
        revoke(member)
        plane.settle()
        assert EncodingEpoch.objects.get(state="current").number == 2
    held_tag_keys(INSPECTOR)
    # It is seen by itself, too: revisions were signed that the database does not know.
    assert services.recall() == 2
    plane.settle()
    services.advance_all()
    plane.settle()
    assert EncodingEpoch.objects.get(state="current").number == 3
    assert EncodingEpoch.objects.get(number=2).cause == "forgotten"
    held = KeyEpoch.objects.filter(group_ref="key:consumer")
    assert dict(held.values_list("number", "state"))[3] == "current"
    assert held.get(number=2).reason == "forgotten"


def test_where_nothing_was_restored_there_is_nothing_to_take_up(
    plane: Plane, running: Domain
) -> None:
    revoke(endings.principal(inspector()))
    plane.settle()
    epochs = list(EncodingEpoch.objects.values_list("number", "state"))
    assert services.recall() == 0
    assert Revocation.objects.count() == 1
    assert list(EncodingEpoch.objects.values_list("number", "state")) == epochs


def test_what_the_restored_database_does_not_have_needs_no_revocation(
    plane: Plane, running: Domain
) -> None:
    with lost():
        other = roles.appoint(actor=None, principal=inspector(), name="boilers")
        revoke(endings.appointment(other))
        revoke(endings.attribute(inspector(), "consumer"))
        plane.settle()
    # The attribute is gone already, by hand.
    revoke(endings.attribute(inspector(), "consumer"))
    assert services.recall(restored=True) == 0
    assert Revocation.objects.count() == 1


@pytest.mark.parametrize(
    "about", [{"a": 1}, {"a": "x" * 601}, {str(n): "x" for n in range(9)}, "text"]
)
def test_only_short_texts_about_notices_are_kept(plane: Plane, about: Any) -> None:
    client = get_authority()
    with pytest.raises(AuthorityError, match="few short texts"):
        client._call("sign_notices", payloads_b64=[b64(b"{}")], about=about)


def test_of_nothing_but_notices_anything_more_is_kept(plane: Plane) -> None:
    asked = {"purpose": "lease", "context_b64": b64(contexts.LEASE), "payload_b64": b64(b"{}")}
    with pytest.raises(AuthorityError, match="unknown"):
        get_authority()._call("sign", **asked, about={"kind": "principal"})
