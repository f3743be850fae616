"""Protections of attributes: presets, the gate, and risks accepted in writing for a while."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from adminapp.catalog import preview, protections, selectors, services
from adminapp.catalog.models import Attribute, EventType, RiskAcceptance
from adminapp.changes.files import apply, export
from adminapp.core.errors import Forbidden, InUse, Invalid
from adminapp.distribution import upkeep
from adminapp.distribution.models import Compilation
from adminapp.identity.models import Domain
from adminapp.identity.services import delegate
from adminapp.privacy.services import classify_attribute
from policyengine.events import EventTypes
from policyengine.privacy import Protection
from tests.support.control_plane import World, attribute

ORDERED = {"kind": "order-preserving", "sealed": True}
SOON = timedelta(days=20)


def create(world: World, name: str, **more: Any) -> EventType:
    return services.create_event_type(actor=world.manager, domain=world.flights, name=name, **more)


def in_force(world: World, name: str) -> dict[str, tuple[str, bool, str]]:
    held = protections.in_force(selectors.domain_types(world.flights))[name]
    return {
        attribute: (each.protection.kind, each.protection.sealed, each.by)
        for attribute, each in held.items()
    }


def wire(world: World, name: str) -> dict[str, tuple[str, ...]]:
    specs = {spec.name: spec for spec in selectors.wire_types(world.flights)}
    return {each.name: each.keys for each in specs[name].attributes}


def hidden(world: World, name: str) -> dict[str, tuple[str, bool]]:
    types = EventTypes(selectors.wire_types(world.flights))
    return {each.name: (each.blind, each.sealed) for each in types.attributes(name) if each.blind}


def accept(world: World, attribute_name: str = "weight", **more: Any) -> RiskAcceptance:
    return services.accept_risk(
        actor=world.manager,
        event_type=EventType.objects.get(name="Cargo"),
        attribute=attribute_name,
        justification="ranges are asked for, and weights are spread thinly",
        until=timezone.now() + SOON,
        **more,
    )


@pytest.fixture
def cargo(world: World) -> EventType:
    """A type with a confidential attribute under an order-preserving function, accepted."""
    row = create(
        world,
        "Cargo",
        attributes=[
            attribute("weight", pia_class="confidential", keys=["tail"]),
            attribute("kind"),
        ],
    )
    accept(world)
    protect(world, row, "weight", ORDERED)
    return row


def protect(world: World, row: EventType, name: str, protection: Any) -> None:
    items = [
        {
            "name": each.name,
            "type": each.type,
            **({"protection": protection} if each.name == name else {}),
        }
        for each in row.attributes.all()
    ]
    services.update_event_type(actor=world.manager, event_type=row, data={}, attributes=items)


def test_without_a_profile_keys_decide(world: World) -> None:
    assert in_force(world, "Departure") == {
        "carrier": ("clear", False, "keys"),
        "origin": ("clear", False, "keys"),
        "tail": ("attribute key", False, "keys"),
        "delay": ("clear", False, "keys"),
    }
    assert wire(world, "Flight") == {"carrier": (), "origin": (), "tail": ("tail",)}


def test_a_profile_presets_and_an_attribute_overrides(world: World) -> None:
    create(
        world,
        "Blind",
        profile="blind brokers",
        attributes=[
            attribute("route"),
            attribute("gate", protection={"kind": "clear", "sealed": False}),
        ],
    )
    create(
        world, "Blinder", parent=EventType.objects.get(name="Blind"), attributes=[attribute("x")]
    )
    assert in_force(world, "Blinder") == {
        "route": ("searchable", True, "profile"),
        "gate": ("clear", False, "attribute"),
        "x": ("searchable", True, "profile"),
    }


def test_bundles_say_what_clients_hide(world: World) -> None:
    create(
        world, "Blind", profile="blind brokers", attributes=[attribute("route"), attribute("gate")]
    )
    create(
        world,
        "Open",
        profile="open",
        attributes=[attribute("route", keys=["tail"]), attribute("gate")],
    )
    create(world, "Below", parent=EventType.objects.get(name="Blind"), attributes=[attribute("x")])
    assert wire(world, "Blind") == wire(world, "Open") == {"route": (), "gate": ()}
    both = {"route": ("searchable", True), "gate": ("searchable", True)}
    assert hidden(world, "Blind") == both
    assert hidden(world, "Below") == {**both, "x": ("searchable", True)}
    assert hidden(world, "Open") == {}
    assert preview.findings(world.flights) == []


@pytest.mark.parametrize(
    ("protection", "pointer", "message"),
    [
        ({"kind": "secret", "sealed": False}, "/attributes/0/protection", "secret"),
        ({"kind": "clear", "sealed": True}, "/attributes/0/protection", "not sealed"),
        ({"kind": "clear"}, "/attributes/0/protection", "exactly the fields"),
        ({"kind": "attribute key", "sealed": False}, "/attributes/x", "names no attribute key"),
    ],
)
def test_protections_that_cannot_be(
    protection: Any, pointer: str, message: str, world: World
) -> None:
    with pytest.raises(Invalid) as failure:
        create(world, "New", attributes=[attribute("x", protection=protection)])
    assert failure.value.problems[0].pointer == pointer
    assert message in failure.value.problems[0].message


def test_a_sub_type_does_not_choose_for_what_it_inherits(world: World) -> None:
    with pytest.raises(Invalid, match="its protection is chosen in `Flight`"):
        create(
            world,
            "Quiet",
            parent=world.flight,
            attributes=[attribute("tail", keys=["tail"], protection=ORDERED)],
        )


def test_the_database_knows_that_clear_is_not_sealed(world: World) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Attribute.objects.filter(name="origin").update(protection="clear", sealed=True)


def test_order_needs_a_written_acceptance(world: World) -> None:
    row = create(
        world, "Cargo", attributes=[attribute("weight", pia_class="confidential", keys=["tail"])]
    )
    with pytest.raises(Invalid, match="accept this risk in writing"):
        protect(world, row, "weight", ORDERED)
    accept(world)
    protect(world, row, "weight", ORDERED)
    assert in_force(world, "Cargo")["weight"] == ("order-preserving", True, "attribute")
    found = preview.findings(world.flights)
    assert [each.kind for each in found] == ["note", "expires"]
    assert hidden(world, "Cargo") == {"weight": ("order-preserving", True)}


def test_nothing_makes_up_for_a_value_in_clear(world: World) -> None:
    create(
        world, "Cargo", attributes=[attribute("weight", pia_class="confidential", keys=["tail"])]
    )
    with pytest.raises(Invalid, match="nothing makes up for a value in clear"):
        accept(world, protection="clear")
    with pytest.raises(Invalid, match="no known attribute"):
        accept(world, "wieght")


def test_an_acceptance_is_about_one_class(world: World, cargo: EventType) -> None:
    with pytest.raises(Invalid, match="may not be order-preserving"):
        classify_attribute(
            actor=world.manager,
            attribute=cargo.attributes.get(name="weight"),
            pia_class="identifying",
        )


@pytest.mark.parametrize("days", [-1, 366])
def test_an_acceptance_ends_within_a_year(days: int, world: World, cargo: EventType) -> None:
    row = RiskAcceptance.objects.get()
    with pytest.raises(Invalid) as failure:
        services.update_acceptance(
            actor=world.manager,
            risk_acceptance=row,
            data={"until": timezone.now() + timedelta(days=days)},
        )
    assert failure.value.problems[0].pointer == "/until"


def test_an_acceptance_that_is_needed_stays(world: World, cargo: EventType) -> None:
    row = RiskAcceptance.objects.get()
    with pytest.raises(InUse, match="still needed"):
        services.withdraw_acceptance(actor=world.manager, risk_acceptance=row)
    protect(world, cargo, "weight", None)
    services.withdraw_acceptance(actor=world.manager, risk_acceptance=row)
    assert not RiskAcceptance.objects.exists()


def test_an_acceptance_goes_with_its_attribute_and_type(world: World, cargo: EventType) -> None:
    services.update_event_type(
        actor=world.manager, event_type=cargo, data={}, attributes=[attribute("kind")]
    )
    assert not RiskAcceptance.objects.exists()


def test_only_managers_accept_risks(world: World, cargo: EventType) -> None:
    delegate(
        actor=world.manager,
        user=world.auditor,
        domain=world.flights,
        roles=[],
        event_types=["Cargo"],
        ends=timezone.now() + SOON,
    )
    row = RiskAcceptance.objects.get()
    services.update_event_type(actor=world.auditor, event_type=cargo, data={"title": "Freight"})
    with pytest.raises(Forbidden):
        services.update_acceptance(
            actor=world.auditor, risk_acceptance=row, data={"justification": "mine"}
        )


def test_an_acceptance_that_has_ended_closes_the_attribute(world: World, cargo: EventType) -> None:
    past = timezone.now() - timedelta(hours=1)
    RiskAcceptance.objects.update(until=past)
    assert {each.kind for each in preview.findings(world.flights)} >= {"refused", "expired"}
    with pytest.raises(Invalid, match="has expired"):
        services.update_event_type(
            actor=world.manager, event_type=world.flight, data={"title": "anything else"}
        )
    protect(world, cargo, "weight", None)
    services.update_event_type(
        actor=world.manager, event_type=world.flight, data={"title": "anything else"}
    )


def test_the_end_of_an_acceptance_is_compiled(world: World, cargo: EventType) -> None:
    assert set(wire(world, "Cargo")) == {"weight", "kind"}
    domain = Domain.objects.get(pk=world.flights.pk)
    then = timezone.now()
    Compilation.objects.create(domain=domain, revision=domain.revision, at=then)
    assert upkeep.apply_boundaries(now=then + timedelta(days=1)) == 0
    after = then + SOON + timedelta(days=1)
    kept = {spec.name: spec for spec in selectors.wire_types(domain, at=after)}["Cargo"]
    assert [each.name for each in kept.attributes] == ["kind"]
    assert upkeep.apply_boundaries(now=after) == 1
    assert Domain.objects.get(pk=domain.pk).revision == domain.revision + 1


def test_what_a_type_would_come_to(world: World) -> None:
    found = preview.check(
        actor=world.manager,
        domain=world.flights,
        document={"name": "New", "parent": world.flight, "attributes": [attribute("seat")]},
    )
    assert [(each.name, each.inherited) for each in found.attributes] == [
        ("carrier", True),
        ("origin", True),
        ("tail", True),
        ("seat", False),
    ]
    assert found.attributes[2].protection == Protection("attribute key")
    wrong = preview.check(
        actor=world.manager,
        domain=world.flights,
        document={"name": "New", "attributes": [attribute("x", pia_class="identifying")]},
    )
    assert [each.pointer for each in wrong.problems] == ["/attributes/x"]
    assert not EventType.objects.filter(name="New").exists()


def test_files_say_it_all_and_say_it_again(world: World, cargo: EventType) -> None:
    services.update_event_type(
        actor=world.manager, event_type=cargo, data={"title": "New"}, as_new_version=False
    )
    accepted = RiskAcceptance.objects.get()
    new = create(world, "Crate", profile="trusted brokers", attributes=[attribute("size")])
    services.update_event_type(
        actor=world.manager, event_type=new, data={"title": "Newer"}, as_new_version=True
    )
    services.retire_event_type(actor=world.manager, event_type=new)
    text = export([world.flights], platform=False)
    again = apply_text(world, text)
    assert again == text
    assert f"accepted_by: {accepted.accepted_by}" in text
    assert "retired: true" in text
    assert "name: Crate@2" in text


def apply_text(world: World, text: str) -> str:
    """What a copy of the domain exports, loaded from the file of the first one."""
    copy = text.replace("domain: flights\n", "domain: copied\n").replace(
        "name: flights\n", "name: copied\n", 1
    )
    apply(actor=world.operator, files=[("copy.yaml", copy.encode())])
    found = export([Domain.objects.get(name="copied")], platform=False)
    return found.replace("domain: copied\n", "domain: flights\n").replace(
        "name: copied\n", "name: flights\n", 1
    )
