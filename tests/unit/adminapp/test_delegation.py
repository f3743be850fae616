"""A part of a domain in a colleague's hands: what it covers, for how long, and who may give it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import IntegrityError, transaction
from django.utils import timezone

from adminapp.audit import selectors as audit
from adminapp.audit.models import Entry
from adminapp.catalog import services as catalog
from adminapp.core.errors import Forbidden, InUse, Invalid
from adminapp.identity import permissions, selectors, services
from adminapp.identity.models import Agent, Delegation, Domain, Principal, User
from adminapp.policies import services as policies
from adminapp.roles import services as roles
from tests.support.control_plane import World

SOON = timedelta(hours=1)


def give(world: World, user: User, **more: object) -> Delegation:
    values = {"roles": ["airline"], "event_types": ["Flight"], "ends": timezone.now() + SOON}
    return services.delegate(
        actor=world.manager, user=user, domain=world.flights, **{**values, **more}
    )


def may(user: User, world: World, kind: str, key: str, below: str = "") -> bool:
    return permissions.may_change(user, world.flights, kind, key, below=below)


def lapse(row: Delegation) -> None:
    """Let the time pass that the delegation had."""
    past = timezone.now() - timedelta(seconds=1)
    Delegation.objects.filter(pk=row.pk).update(begins=past - SOON, ends=past)


def test_a_delegate_sees_the_whole_domain_at_once_and_nothing_after(
    world: World, colleague: User
) -> None:
    def seen() -> tuple[int, ...]:
        return tuple(
            model.objects.visible_to(colleague).count() for model in (Domain, Principal, Agent)
        )

    assert seen() == (0, 0, 0)
    assert not permissions.may_view(colleague, world.flights)
    row = give(world, colleague)
    assert seen() == (1, 2, 3)
    assert permissions.may_view(colleague, world.flights)
    assert audit.visible_to(colleague).exists()
    assert not permissions.may_manage(colleague, world.flights)
    assert not permissions.may_view(colleague, world.heating)
    lapse(row)
    assert seen() == (0, 0, 0)
    assert not permissions.may_view(colleague, world.flights)
    assert not audit.visible_to(colleague).exists()
    assert not may(colleague, world, "role", "airline")


def test_a_member_with_a_delegation_sees_the_domain_once(world: World) -> None:
    give(world, world.auditor)
    give(world, world.auditor, roles=[])
    assert [row.name for row in selectors.domains(world.auditor)] == ["flights"]
    assert selectors.principals(world.auditor).count() == 2


def test_what_is_covered(world: World, delegate: User) -> None:
    catalog.create_event_type(actor=world.manager, domain=world.flights, name="Weather")
    roles.create_role(
        actor=world.manager, domain=world.flights, name="crew", rules=[{"appointments": ["hired"]}]
    )
    policies.create_policy(
        actor=world.manager,
        domain=world.flights,
        name="weather",
        action="subscribe",
        event_type="Weather",
        expression="true",
    )
    covered = {
        ("role", "airline"),
        ("appointment", "licensed"),
        ("appointment-rule", "licensed"),
        ("event-type", "Flight"),
        ("event-type", "Departure"),
        ("policy", "own flights"),
    }
    others = {
        ("role", "crew"),
        ("role", "new"),
        ("appointment", "hired"),
        ("appointment", "airline"),
        ("event-type", "Weather"),
        ("event-type", "New"),
        ("policy", "weather"),
        ("policy", "new"),
        ("principal", "United"),
        ("attribute-key", "tail"),
        ("domain", "flights"),
    }
    for kind, key in covered | others:
        assert may(world.manager, world, kind, key)
        assert may(world.operator, world, kind, key)
        assert permissions.may_change(None, world.flights, kind, key)
        assert may(delegate, world, kind, key) == ((kind, key) in covered), (kind, key)
        for nobody in (world.auditor, world.stranger, AnonymousUser()):
            assert not may(nobody, world, kind, key)
    with pytest.raises(Forbidden, match="`crew`"):
        permissions.require_change(delegate, world.flights, "role", "crew")
    permissions.require_change(delegate, world.flights, "role", "airline")
    assert not permissions.may_change(delegate, world.heating, "role", "airline")


def test_new_objects_are_covered_by_their_place(world: World, delegate: User) -> None:
    catalog.create_event_type(actor=world.manager, domain=world.flights, name="Weather")
    assert may(delegate, world, "event-type", "Arrival", below="Departure")
    assert may(delegate, world, "policy", "new", below="Departure")
    assert not may(delegate, world, "event-type", "Storm", below="Weather")
    assert not may(delegate, world, "policy", "new", below="Weather")
    assert not may(delegate, world, "event-type", "Departure", below="Weather")
    assert not may(delegate, world, "policy", "own flights", below="Weather")
    assert may(delegate, world, "policy", "own flights", below="Departure")


def test_an_appointment_that_opens_other_roles_is_not_covered(world: World, delegate: User) -> None:
    """Else a delegate would write it into a rule of their own role, and give it."""
    roles.create_role(
        actor=world.manager,
        domain=world.flights,
        name="captain",
        rules=[{"appointments": ["licensed"]}],
    )
    assert not may(delegate, world, "appointment", "licensed")


def test_an_inherited_type_covers_what_hangs_below_it(world: World, colleague: User) -> None:
    child = services.create_domain(
        actor=world.operator, name="child", title="Child", parent=world.flights
    )
    Delegation.objects.create(
        user=colleague, domain=child, event_types=["Flight"], ends=timezone.now() + SOON
    )
    assert permissions.may_change(colleague, child, "policy", "new", below="Departure")
    assert not permissions.may_change(colleague, world.flights, "policy", "new", below="Flight")


def test_only_managers_delegate(world: World, delegate: User) -> None:
    row = Delegation.objects.get(user=delegate)
    for actor in (delegate, world.auditor, world.stranger):
        entries = Entry.objects.count()
        with pytest.raises(Forbidden):
            services.delegate(
                actor=actor,
                user=world.auditor,
                domain=world.flights,
                roles=["airline"],
                ends=timezone.now() + SOON,
            )
        with pytest.raises(Forbidden):
            services.end_delegation(actor=actor, delegation=row)
        assert Entry.objects.count() == entries
    assert Delegation.objects.count() == 1


@pytest.mark.parametrize(
    ("wrong", "pointer", "reason"),
    [
        ({"ends": -SOON}, "/ends", "in the future"),
        ({"ends": timedelta()}, "/ends", "in the future"),
        ({"ends": timedelta(days=367)}, "/ends", "366 days"),
        ({"roles": [], "event_types": []}, "", "at least one"),
        ({"roles": ["airlin"]}, "/roles", "airlin"),
        ({"event_types": ["Train"]}, "/event_types", "Train"),
    ],
)
def test_what_cannot_be_delegated(
    wrong: dict[str, object], pointer: str, reason: str, world: World, colleague: User
) -> None:
    if isinstance(wrong.get("ends"), timedelta):
        wrong = {"ends": timezone.now() + wrong["ends"]}
    with pytest.raises(Invalid, match=reason) as failure:
        give(world, colleague, **wrong)
    assert failure.value.problems[0].pointer == pointer
    assert not Delegation.objects.exists()


def test_a_misspelt_name_gets_a_suggestion(world: World, colleague: User) -> None:
    with pytest.raises(Invalid) as failure:
        give(world, colleague, event_types=["Fligth"])
    assert failure.value.problems[0].suggestion == "Flight"


def test_nobody_who_is_gone_gets_one(world: World, colleague: User) -> None:
    services.deactivate_user(actor=world.operator, user=colleague)
    colleague.refresh_from_db()
    with pytest.raises(Invalid, match="no longer sign in"):
        give(world, colleague)


def test_ending_works_at_once_and_keeps_the_record(world: World, delegate: User) -> None:
    row = Delegation.objects.get(user=delegate)
    assert may(delegate, world, "role", "airline")
    ended = services.end_delegation(actor=world.manager, delegation=row)
    assert not may(delegate, world, "role", "airline")
    assert not Domain.objects.visible_to(delegate).exists()
    with pytest.raises(InUse, match="ended already"):
        services.end_delegation(actor=world.manager, delegation=ended)
    actions = list(
        Entry.objects.filter(object_type="delegation").values_list("action", "domain_name")
    )
    assert actions == [("delegation.given", "flights"), ("delegation.ended", "flights")]
    entry = Entry.objects.get(action="delegation.given")
    assert entry.after["roles"] == ["airline"]
    assert entry.after["user"] == delegate.username


def test_the_database_keeps_ends_after_beginnings(world: World, colleague: User) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Delegation.objects.create(
            user=colleague, domain=world.flights, ends=timezone.now() - timedelta(days=1)
        )
