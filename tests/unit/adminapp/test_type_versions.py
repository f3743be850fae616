"""Versions of event types: what is kept, what is refused, and a new one beside the old."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from adminapp.catalog import compatibility, history, naming, selectors, services
from adminapp.catalog.models import EventType, EventTypeVersion
from adminapp.catalog.ports import Use
from adminapp.core.errors import InUse, Invalid
from adminapp.distribution.gather import gather
from adminapp.identity.models import Domain
from adminapp.policies import services as policies
from policyengine.attributes import AttributeType
from tests.support.control_plane import CARRIER, World, attribute

API = "/api/v1/event-types"
INT = {"type": "int", "min": -60, "max": 3000}
FLIGHT = [
    {"name": "carrier", "type": CARRIER},
    attribute("origin"),
    attribute("tail", keys=["tail"]),
]


def change(world: World, row: EventType, *items: dict[str, Any], **more: Any) -> EventType:
    """Change a type's own attributes."""
    data = more.pop("data", {})
    return services.update_event_type(
        actor=world.manager, event_type=row, data=data, attributes=list(items) or None, **more
    )


def test_every_change_keeps_a_version(world: World) -> None:
    change(world, world.departure, data={"title": "Departures"}, note="plural")
    change(
        world,
        world.departure,
        {"name": "delay", "type": INT, "pia_reason": "a delay is nobody's"},
        attribute("gate"),
    )
    rows = list(selectors.type_versions(world.manager, world.departure))
    assert [(row.number, row.note) for row in rows] == [(3, ""), (2, "plural"), (1, "")]
    assert {row.actor for row in rows} == {world.manager}
    found = {
        each.pointer: (each.before, each.after)
        for each in history.difference(world.departure, 1, 3)
    }
    assert found["/title"] == ("", "Departures")
    assert found["/attributes/gate"][0] is None
    assert found["/attributes/delay/pia_reason"] == ("", "a delay is nobody's")
    with pytest.raises(Invalid, match="no version 9"):
        history.difference(world.departure, 1, 9)


def test_a_type_from_before_versions_gets_its_first_one(world: World) -> None:
    EventTypeVersion.objects.all().delete()
    change(world, world.departure, data={"title": "Departures"})
    rows = EventTypeVersion.objects.filter(event_type=world.departure)
    assert [(row.number, row.document["title"]) for row in rows] == [(1, ""), (2, "Departures")]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (FLIGHT[:2], "`tail` of `Flight` goes"),
        ([*FLIGHT[:1], attribute("source"), FLIGHT[2]], "`origin` of `Flight` goes"),
        (
            [{"name": "carrier", "type": {"type": "enum", "values": ["UA"]}}, *FLIGHT[1:]],
            "`carrier` of `Flight` takes other values",
        ),
        (
            [FLIGHT[0], {"name": "origin", "type": {"type": "int"}}, FLIGHT[2]],
            "`origin` of `Flight` takes other values",
        ),
        ([FLIGHT[0], attribute("origin", keys=["tail"]), FLIGHT[2]], "gets the key `tail`"),
        (
            [
                FLIGHT[0],
                attribute("origin", protection={"kind": "searchable", "sealed": True}),
                FLIGHT[2],
            ],
            "is protected otherwise",
        ),
    ],
)
def test_what_breaks_a_policy_in_force_is_refused(
    items: list[dict[str, Any]], message: str, world: World
) -> None:
    with pytest.raises(Invalid) as failure:
        change(world, world.flight, *items)
    found = [each for each in failure.value.problems if each.kind == compatibility.BREAKING]
    assert any(message in each.message for each in found)
    assert all("policy `own flights` (subscribe" in each.message for each in found)
    assert all(each.pointer.startswith("/attributes/") for each in found)
    policies.delete_policy(actor=world.manager, policy=world.policy)
    change(world, world.flight, *items)


def test_a_policy_that_lets_less_through_is_broken_by_less(world: World) -> None:
    policies.update_policy(
        actor=world.manager, policy=world.policy, data={"attributes": ["carrier", "tail"]}
    )
    change(world, world.flight, FLIGHT[0], FLIGHT[2])  # without an origin
    with pytest.raises(Invalid, match="`carrier` of `Flight` goes"):
        change(world, world.flight, FLIGHT[2])


def test_names_and_places_are_relied_on(world: World) -> None:
    with pytest.raises(Invalid, match="`Flight` is no longer there"):
        change(world, world.flight, data={"name": "Journey"})
    with pytest.raises(Invalid, match="no longer stands below `Flight`"):
        change(world, world.departure, data={"parent": None})


def test_what_only_adds_is_accepted(world: World) -> None:
    wider = {"type": "enum", "values": ["AA", "DL", "UA", "WN"]}
    change(world, world.flight, {"name": "carrier", "type": wider}, *FLIGHT[1:], attribute("gate"))


def test_a_new_version_stands_beside_the_old(world: World) -> None:
    new = change(world, world.flight, *FLIGHT[:1], as_new_version=True, note="less")
    assert (new.name, new.pk != world.flight.pk) == ("Flight@2", True)
    assert new.versions.get().note == "less"
    old = EventType.objects.get(pk=world.flight.pk)
    assert [each.name for each in old.attributes.all()] == ["carrier", "origin", "tail"]
    assert [each.name for each in new.attributes.all()] == ["carrier"]
    assert new.attributes.get().pia_class == "quasi-identifying"
    compiled = {spec["name"]: spec["parent"] for spec in gather(world.flights).types}
    assert compiled == {"Flight": None, "Flight@2": None, "Departure": "Flight"}
    third = change(world, new, data={"title": "Third"}, as_new_version=True)
    assert third.name == "Flight@3"
    policies.create_policy(
        actor=world.manager,
        domain=world.flights,
        name="new flights",
        action="subscribe",
        event_type=third,
        expression='event.carrier == "UA" && has(subject.carrier)',
    )


