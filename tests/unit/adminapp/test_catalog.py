"""Event types: trees that the engine accepts, attributes that the gate accepts."""

from __future__ import annotations

from typing import Any

import pytest

from adminapp.catalog import selectors, services
from adminapp.catalog.models import EventType
from adminapp.core.errors import InUse, Invalid
from adminapp.policies import services as policies
from tests.support.control_plane import World, attribute


def create(world: World, name: str, **more: Any) -> EventType:
    return services.create_event_type(actor=world.manager, domain=world.flights, name=name, **more)


def switch_off(world: World) -> None:
    """Nothing is in force that a change of types could break."""
    policies.update_policy(actor=world.manager, policy=world.policy, data={"enabled": False})


def test_the_tree_resolves_what_is_inherited(world: World) -> None:
    create(world, "Arrival", parent=world.flight, attributes=[attribute("tail", keys=["tail"])])
    nodes = {node.type.name: node for node in selectors.tree(world.flights)}
    assert [(name, node.depth) for name, node in nodes.items()] == [
        ("Flight", 0),
        ("Arrival", 1),
        ("Departure", 1),
    ]
    departure = [
        (each.attribute.name, each.declared_by, each.inherited)
        for each in nodes["Departure"].attributes
    ]
    assert departure == [
        ("carrier", "Flight", True),
        ("origin", "Flight", True),
        ("tail", "Flight", True),
        ("delay", "Departure", False),
    ]
    arrival = {each.attribute.name: each.declared_by for each in nodes["Arrival"].attributes}
    assert arrival == {"carrier": "Flight", "origin": "Flight", "tail": "Arrival"}


def test_the_engine_gets_the_same_types(world: World) -> None:
    types = selectors.engine_types(world.flights)
    assert types.is_a("Departure", "Flight")
    specs = {spec.name: spec for spec in types.attributes("Departure")}
    assert specs["tail"].keys == ("tail",)
    assert specs["tail"].pia == "identifying"


def test_a_sub_type_only_removes_keys(world: World) -> None:
    switch_off(world)
    services.create_attribute_key(actor=world.manager, domain=world.flights, name="crew")
    services.update_event_type(
        actor=world.manager,
        event_type=world.flight,
        data={},
        attributes=[
            {"name": "carrier", "type": world.flight.attributes.get(name="carrier").type},
            attribute("origin"),
            attribute("tail", keys=["tail", "crew"]),
        ],
    )
    create(world, "Quiet", parent=world.flight, attributes=[attribute("tail", keys=["tail"])])
    with pytest.raises(Invalid):
        create(world, "Loud", parent=world.flight, attributes=[attribute("origin", keys=["tail"])])
    with pytest.raises(Invalid):
        create(
            world,
            "Odd",
            parent=world.flight,
            attributes=[{"name": "origin", "type": {"type": "int"}}],
        )
    assert not EventType.objects.filter(name__in=["Loud", "Odd"]).exists()


def test_circles_and_strange_parents_are_refused(world: World) -> None:
    with pytest.raises(Invalid, match="cycle"):
        services.update_event_type(
            actor=world.manager, event_type=world.flight, data={"parent": world.departure}
        )
    foreign = services.create_event_type(actor=None, domain=world.heating, name="Telemetry")
    with pytest.raises(Invalid, match="no type of this domain"):
        create(world, "X", parent=foreign)


def test_one_name_means_one_thing_in_a_tree(world: World) -> None:
    with pytest.raises(Invalid, match="has one type in"):
        create(
            world,
            "Arrival",
            parent=world.flight,
            attributes=[attribute("delay")],  # an int in Departure
        )
    create(world, "Weather", attributes=[attribute("delay")])  # another tree


@pytest.mark.parametrize("pia_class", ["identifying", "confidential"])
def test_the_gate_asks_for_a_key(pia_class: str, world: World) -> None:
    with pytest.raises(Invalid, match="must be encrypted"):
        create(world, "New", attributes=[attribute("x", pia_class=pia_class)])
    create(world, "New", attributes=[attribute("x", pia_class=pia_class, keys=["tail"])])
    with pytest.raises(Invalid, match="must be encrypted"):
        services.update_event_type(
            actor=world.manager,
            event_type=EventType.objects.get(name="New"),
            data={},
            attributes=[attribute("x", keys=[])],
        )
    assert EventType.objects.get(name="New").attributes.get().keys.count() == 1


@pytest.mark.parametrize(
    ("items", "pointer"),
    [
        ([attribute("x"), attribute("x")], "/attributes"),
        ([attribute("x-y")], "/attributes/0/name"),
        ([attribute("ok"), {"name": "x", "type": "string"}], "/attributes/1/type"),
        ([attribute("x", keys=["gone"])], "/attributes/0/keys"),
        ([attribute("x", pia_class="secret")], "/attributes/0/pia_class"),
    ],
)
def test_wrong_attributes_are_pointed_at(
    items: list[dict[str, Any]], pointer: str, world: World
) -> None:
    with pytest.raises(Invalid) as failure:
        create(world, "New", attributes=items)
    assert failure.value.problems[0].pointer == pointer


def test_changing_attributes_keeps_what_stays(world: World) -> None:
    switch_off(world)
    before = {row.name: row for row in world.flight.attributes.all()}
    services.update_event_type(
        actor=world.manager,
        event_type=world.flight,
        data={"title": "Flights"},
        attributes=[
            attribute("tail"),
            {"name": "carrier", "type": before["carrier"].type},
            attribute("remark"),
        ],
    )
    rows = list(world.flight.attributes.all())
    assert [row.name for row in rows] == ["tail", "carrier", "remark"]
    assert rows[0].pk == before["tail"].pk
    assert (rows[0].pia_class, rows[0].pia_reason) == ("identifying", "names a plane")
    assert [key.name for key in rows[0].keys.all()] == ["tail"]


def test_declarations_that_principals_rely_on(world: World) -> None:
    declared = world.flights.subject_attributes.get()
    with pytest.raises(Invalid, match="United"):
        services.update_subject_attribute(
            actor=world.manager,
            subject_attribute=declared,
            data={"type": {"type": "enum", "values": ["AA"]}},
        )
    for name in ("role", "domain"):
        with pytest.raises(Invalid, match="meaning of its own"):
            services.create_subject_attribute(
                actor=world.manager, domain=world.flights, name=name, type={"type": "string"}
            )
    hub = services.create_subject_attribute(
        actor=world.manager, domain=world.flights, name="hub", type={"type": "string"}
    )
    services.delete_subject_attribute(actor=world.manager, subject_attribute=hub)
    assert world.flights.subject_attributes.count() == 1


def test_keys_in_use_stay(world: World) -> None:
    with pytest.raises(InUse, match=r"Flight\.tail"):
        services.delete_attribute_key(actor=world.manager, attribute_key=world.tail)
