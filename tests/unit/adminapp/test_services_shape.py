"""Every service has the one shape: keyword-only, an actor first, one transaction."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.catalog import services as catalog
from adminapp.core.errors import Forbidden, Invalid
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.outbox.models import OutboxRow
from adminapp.policies import representation, variables
from adminapp.policies import services as policies
from adminapp.policies.models import EnvironmentVariable
from adminapp.privacy import services as privacy
from adminapp.roles import services as roles
from adminapp.trustgroups import services as trustgroups
from tests.support.control_plane import World, key

MODULES = (
    identity,
    catalog,
    roles,
    trustgroups,
    policies,
    variables,
    representation,
    privacy,
)
TOMORROW = timezone.now() + timedelta(days=1)
HELPERS = {"declared", "record_row", "note_token_use", "agents_holding"}


def services() -> list[tuple[str, Callable[..., Any]]]:
    return [
        (f"{module.__name__}.{name}", function)
        for module in MODULES
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__.startswith(module.__name__.removesuffix(".services"))
        and not name.startswith("_")
        and name not in HELPERS
    ]


@pytest.mark.parametrize(("name", "function"), services(), ids=[name for name, _ in services()])
def test_keyword_only_with_an_actor_first(name: str, function: Callable[..., Any]) -> None:
    parameters = list(inspect.signature(function).parameters.values())
    assert parameters[0].name == "actor"
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters)


def calls(world: World, actor: Any) -> dict[str, Callable[[], Any]]:
    """Every change of a domain, by somebody."""
    flights, version = world.flights, {"expected_version": None}

    def variable() -> EnvironmentVariable:
        found, _ = flights.environment.get_or_create(name="alarm", type={"type": "bool"})
        return found

    return {
        "update_domain": lambda: identity.update_domain(
            actor=actor, domain=flights, data={"title": "x"}, **version
        ),
        "set_membership": lambda: identity.set_membership(
            actor=actor, user=world.stranger, domain=flights, role="manager"
        ),
        "remove_membership": lambda: identity.remove_membership(
            actor=actor, membership=flights.memberships.first()
        ),
        "delegate": lambda: identity.delegate(
            actor=actor, user=world.stranger, domain=flights, roles=["airline"], ends=TOMORROW
        ),
        "end_delegation": lambda: identity.end_delegation(
            actor=actor,
            delegation=flights.delegations.get_or_create(
                user=world.operator, defaults={"roles": ["airline"], "ends": TOMORROW}
            )[0],
        ),
        "create_principal": lambda: identity.create_principal(
            actor=actor, domain=flights, name="New", kind="person"
        ),
        "update_principal": lambda: identity.update_principal(
            actor=actor, principal=world.united, data={"kind": "person"}
        ),
        "register_credentials": lambda: identity.register_credentials(
            actor=actor, principal=world.united, sealing_key=key(3), verify_key=key(4)
        ),
        "mark_revoked": lambda: identity.mark_revoked(actor=actor, principal=world.united),
        "delete_principal": lambda: identity.delete_principal(actor=actor, principal=world.airport),
        "create_attribute_key": lambda: catalog.create_attribute_key(
            actor=actor, domain=flights, name="new"
        ),
        "update_attribute_key": lambda: catalog.update_attribute_key(
            actor=actor, attribute_key=world.tail, data={"title": "x"}
        ),
        "delete_attribute_key": lambda: catalog.delete_attribute_key(
            actor=actor, attribute_key=flights.attribute_keys.get_or_create(name="unused")[0]
        ),
        "create_subject_attribute": lambda: catalog.create_subject_attribute(
            actor=actor, domain=flights, name="hub", type={"type": "string"}
        ),
        "update_subject_attribute": lambda: catalog.update_subject_attribute(
            actor=actor,
            subject_attribute=flights.subject_attributes.get(),
            data={"type": {"type": "enum", "values": ["AA", "DL", "UA", "WN"]}},
        ),
        "create_event_type": lambda: catalog.create_event_type(
            actor=actor, domain=flights, name="New"
        ),
        "update_event_type": lambda: catalog.update_event_type(
            actor=actor, event_type=world.flight, data={"title": "x"}
        ),
        "delete_event_type": lambda: catalog.delete_event_type(
            actor=actor, event_type=world.departure
        ),
        "create_role": lambda: roles.create_role(actor=actor, domain=flights, name="new"),
        "update_role": lambda: roles.update_role(
            actor=actor, role=world.airline, data={"title": "x"}
        ),
        "appoint": lambda: roles.appoint(actor=actor, principal=world.airport, name="licensed"),
        "end_appointment": lambda: roles.end_appointment(
            actor=actor, appointment=world.appointment
        ),
        "create_trust_group": lambda: trustgroups.create_trust_group(
            actor=actor, domain=flights, name="new"
        ),
        "update_trust_group": lambda: trustgroups.update_trust_group(
            actor=actor, trust_group=world.group, members=[world.alpha, world.beta]
        ),
        "delete_trust_group": lambda: trustgroups.delete_trust_group(
            actor=actor, trust_group=world.group
        ),
        "create_policy": lambda: policies.create_policy(
            actor=actor,
            domain=flights,
            name="new",
            action="publish",
            event_type="Flight",
            expression="true",
        ),
        "update_policy": lambda: policies.update_policy(
            actor=actor, policy=world.policy, data={"title": "x"}
        ),
        "restore_policy_version": lambda: policies.restore_policy_version(
            actor=actor, policy=world.policy, number=1
        ),
        "delete_policy": lambda: policies.delete_policy(actor=actor, policy=world.policy),
        "declare_variable": lambda: variables.declare_variable(
            actor=actor, domain=flights, name="new", type={"type": "bool"}
        ),
        "update_variable": lambda: variables.update_variable(
            actor=actor, variable=variable(), data={"title": "x"}
        ),
        "set_variable": lambda: variables.set_variable(
            actor=actor, variable=variable(), value=True
        ),
        "delete_variable": lambda: variables.delete_variable(actor=actor, variable=variable()),
        "represent": lambda: representation.represent(
            actor=actor, user=world.stranger, principal=world.united
        ),
        "end_representation": lambda: representation.end_representation(
            actor=actor,
            representative=world.airport.representatives.get_or_create(user=world.operator)[0],
        ),
        "classify_attribute": lambda: privacy.classify_attribute(
            actor=actor,
            attribute=world.departure.attributes.get(),
            pia_class="quasi-identifying",
            reason="rare delays",
        ),
        "set_split": lambda: privacy.set_split(
            actor=actor,
            event_type=world.flight,
            groups=[{"overlay": "a", "attributes": ["carrier", "origin", "tail"]}],
        ),
    }


def test_only_managers_and_operators_change_a_domain(world: World) -> None:
    for actor in (world.auditor, world.stranger):
        for name, call in calls(world, actor).items():
            entries = Entry.objects.count()
            with pytest.raises(Forbidden):
                call()
            assert Entry.objects.count() == entries, name


UNHEARD = {
    "set_membership",
    "remove_membership",
    "delegate",
    "end_delegation",
    "represent",
    "end_representation",
    "update_attribute_key",
}


def test_every_change_is_recorded_and_given_to_the_outbox(world: World) -> None:
    """One entry, one revision, one row of work; nothing for what agents need not know."""
    for name in calls(world, world.manager):
        with transaction.atomic():
            before = _counts(world)
            calls(world, world.manager)[name]()
            after = _counts(world)
            assert after[0] == before[0] + 1, name
            heard = 0 if name in UNHEARD else 1
            assert (after[1], after[2]) == (before[1] + heard, before[2] + heard), name
            entry = Entry.objects.order_by("-sequence")[0]
            assert (entry.actor_name, entry.domain_name) == ("mona", "flights")
            assert (entry.before != entry.after) == (name != "restore_policy_version"), name
            transaction.set_rollback(True)


def _counts(world: World) -> tuple[int, int, int]:
    revision = Domain.objects.get(pk=world.flights.pk).revision
    return Entry.objects.count(), revision, OutboxRow.objects.count()


def test_a_service_that_fails_half_way_leaves_nothing(world: World) -> None:
    before = _counts(world)
    with pytest.raises(Invalid):
        catalog.create_event_type(
            actor=world.manager,
            domain=world.flights,
            name="Broken",
            parent=world.flight,
            attributes=[{"name": "delay", "type": {"type": "string"}}],  # an int in Departure
        )
    assert _counts(world) == before
    assert not world.flights.event_types.filter(name="Broken").exists()
