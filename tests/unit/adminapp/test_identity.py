"""Domains, agents, principals, credentials and tokens."""

from __future__ import annotations

import re

import pytest

from adminapp.audit.models import Entry
from adminapp.core.errors import Conflict, Forbidden, InUse, Invalid
from adminapp.identity import selectors, services
from adminapp.identity.models import (
    Agent,
    ApiToken,
    Domain,
    Membership,
    Overlay,
    Principal,
    User,
)
from adminapp.outbox.models import OutboxRow
from policyengine.primitives.canonical import b64
from tests.support.control_plane import World, key


def test_handles_say_nothing_and_differ(world: World) -> None:
    handles = set(Principal.objects.values_list("handle", flat=True))
    assert len(handles) == 2
    assert all(re.fullmatch(r"p-[0-9a-f]{16}", handle) for handle in handles)


def test_a_change_is_compiled_once(world: World) -> None:
    before = Domain.objects.get(pk=world.flights.pk).revision
    revision = services.record_change(
        actor=world.manager,
        domain=world.flights,
        action="thing.changed",
        object_type="thing",
        object_id=1,
        object_name="thing",
        before=None,
        after={},
    )
    assert revision == before + 1
    row = OutboxRow.objects.get(key=f"compile:{world.flights.pk}:{revision}")
    assert (row.topic, row.payload) == (
        "compile",
        {"domain": world.flights.pk, "revision": revision},
    )


def test_a_change_of_the_platform_concerns_every_domain(world: World) -> None:
    before = dict(Domain.objects.values_list("name", "revision"))
    services.set_agent_state(actor=world.operator, agent=world.beta, state="banned")
    after = dict(Domain.objects.values_list("name", "revision"))
    assert after == {name: revision + 1 for name, revision in before.items()}


@pytest.mark.parametrize(
    ("sealing", "verify", "pointer"),
    [
        (b"x" * 31, b"x" * 32, "/sealing_key"),
        (b"x" * 32, b"x" * 33, "/verify_key"),
        ("not base64!", key(1), "/sealing_key"),
        (key(1), b64(b"short"), "/verify_key"),
        ("", key(1), "/sealing_key"),
    ],
)
def test_keys_have_32_bytes(
    sealing: bytes | str, verify: bytes | str, pointer: str, world: World
) -> None:
    with pytest.raises(Invalid) as failure:
        services.register_credentials(
            actor=world.manager, principal=world.united, sealing_key=sealing, verify_key=verify
        )
    assert failure.value.problems[0].pointer == pointer
    with pytest.raises(Invalid):
        services.register_agent(
            actor=world.operator,
            name="delta",
            overlay=world.overlay_a,
            sealing_key=sealing,
            verify_key=verify,
        )
    assert not Agent.objects.filter(name="delta").exists()


def test_credentials_as_bytes_or_text(world: World) -> None:
    row = services.register_credentials(
        actor=world.manager, principal=world.united, sealing_key=bytes([5]) * 32, verify_key=key(6)
    )
    assert (row.sealing_key, row.verify_key) == (key(5), key(6))


def test_a_revoked_principal_gets_no_credentials_and_can_go(world: World) -> None:
    services.register_credentials(
        actor=world.manager, principal=world.united, sealing_key=key(5), verify_key=key(6)
    )
    with pytest.raises(InUse, match="revoke it first"):
        services.delete_principal(actor=world.manager, principal=world.united)
    revoked = services.mark_revoked(actor=world.manager, principal=world.united)
    assert revoked.revoked_at is not None
    with pytest.raises(Conflict):
        services.mark_revoked(actor=world.manager, principal=world.united)
    with pytest.raises(InUse):
        services.register_credentials(
            actor=world.manager, principal=revoked, sealing_key=key(7), verify_key=key(8)
        )
    services.delete_principal(actor=world.manager, principal=revoked)
    assert not Principal.objects.filter(name="United").exists()


def test_home_agents(world: World) -> None:
    def homes() -> dict[str, str]:
        fresh = selectors.principals(world.manager).get(pk=world.united.pk)
        return {home.overlay.name: home.agent.name for home in fresh.homes.all()}

    assert homes() == {"a": "alpha", "b": "gamma"}
    services.update_principal(
        actor=world.manager, principal=world.united, data={}, agents=[world.beta]
    )
    assert homes() == {"a": "beta"}
    with pytest.raises(Invalid, match="not two"):
        services.update_principal(
            actor=world.manager, principal=world.united, data={}, agents=[world.alpha, world.beta]
        )
    services.set_agent_state(actor=world.operator, agent=world.gamma, state="banned")
    with pytest.raises(Invalid, match="banned agents cannot be a home: gamma"):
        services.update_principal(
            actor=world.manager,
            principal=world.united,
            data={},
            agents=[Agent.objects.get(name="gamma")],
        )
    assert homes() == {"a": "beta"}
    assert [agent.name for agent in selectors.serving_agents(world.flights)] == ["alpha", "beta"]


