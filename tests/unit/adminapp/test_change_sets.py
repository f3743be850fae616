"""Change sets: planned, approved by a second person, applied whole, restored; broken glass."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.catalog import services as catalog
from adminapp.changes import files, services
from adminapp.changes.models import Announcement, ChangeSet
from adminapp.core.errors import AwaitingApproval, Conflict, Forbidden, InUse, Invalid
from adminapp.identity import services as identity
from adminapp.identity.erasure import erase_principal
from adminapp.identity.models import Domain, Principal, User
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment, Role
from tests.support.control_plane import World

State = ChangeSet.State


def policy(name: str = "more", **more: Any) -> dict[str, Any]:
    document = {
        "name": name,
        "action": "subscribe",
        "event_type": "Flight",
        "expression": 'subject.carrier == "UA"',
        **more,
    }
    return {"op": "put", "kind": "policy", "document": document}


@pytest.fixture
def second(world: World) -> User:
    """A colleague of the manager."""
    user = identity.create_user(actor=world.operator, username="nora")
    identity.set_membership(actor=world.operator, user=user, domain=world.flights, role="manager")
    return user


def ask(world: World, approval: str) -> None:
    identity.update_domain(actor=None, domain=world.flights, data={"approval": approval})
    world.flights.refresh_from_db()


def planned(world: World, *operations: dict[str, Any]) -> ChangeSet:
    row = services.draft(
        actor=world.manager, domain=world.flights, operations=list(operations), message="why"
    )
    services.plan(actor=world.manager, change_set=row)
    row.refresh_from_db()
    return row


# -- every edit belongs to one ---------------------------------------------------------------


def test_an_edit_is_a_change_set_and_one_revision(world: World) -> None:
    before = Domain.objects.get(pk=world.flights.pk).revision
    roles.create_role(actor=world.manager, domain=world.flights, name="pilot")
    row = ChangeSet.objects.latest("pk")
    assert (row.state, row.author, row.domain) == (State.APPLIED, world.manager, world.flights)
    assert row.revision == before + 1
    (entry,) = Entry.objects.filter(change_set=row.pk)
    assert (entry.action, entry.after["name"]) == ("role.created", "pilot")


def test_what_fails_leaves_no_change_set(world: World) -> None:
    count = ChangeSet.objects.count()
    with pytest.raises(Invalid):
        roles.create_role(actor=world.manager, domain=world.flights, name="not a name")
    assert ChangeSet.objects.count() == count


# -- plan and apply --------------------------------------------------------------------------


def test_a_plan_says_what_it_would_do_and_does_nothing(world: World) -> None:
    entries = Entry.objects.count()
    row = services.draft(actor=world.manager, domain=world.flights, operations=[policy()])
    plan = services.plan(actor=world.manager, change_set=row)
    assert [(each.op, each.key) for each in plan.changes] == [("create", "more")]
    gains = {(each.principal, each.type) for each in plan.effects.gains}
    assert gains == {("United", "Flight"), ("United", "Departure")}
    assert plan.effects.lost == 0
    assert plan.effects.encodings > 0
    assert plan.effects.agents == ("alpha", "gamma")
    assert not Policy.objects.filter(name="more").exists()
    assert Entry.objects.count() == entries + 1  # that it was drafted


def test_submitting_applies_what_was_planned(world: World) -> None:
    row = planned(world, policy(), {"op": "delete", "kind": "policy", "key": world.policy.name})
    before = Domain.objects.get(pk=world.flights.pk).revision
    row = services.submit(actor=world.manager, change_set=row)
    assert (row.state, row.revision) == (State.APPLIED, before + 1)
    assert set(Policy.objects.values_list("name", flat=True)) == {"more"}
    assert Entry.objects.filter(change_set=row.pk, action="policy.created").count() == 1


def test_a_change_is_whole_or_not_at_all(world: World) -> None:
    row = services.draft(
        actor=world.manager,
        domain=world.flights,
        operations=[policy(), policy("wrong", expression="subject.nothing == 1")],
    )
    plan = services.plan(actor=world.manager, change_set=row)
    (problem,) = plan.problems
    assert problem.pointer == "/operations/1/expression"
    with pytest.raises(Invalid, match="plan has problems"):
        services.submit(actor=world.manager, change_set=row)
    assert not Policy.objects.filter(name="more").exists()


def test_only_what_was_planned_is_submitted(world: World) -> None:
    row = services.draft(actor=world.manager, domain=world.flights, operations=[policy()])
    with pytest.raises(Invalid, match="plan the change first"):
        services.submit(actor=world.manager, change_set=row)


def test_a_stale_plan_is_refused_and_can_be_made_anew(world: World) -> None:
    row = planned(world, policy())
    roles.create_role(actor=world.manager, domain=world.flights, name="pilot")
    with pytest.raises(Conflict, match="changed since the plan"):
        services.submit(actor=world.manager, change_set=row)
    services.plan(actor=world.manager, change_set=row)
    row.refresh_from_db()
    assert services.submit(actor=world.manager, change_set=row).state == State.APPLIED


def test_a_draft_can_be_revised_and_withdrawn(world: World) -> None:
    row = planned(world, policy())
    row = services.revise(actor=world.manager, change_set=row, operations=[policy("other")])
    assert row.plan is None
    row = services.withdraw(actor=world.manager, change_set=row)
    assert row.state == State.WITHDRAWN
    with pytest.raises(InUse, match="is withdrawn"):
        services.submit(actor=world.manager, change_set=row)


@pytest.mark.parametrize(
    ("operation", "pointer"),
    [
        ({"op": "change"}, "/operations/0/kind"),
        ({"op": "put", "kind": "surprise"}, "/operations/0/kind"),
        ({"op": "put", "kind": "policy"}, "/operations/0/document"),
        ({"op": "delete", "kind": "policy"}, "/operations/0/key"),
        (
            {"op": "put", "kind": "policy", "document": {"name": "a"}, "key": "b"},
            "/operations/0/key",
        ),
        ({"op": "delete", "kind": "policy", "key": "a", "more": 1}, "/operations/0/more"),
    ],
)  # fmt: skip
def test_operations_are_read_strictly(
    world: World, operation: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(Invalid) as caught:
        services.draft(actor=world.manager, domain=world.flights, operations=[operation])
    assert caught.value.problems[0].pointer == pointer


@pytest.mark.parametrize("who", ["auditor", "stranger"])
def test_only_managers_draft_plan_and_decide(world: World, second: User, who: str) -> None:
    user = world.user(who)
    with pytest.raises(Forbidden):
        services.draft(actor=user, domain=world.flights, operations=[policy()])
    row = planned(world, policy())
    for deed in (services.plan, services.submit, services.withdraw):
        with pytest.raises(Forbidden):
            deed(actor=user, change_set=row)


# -- approval --------------------------------------------------------------------------------


def test_a_direct_edit_waits_where_the_domain_asks_a_second_person(
    world: World, second: User
) -> None:
    ask(world, "always")
    with pytest.raises(AwaitingApproval) as caught:
        roles.create_role(actor=world.manager, domain=world.flights, name="pilot")
    assert not Role.objects.filter(name="pilot").exists()
    row = ChangeSet.objects.get(pk=caught.value.change_set)
    assert (row.state, row.author) == (State.SUBMITTED, world.manager)
    assert row.plan["effects"]["lost"] == 0
    assert Announcement.objects.get(change_set=row).user == second
    row = services.approve(actor=second, change_set=row, comment="fine")
    assert row.state == State.APPLIED
    assert Role.objects.filter(name="pilot").exists()
    entry = Entry.objects.get(action="role.created", change_set=row.pk)
    assert entry.actor_name == world.manager.username
    assert [each.user for each in row.decisions.all()] == [second]


def test_a_planned_change_waits_as_itself(world: World, second: User) -> None:
    ask(world, "always")
    row = planned(world, policy())
    with pytest.raises(AwaitingApproval) as caught:
        services.submit(actor=world.manager, change_set=row)
    assert caught.value.change_set == row.pk
    row.refresh_from_db()
    assert row.state == State.SUBMITTED
    assert not Policy.objects.filter(name="more").exists()
    assert services.approve(actor=second, change_set=row).state == State.APPLIED
    assert Policy.objects.filter(name="more").exists()


def test_who_asks_for_a_second_person_is_changed_under_the_rule_of_before(
    world: World, second: User
) -> None:
    change = {"actor": world.manager, "domain": world.flights}
    identity.update_domain(**change, data={"approval": "always"})  # nobody was asked before
    with pytest.raises(AwaitingApproval):
        identity.update_domain(**change, data={"approval": "never"})
    world.flights.refresh_from_db()
    assert world.flights.approval == "always"


def test_nobody_approves_their_own_change(world: World, second: User) -> None:
    ask(world, "always")
    with pytest.raises(AwaitingApproval) as caught:
        roles.create_role(actor=world.manager, domain=world.flights, name="pilot")
    row = ChangeSet.objects.get(pk=caught.value.change_set)
    for deed in (services.approve, services.reject):
        with pytest.raises(Forbidden, match="second person"):
            deed(actor=world.manager, change_set=row, comment="me")


def test_a_rejection_says_why(world: World, second: User) -> None:
    ask(world, "always")
    with pytest.raises(AwaitingApproval) as caught:
        roles.create_role(actor=world.manager, domain=world.flights, name="pilot")
    row = ChangeSet.objects.get(pk=caught.value.change_set)
    with pytest.raises(Invalid, match="say why"):
        services.reject(actor=second, change_set=row, comment=" ")
    row = services.reject(actor=second, change_set=row, comment="no pilots here")
    assert row.state == State.REJECTED
    assert Announcement.objects.filter(user=world.manager, change_set=row).exists()


def test_what_changed_while_it_waited_must_be_planned_again(world: World, second: User) -> None:
    ask(world, "always")
    with pytest.raises(AwaitingApproval) as caught:
        roles.create_role(actor=world.manager, domain=world.flights, name="pilot")
    row = ChangeSet.objects.get(pk=caught.value.change_set)
    roles.create_role(actor=None, domain=world.flights, name="night")
    with pytest.raises(Conflict, match="plan again"):
        services.approve(actor=second, change_set=row)
    services.plan(actor=second, change_set=row)
    row.refresh_from_db()
    assert services.approve(actor=second, change_set=row).state == State.APPLIED


def test_a_revocation_never_waits(world: World, second: User) -> None:
    ask(world, "always")
    roles.end_appointment(actor=world.manager, appointment=world.appointment)
    policies.delete_policy(actor=world.manager, policy=world.policy)
    assert not Appointment.objects.active().filter(pk=world.appointment.pk).exists()
    assert not Policy.objects.filter(pk=world.policy.pk).exists()


def test_only_what_tells_of_people_waits_where_the_domain_says_so(
    world: World, second: User
) -> None:
    ask(world, "sensitive")
    roles.create_role(actor=world.manager, domain=world.flights, name="pilot")
    rest = {"actor": world.manager, "domain": world.flights, "action": "subscribe"}
    harmless = {"event_type": "Flight", "expression": "true", "attributes": ["carrier"]}
    policies.create_policy(name="harmless", **harmless, **rest)
    with pytest.raises(AwaitingApproval):
        policies.create_policy(name="tails", **{**harmless, "attributes": ["tail"]}, **rest)
    with pytest.raises(AwaitingApproval):
        policies.create_policy(name="all", **{**harmless, "attributes": None}, **rest)
    with pytest.raises(AwaitingApproval):
        catalog.create_event_type(
            actor=world.manager,
            domain=world.flights,
            name="Crew",
            attributes=[
                {
                    "name": "pilot",
                    "type": {"type": "string"},
                    "keys": ["tail"],
                    "pia_class": "identifying",
                    "pia_reason": "names a person",
                }
            ],
        )


def test_a_file_waits_as_a_whole(world: World, second: User) -> None:
    ask(world, "always")
    data = [("f.yaml", b"object: role\ndomain: flights\nname: night\n")]
    with pytest.raises(AwaitingApproval) as caught:
        files.apply(actor=world.manager, files=data, message="nights")
    row = ChangeSet.objects.get(pk=caught.value.change_set)
    assert (row.message, row.source) == ("nights", "file")
    services.approve(actor=second, change_set=row)
    assert Role.objects.filter(name="night").exists()


# -- restore ---------------------------------------------------------------------------------


def test_an_earlier_revision_comes_back_as_a_new_change(world: World) -> None:
    revision = Domain.objects.get(pk=world.flights.pk).revision
    then = files.export([world.flights])
    policies.delete_policy(actor=world.manager, policy=world.policy)
    roles.create_role(actor=world.manager, domain=world.flights, name="pilot")
    catalog.update_event_type(
        actor=world.manager, event_type=world.departure, data={"title": "Left"}
    )
    assert files.export([world.flights]) != then
    row = services.restore(actor=world.manager, domain=world.flights, revision=revision)
    assert row.restores == revision
    assert {(each["op"], each["kind"]) for each in row.operations} == {
        ("put", "policy"),
        ("delete", "role"),
        ("put", "event-type"),
    }
    services.plan(actor=world.manager, change_set=row)
    row.refresh_from_db()
    services.submit(actor=world.manager, change_set=row)
    assert files.export([world.flights]) == then


def test_nobody_who_was_revoked_comes_back_by_a_restore(world: World) -> None:
    revision = Domain.objects.get(pk=world.flights.pk).revision
    identity.mark_revoked(actor=world.manager, principal=world.united)
    roles.create_role(actor=world.manager, domain=world.flights, name="pilot")
    row = services.restore(actor=world.manager, domain=world.flights, revision=revision)
    assert [(each["op"], each["kind"]) for each in row.operations] == [("delete", "role")]


def test_a_revision_that_never_was_is_refused(world: World) -> None:
    now = Domain.objects.get(pk=world.flights.pk).revision
    with pytest.raises(Invalid, match="can go back to revisions"):
        services.restore(actor=world.manager, domain=world.flights, revision=now + 1)
    with pytest.raises(Invalid, match="is what it was"):
        services.restore(actor=world.manager, domain=world.flights, revision=now)


# -- break-glass -----------------------------------------------------------------------------


def broken(world: World, minutes: int = 30) -> ChangeSet:
    return services.break_glass(
        actor=world.manager,
        domain=world.flights,
        operations=[policy("emergency")],
        message="the field is on fire",
        minutes=minutes,
    )


def test_broken_glass_takes_effect_at_once_ends_by_itself_and_is_announced(
    world: World, second: User
) -> None:
    ask(world, "always")
    row = broken(world)
    found = Policy.objects.get(name="emergency")
    assert found.in_force()
    assert found.valid_until == row.urgent_until
    assert not found.in_force(timezone.now() + timedelta(minutes=31))
    heard = set(Announcement.objects.filter(change_set=row).values_list("user", flat=True))
    assert heard == {world.manager.pk, second.pk}
    assert row.review == ChangeSet.Review.DUE
    with pytest.raises(Forbidden, match="second person"):
        services.approve_any(actor=world.manager, change_set=row)
    row = services.approve_any(actor=second, change_set=row)
    assert row.review == ChangeSet.Review.APPROVED


def test_broken_glass_can_be_undone(world: World, second: User) -> None:
    ask(world, "always")
    row = services.undo_urgent(actor=second, change_set=broken(world), comment="false alarm")
    assert row.review == ChangeSet.Review.UNDONE
    assert not Policy.objects.filter(name="emergency").exists()
    with pytest.raises(InUse):
        services.undo_urgent(actor=second, change_set=row, comment="again")


def test_broken_glass_that_nobody_approves_is_undone_when_its_time_is_up(world: World) -> None:
    row = broken(world)
    assert services.sweep() == 0
    assert services.sweep(now=timezone.now() + timedelta(minutes=31)) == 1
    row.refresh_from_db()
    assert row.review == ChangeSet.Review.UNDONE
    assert not Policy.objects.filter(name="emergency").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"minutes": 0}, "lasts 1 to"),
        ({"minutes": 1441}, "lasts 1 to"),
        ({"message": " "}, "cannot wait"),
        ({"operations": []}, "what is granted"),
        ({"operations": [{"op": "delete", "kind": "policy", "key": "x"}]}, "takes nothing away"),
        ({"operations": [{"op": "put", "kind": "role", "document": {"name": "x"}}]}, "gives"),
    ],
)
def test_glass_is_broken_for_grants_alone(
    world: World, change: dict[str, Any], message: str
) -> None:
    wanted = {"operations": [policy("emergency")], "message": "fire", "minutes": 5, **change}
    with pytest.raises(Invalid, match=message):
        services.break_glass(actor=world.manager, domain=world.flights, **wanted)
    assert not ChangeSet.objects.filter(review=ChangeSet.Review.DUE).exists()


def test_glass_is_not_broken_to_replace_what_is_there(world: World) -> None:
    with pytest.raises(Invalid, match="give this one a new name"):
        services.break_glass(
            actor=world.manager,
            domain=world.flights,
            operations=[policy(world.policy.name)],
            message="fire",
            minutes=5,
        )


# -- erasure ---------------------------------------------------------------------------------


def test_an_erased_person_is_in_no_change_set(world: World) -> None:
    person = {"name": "Grace Hopper", "kind": "person", "attributes": {"carrier": "UA"}}
    given = {"principal": "Grace Hopper", "name": "licensed", "starts": "2026-01-01T00:00:00Z"}
    row = planned(
        world,
        {"op": "put", "kind": "principal", "document": person},
        {"op": "put", "kind": "appointment", "document": given},
        policy(),
    )
    assert "Grace" in str(row.plan["effects"]["gains"])
    services.submit(actor=world.manager, change_set=row)
    waiting = planned(world, {"op": "delete", "kind": "principal", "key": "Grace Hopper"})
    principal = Principal.objects.get(name="Grace Hopper")
    principal = identity.mark_revoked(actor=world.manager, principal=principal)
    erase_principal(actor=world.manager, principal=principal, reason="asked for it")
    for kept in (row, waiting):
        kept.refresh_from_db()
        assert "Grace" not in f"{kept.operations} {kept.plan}"
    assert [each["kind"] for each in row.operations] == ["policy"]