def test_a_version_is_retired_when_nothing_stands_on_it(world: World) -> None:
    weather = services.create_event_type(
        actor=world.manager, domain=world.flights, name="Weather", attributes=[attribute("sky")]
    )
    fog = services.create_event_type(
        actor=world.manager, domain=world.flights, name="Fog", parent=weather
    )
    policy = policies.create_policy(
        actor=world.manager,
        domain=world.flights,
        name="pilots",
        action="subscribe",
        event_type=weather,
        expression="has(subject.carrier)",
    )
    new = change(world, weather, as_new_version=True, data={"title": "New"})
    with pytest.raises(Invalid, match="`Weather` is no known event type"):  # it has a sub-type
        services.retire_event_type(actor=world.manager, event_type=weather)
    services.delete_event_type(actor=world.manager, event_type=fog)
    with pytest.raises(Invalid, match="this breaks policy `pilots` "):
        services.retire_event_type(actor=world.manager, event_type=weather)
    policies.update_policy(actor=world.manager, policy=policy, data={"event_type": new.name})
    services.retire_event_type(actor=world.manager, event_type=weather)
    names = [spec["name"] for spec in gather(world.flights).types]
    assert sorted(names) == ["Departure", "Flight", "Weather@2"]
    with pytest.raises(Invalid):  # its name never means something else
        services.create_event_type(actor=world.manager, domain=world.flights, name="Weather")
    change(world, weather, data={"retired": False})
    assert "Weather" in selectors.engine_types(world.flights).names


def test_an_earlier_version_goes_after_the_later_ones(world: World) -> None:
    change(world, world.departure, as_new_version=True)
    with pytest.raises(InUse, match="`Departure@2` is a later version"):
        services.delete_event_type(actor=world.manager, event_type=world.departure)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Nothing@2", "could follow"),
        ("Flight@1", "first version"),
        ("Flight@0", "use letters"),
        ("Flight@", "use letters"),
        ("Fl@ght@2", "use letters"),
    ],
)
def test_names_of_versions(name: str, message: str, world: World) -> None:
    with pytest.raises(Invalid, match=message) as failure:
        services.create_event_type(actor=world.manager, domain=world.flights, name=name)
    assert failure.value.problems[0].pointer == "/name"


def test_versions_are_numbered_in_order() -> None:
    assert naming.parts("Departure") == ("Departure", 1)
    assert naming.parts("Departure@12") == ("Departure", 12)


@pytest.mark.parametrize(
    ("was", "now", "all_taken"),
    [
        ({"type": "int"}, {"type": "int", "min": 0}, False),
        ({"type": "int", "min": 0}, {"type": "int"}, True),
        ({"type": "int", "min": 0, "max": 9}, {"type": "int", "min": -1, "max": 9}, True),
        ({"type": "int", "min": 0, "max": 9}, {"type": "int", "min": 0, "max": 8}, False),
        ({"type": "int"}, {"type": "float"}, False),
        ({"type": "string"}, {"type": "enum", "values": ["a"]}, False),
        ({"type": "enum", "values": ["a"]}, {"type": "enum", "values": ["b", "a"]}, True),
    ],
)
def test_wider_and_narrower(was: Any, now: Any, all_taken: bool) -> None:
    found = compatibility.takes_all(AttributeType.from_json(was), AttributeType.from_json(now))
    assert found == all_taken


def test_a_use_without_a_list_needs_everything() -> None:
    use = Use("policy", "p", "d", "T", frozenset({"a"}), None, lambda: "")
    assert use.needs("a")
    assert use.needs("z")


def test_over_rest(world: World, browsers: dict[str, Client]) -> None:
    url = f"{API}/{world.flight.pk}"
    manager = browsers["manager"]
    tag = manager.get(url)["ETag"]
    body = {"attributes": FLIGHT[:1], "note": "less"}
    refused = manager.patch(url, body, "application/json", headers={"If-Match": tag})
    assert refused.status_code == 400
    kinds = {each["kind"] for each in refused.json()["errors"]}
    assert "breaking" in kinds
    beside = manager.patch(
        url, {**body, "as_new_version": True}, "application/json", headers={"If-Match": tag}
    )
    assert beside.status_code == 200
    assert beside.json()["name"] == "Flight@2"
    assert manager.get(url)["ETag"] == tag
    kept = manager.get(f"{API}/{beside.json()['id']}/versions").json()
    assert [(each["number"], each["actor"], each["note"]) for each in kept] == [(1, "mona", "less")]
    tree = manager.get(f"{API}/tree", {"domain": "flights"}).json()
    assert [each["path"] for each in tree] == ["Flight", "Flight/Departure", "Flight@2"]
    wrong = manager.get(f"{url}/diff", {"from": "1", "to": "x"})
    assert wrong.status_code == 400
    checked = manager.post(
        f"{API}/check",
        {"domain": "flights", "name": "Flight", "attributes": FLIGHT[:1]},
        "application/json",
    ).json()
    assert "breaking" in {each["kind"] for each in checked["problems"]}
    assert Domain.objects.get(pk=world.flights.pk).event_types.count() == 3