def test_attributes_are_those_declared(world: World) -> None:
    for values in ({"carrier": "XX"}, {"carrier": 1}, {"other": "UA"}):
        with pytest.raises(Invalid):
            services.update_principal(
                actor=world.manager, principal=world.united, data={"attributes": values}
            )
    with pytest.raises(Invalid, match="cannot be set"):
        services.update_principal(
            actor=world.manager, principal=world.united, data={"handle": "p-0"}
        )


def test_domains_form_a_tree(world: World) -> None:
    child = services.create_domain(
        actor=world.operator, name="child", title="Child", parent=world.flights
    )
    with pytest.raises(Invalid, match="below itself"):
        services.update_domain(actor=world.operator, domain=world.flights, data={"parent": child})
    with pytest.raises(InUse):
        services.delete_domain(actor=world.operator, domain=world.flights)
    services.delete_domain(actor=world.operator, domain=child)
    assert Entry.objects.order_by("-sequence")[0].action == "domain.deleted"


@pytest.mark.parametrize("name", ["", "Flights", "a b", "-a", "a-", "a_b", "x" * 65, "a\n", "é"])
def test_names_fit_queue_names(name: str, world: World) -> None:
    with pytest.raises(Invalid):
        services.create_domain(actor=world.operator, name=name, title="x")


@pytest.mark.parametrize("seconds", [4, 0, 86_401])
def test_leases_have_limits(seconds: int, world: World) -> None:
    with pytest.raises(Invalid):
        services.update_domain(
            actor=world.manager, domain=world.flights, data={"lease_seconds": seconds}
        )


def test_memberships(world: World) -> None:
    row = services.set_membership(
        actor=world.manager, user=world.auditor, domain=world.flights, role="manager"
    )
    assert (row.role, row.version) == ("manager", 2)
    services.remove_membership(actor=world.manager, membership=row)
    assert not Membership.objects.filter(user=world.auditor).exists()
    assert not Domain.objects.visible_to(world.auditor).exists()
    with pytest.raises(Invalid):
        services.set_membership(
            actor=world.manager, user=world.auditor, domain=world.flights, role="king"
        )


def test_visible_rows(world: World) -> None:
    for model, manager, stranger in ((Domain, 1, 1), (Principal, 2, 0), (Overlay, 2, 2)):
        assert model.objects.visible_to(world.operator).count() == model.objects.count()
        assert model.objects.visible_to(world.manager).count() == manager
        assert model.objects.visible_to(world.stranger).count() == stranger
    nobody = User.objects.create(username="nobody")
    assert not Overlay.objects.visible_to(nobody).exists()
    world.operator.is_active = False
    assert not Domain.objects.visible_to(world.operator).exists()


def test_tokens(world: World) -> None:
    token, secret = services.issue_token(
        actor=world.manager, user=world.manager, name="robot", scopes=["read"], days=1
    )
    assert selectors.token_by_secret(secret) == token
    assert selectors.token_by_secret(secret + "x") is None
    with pytest.raises(Forbidden):
        services.issue_token(
            actor=world.operator, user=world.manager, name="spy", scopes=["read"], days=1
        )
    with pytest.raises(Forbidden):
        services.revoke_token(actor=world.stranger, token=token)
    services.revoke_token(actor=world.operator, token=token)
    assert selectors.token_by_secret(secret) is None
    recorded = [(each.before, each.after) for each in Entry.objects.filter(object_type="token")]
    assert len(recorded) == 2
    assert secret not in str(recorded)
    assert not ApiToken.objects.exists()


def test_passwords(world: World) -> None:
    for weak in ("short", "password12345", "123456789012345"):
        with pytest.raises(Invalid) as failure:
            services.set_password(actor=world.manager, user=world.manager, password=weak)
        assert failure.value.problems[0].pointer == "/password"
    services.set_password(actor=world.manager, user=world.manager, password="a long walk home 7")
    world.manager.refresh_from_db()
    assert world.manager.password.startswith("argon2$")
    with pytest.raises(Forbidden):
        services.set_password(actor=world.manager, user=world.auditor, password="a long walk 7")
    recorded = [(each.before, each.after) for each in Entry.objects.all()]
    assert "a long walk" not in str(recorded)


def test_agents_in_use_keep_their_overlay(world: World) -> None:
    with pytest.raises(InUse):
        services.delete_overlay(actor=world.operator, overlay=world.overlay_b)
    empty = services.create_overlay(actor=world.operator, name="c", title="C")
    services.delete_overlay(actor=world.operator, overlay=empty)
    assert Overlay.objects.count() == 2
