"""Event types, keys and declarations that a domain has from the domains above it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from adminapp.catalog import mapping, selectors, services
from adminapp.catalog.models import EventType
from adminapp.core.errors import InUse, Invalid
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.policies import reach
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from tests.support.control_plane import CARRIER, World, attribute

SEALED = attribute("tail", keys=["tail"], pia_class="identifying", pia_reason="names a plane")
FLIGHT = [
    {"name": "carrier", "type": CARRIER, "pia_class": "quasi-identifying"},
    attribute("origin", pia_class="quasi-identifying"),
    SEALED,
]


@pytest.fixture
def regional(world: World) -> Domain:
    """A domain below `flights`."""
    return identity.create_domain(
        actor=world.operator, name="regional", title="Regional", parent=world.flights
    )


def create(domain: Domain, name: str, **more: Any) -> EventType:
    return services.create_event_type(actor=None, domain=domain, name=name, **more)


def origins(domain: Domain) -> dict[str, str]:
    return {each.row.name: each.origin for each in selectors.effective_types(domain)}


def test_what_a_domain_has_from_above(world: World, regional: Domain) -> None:
    create(regional, "Hop", parent=world.departure)
    create(regional, "Flight", attributes=FLIGHT)
    assert origins(regional) == {
        "Departure": "inherited",
        "Flight": "overridden",
        "Hop": "local",
    }
    assert origins(world.flights) == {"Departure": "local", "Flight": "local"}
    nodes = {node.type.name: (node.depth, node.origin) for node in selectors.tree(regional)}
    assert nodes == {
        "Flight": (0, "overridden"),
        "Departure": (1, "inherited"),
        "Hop": (2, "local"),
    }
    assert selectors.paths(selectors.domain_types(regional)) == {
        "Flight": "Flight",
        "Departure": "Flight/Departure",
        "Hop": "Flight/Departure/Hop",
    }


def test_an_override_is_the_parent_of_what_is_inherited(world: World, regional: Domain) -> None:
    create(regional, "Flight", attributes=[*FLIGHT, attribute("region")])
    below = {each.name for each in selectors.engine_types(regional).attributes("Departure")}
    assert below == {"carrier", "origin", "tail", "region", "delay"}
    above = {each.name for each in selectors.engine_types(world.flights).attributes("Departure")}
    assert "region" not in above


def test_keys_and_declarations_are_inherited(world: World, regional: Domain) -> None:
    create(regional, "Charter", attributes=[SEALED])
    assert selectors.subject_schema(regional).keys() == {"subject.carrier"}
    services.create_attribute_key(actor=None, domain=regional, name="crew")
    keys = {each.row.name: each.origin for each in selectors.effective_attribute_keys(regional)}
    assert keys == {"crew": "local", "tail": "inherited"}
    assert "crew" not in {e.row.name for e in selectors.effective_attribute_keys(world.flights)}
    with pytest.raises(Invalid, match="no attribute key"):
        create(world.flights, "Charter", attributes=[attribute("x", keys=["crew"])])


def test_an_override_keeps_what_inherited_policies_name(world: World, regional: Domain) -> None:
    with pytest.raises(Invalid, match="own flights"):
        create(regional, "Flight", attributes=[attribute("origin"), SEALED])  # without a carrier
    assert origins(regional)["Flight"] == "inherited"


def test_an_override_keeps_what_inherited_sub_types_repeat(world: World, regional: Domain) -> None:
    services.update_event_type(
        actor=world.manager,
        event_type=world.departure,
        data={},
        attributes=[
            {"name": "delay", "type": {"type": "int", "min": -60, "max": 3000}},
            attribute("tail", keys=["tail"]),
        ],
    )
    with pytest.raises(Invalid, match="changes nothing but its keys"):
        create(
            regional,
            "Flight",
            attributes=[*FLIGHT[:2], {**SEALED, "pia_class": "confidential"}],
        )


def test_a_change_above_is_checked_below(world: World, regional: Domain) -> None:
    create(regional, "Hop", parent=world.departure, attributes=[attribute("gate")])
    with pytest.raises(Invalid, match="in `regional`: attribute `gate` of `Hop` is inherited"):
        services.update_event_type(
            actor=world.manager,
            event_type=world.flight,
            data={},
            attributes=[*FLIGHT, {"name": "gate", "type": {"type": "int"}}],
        )
    with pytest.raises(InUse):
        services.delete_event_type(actor=world.manager, event_type=world.departure)


def test_a_change_above_raises_the_revision_below(world: World, regional: Domain) -> None:
    before = Domain.objects.get(pk=regional.pk).revision
    services.update_event_type(
        actor=world.manager, event_type=world.flight, data={"title": "All flights"}
    )
    assert Domain.objects.get(pk=regional.pk).revision == before + 1


def test_a_parent_stands_in_the_domain_or_above(world: World, regional: Domain) -> None:
    hop = create(regional, "Hop", parent=world.departure)
    with pytest.raises(Invalid, match="no type of this domain"):
        create(world.flights, "Leap", parent=hop)


def test_a_narrower_declaration_below_is_checked_against_principals(
    world: World, regional: Domain
) -> None:
    identity.create_principal(
        actor=None, domain=regional, name="Hopper", kind="subscriber", attributes={"carrier": "DL"}
    )
    with pytest.raises(Invalid, match="Hopper"):
        services.create_subject_attribute(
            actor=None,
            domain=regional,
            name="carrier",
            type={"type": "enum", "values": ["AA"]},
        )


def test_removing_an_override_goes_back_to_the_original(world: World, regional: Domain) -> None:
    own = create(regional, "Flight", attributes=FLIGHT)
    policy = policies.create_policy(
        actor=None,
        domain=regional,
        name="carriers",
        action="subscribe",
        event_type=own,
        expression="has(subject.carrier)",
    )
    hop = create(regional, "Hop", parent=own)
    services.delete_event_type(actor=None, event_type=own)
    assert Policy.objects.get(pk=policy.pk).event_type == world.flight
    assert EventType.objects.get(pk=hop.pk).parent == world.flight
    assert origins(regional)["Flight"] == "inherited"


def test_reading_the_model_costs_the_same_for_many_types(world: World, regional: Domain) -> None:
    def cost() -> int:
        domain = Domain.objects.get(pk=regional.pk)
        with CaptureQueriesContext(connection) as queries:
            selectors.tree(domain)
            selectors.wire_types(domain)
            selectors.subject_schema(domain)
        return len(queries)

    few = cost()
    for number in range(30):
        EventType.objects.create(domain=world.flights, name=f"T{number}", parent=world.flight)
    assert cost() == few


def test_principals_are_read_only_when_their_declarations_change(world: World) -> None:
    said = 'SELECT "identity_principal"."name" '  # behind DECLARE CURSOR on PostgreSQL

    def reads(act: Any) -> int:
        with CaptureQueriesContext(connection) as queries:
            act()
        return sum(said in each["sql"] for each in queries)

    assert not reads(
        lambda: services.update_event_type(
            actor=world.manager, event_type=world.departure, data={"title": "D"}
        )
    )
    wider = {"type": "enum", "values": ["AA", "DL", "UA", "WN"]}
    assert reads(
        lambda: services.update_subject_attribute(
            actor=world.manager,
            subject_attribute=world.flights.subject_attributes.get(),
            data={"type": wider},
        )
    )


def test_the_document_of_a_type_names_its_parent(world: World, regional: Domain) -> None:
    hop = create(regional, "Hop", parent=world.departure)
    assert mapping.event_type(hop)["parent"] == "Departure"


def test_a_domain_that_moves_has_other_declarations(world: World, regional: Domain) -> None:
    identity.create_principal(
        actor=None, domain=regional, name="Hopper", kind="subscriber", attributes={"carrier": "DL"}
    )
    with pytest.raises(Invalid, match="Hopper"):
        identity.update_domain(
            actor=world.operator, domain=regional, data={"parent": world.heating}
        )


def test_a_policy_holds_for_a_sub_tree_of_names_and_of_instances(world: World) -> None:
    telemetry = create(world.heating, "Telemetry", attributes=[attribute("place")])
    create(world.heating, "WaterPressure", parent=telemetry)
    services.create_subject_attribute(
        actor=None, domain=world.heating, name="trained", type={"type": "bool"}
    )
    identity.create_principal(
        actor=None, domain=world.heating, name="Nora", kind="person", attributes={"trained": True}
    )
    policies.create_policy(
        actor=None,
        domain=world.heating,
        name="north",
        action="subscribe",
        event_type=telemetry,
        expression='subject.trained && event.place.startsWith("north/")',
    )
    found = {(each.type, each.condition) for each in reach.take(world.heating).effective()}
    condition = "where event.place begins with north/"
    assert found == {("Telemetry", condition), ("WaterPressure", condition)}
