"""The effective model of a domain over REST: what is its own, hidden or from above."""

from __future__ import annotations

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from adminapp.catalog import services as catalog
from adminapp.identity import services
from adminapp.identity.models import Domain, User
from adminapp.policies import services as policies
from adminapp.roles import services as roles
from tests.integration.test_api_access import READERS
from tests.support.control_plane import World

API = "/api/v1"


def child_of(world: World) -> Domain:
    child = services.create_domain(
        actor=world.operator, name="child", title="Child", parent=world.flights
    )
    roles.create_role(actor=world.operator, domain=child, name="airline", title="Own")
    roles.create_role(actor=world.operator, domain=child, name="crew")
    catalog.create_subject_attribute(
        actor=world.operator, domain=child, name="desk", type={"type": "string"}
    )
    return child


def test_who_sees_it(world: World, browsers: dict[str, Client], delegate: User) -> None:
    browsers["delegate"] = Client()
    browsers["delegate"].force_login(
        delegate, backend="adminapp.identity.backends.ThrottledBackend"
    )
    url = f"{API}/domains/{world.flights.pk}/model"
    expected = {**READERS, "delegate": 200}
    assert {name: browsers[name].get(url).status_code for name in expected} == expected


def test_where_each_object_comes_from(world: World, browsers: dict[str, Client]) -> None:
    child = child_of(world)
    shown = browsers["operator"].get(f"{API}/domains/{child.pk}/model").json()
    assert shown["lineage"] == ["child", "flights"]

    def origins(part: str) -> list[tuple[str, str, str]]:
        return [(each["name"], each["domain"], each["origin"]) for each in shown[part]]

    assert origins("roles") == [
        ("airline", "child", "overridden"),
        ("crew", "child", "local"),
    ]
    assert origins("subject_attributes") == [
        ("carrier", "flights", "inherited"),
        ("desk", "child", "local"),
    ]
    assert origins("attribute_keys") == [("tail", "flights", "inherited")]
    assert origins("event_types") == [
        ("Departure", "flights", "inherited"),
        ("Flight", "flights", "inherited"),
    ]
    assert origins("policies") == [("own flights", "flights", "inherited")]
    assert shown["roles"][0]["document"]["title"] == "Own"
    above = browsers["manager"].get(f"{API}/domains/{world.flights.pk}/model").json()
    assert {each["origin"] for part in ("roles", "policies") for each in above[part]} == {"local"}


def test_it_costs_the_same_whatever_its_size(world: World, browsers: dict[str, Client]) -> None:
    child = child_of(world)
    url = f"{API}/domains/{child.pk}/model"
    browsers["operator"].get(url)
    with CaptureQueriesContext(connection) as few:
        browsers["operator"].get(url)
    for number in range(5):
        roles.create_role(
            actor=world.manager,
            domain=world.flights,
            name=f"r{number}",
            rules=[{"appointments": ["a"]}],
        )
        catalog.create_event_type(
            actor=world.manager,
            domain=world.flights,
            name=f"T{number}",
            parent=world.flight,
            attributes=[{"name": f"x{number}", "type": {"type": "string"}}],
        )
        policies.create_policy(
            actor=world.manager,
            domain=world.flights,
            name=f"p{number}",
            action="subscribe",
            event_type=f"T{number}",
            expression="has(subject.carrier)",
        )
    with CaptureQueriesContext(connection) as many:
        assert len(browsers["operator"].get(url).json()["policies"]) == 6
    assert len(many) == len(few), [each["sql"][:150] for each in many]
