"""How often a publisher may publish: the field from the form to the file and back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from adminapp.changes import files
from adminapp.core.errors import Invalid
from adminapp.distribution.gather import gather
from adminapp.distribution.plan import plan_agent
from adminapp.identity import services as identity
from adminapp.policies import services
from adminapp.policies.explain import explain
from adminapp.policies.findings import findings
from adminapp.policies.models import Policy, PolicyVersion
from policyengine.bundles import RateLimit
from tests.support.control_plane import World

API, JSON = "/api/v1", "application/json"


def create(world: World, name: str = "reports", **fields: Any) -> Policy:
    wanted = {
        "action": "publish",
        "event_type": "Flight",
        "expression": "true",
        "limit_count": 3,
        "limit_seconds": 60,
        **fields,
    }
    domain = wanted.pop("domain", world.flights)
    return services.create_policy(actor=world.operator, domain=domain, name=name, **wanted)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"limit_seconds": None}, "/limit_seconds"),
        ({"limit_count": None}, "/limit_count"),
        ({"limit_count": 0}, "/limit_count"),
        ({"limit_count": 1001}, "/limit_count"),
        ({"limit_seconds": 0}, "/limit_seconds"),
        ({"limit_seconds": 31 * 86_400 + 1}, "/limit_seconds"),
        ({"action": "subscribe"}, "/limit_count"),
        ({"action": "advertise"}, "/limit_count"),
    ],
)
def test_a_limit_is_whole_within_bounds_and_about_publishing(
    world: World, fields: dict[str, Any], where: str
) -> None:
    with pytest.raises(Invalid) as refused:
        create(world, **fields)
    assert where in {problem.pointer for problem in refused.value.problems}
    row = create(world)
    with pytest.raises(IntegrityError), transaction.atomic():
        Policy.objects.filter(pk=row.pk).update(**fields)
    with pytest.raises(ValidationError):
        Policy(**{name: getattr(row, name) for name in ("domain", "name")}, **fields).full_clean()


def test_a_limit_comes_goes_and_is_restored(world: World) -> None:
    row = create(world)
    assert row.limit_words == "at most 3 events in any 60 seconds"
    without = {"limit_count": None, "limit_seconds": None}
    row = services.update_policy(actor=world.operator, policy=row, data=without)
    assert row.limit_words == ""
    row = services.restore_policy_version(actor=world.operator, policy=row, number=1)
    assert (row.limit_count, row.limit_seconds) == (3, 60)
    # A version of before there were limits is one without.
    kept = PolicyVersion.objects.get(policy=row, number=2)
    old = {name: each for name, each in kept.snapshot.items() if not name.startswith("limit")}
    PolicyVersion.objects.filter(pk=kept.pk).update(snapshot=old)
    row = services.restore_policy_version(actor=world.operator, policy=row, number=2)
    assert (row.limit_count, row.limit_seconds) == (None, None)


def test_files_keep_it_byte_for_byte(world: World) -> None:
    plain = files.export([world.flights])
    assert "limit" not in plain
    row = create(world)
    text = files.export([world.flights])
    assert "limit_count: 3\nlimit_seconds: 60\n" in text
    assert not files.plan(actor=world.operator, files=[("f", text.encode())]).changes
    services.delete_policy(actor=world.operator, policy=row)
    files.apply(actor=world.operator, files=[("f", text.encode())])
    assert files.export([world.flights]) == text
    more = text.replace("limit_count: 3", "limit_count: 5").encode()
    files.apply(actor=world.operator, files=[("f", more)])
    made = Policy.objects.get(name="reports")
    assert (made.limit_count, made.limit_seconds) == (5, 60)


def test_an_explanation_says_it(world: World) -> None:
    row = create(world)
    found = explain(world.flights, world.airport, "publish", "Flight")
    said = "each publisher may publish at most 3 events in any 60 seconds by this policy"
    assert said in [reason.text for reason in found.chain if reason.kind == "limit"]
    services.update_policy(
        actor=world.operator, policy=row, data={"limit_count": 1, "limit_seconds": 1}
    )
    found = explain(world.flights, world.airport, "publish", "Flight")
    assert any("at most 1 event in any second" in reason.text for reason in found.chain)


def test_a_limit_beside_a_policy_without_one_is_no_limit(world: World) -> None:
    create(world)
    create(world, "free", limit_count=None, limit_seconds=None)
    doubles = [each for each in findings(world.flights) if each.kind == "redundant"]
    assert [(each.policy, each.related) for each in doubles] == [("reports", ("free",))]


def test_a_sub_domain_that_lets_publish_more_often_is_wider(world: World) -> None:
    create(world)
    below = identity.create_domain(
        actor=world.operator, name="jfk", title="JFK", parent=world.flights
    )
    row = create(world, "local", domain=below)

    def wider() -> list[str]:
        return [each.policy for each in findings(below) if each.kind == "wider"]

    assert wider() == []
    for data, expected in (
        ({"limit_count": 2}, []),
        ({"limit_count": 4}, ["local"]),
        ({"limit_count": 3, "limit_seconds": 30}, ["local"]),
        ({"limit_count": None, "limit_seconds": None}, ["local"]),
    ):
        services.update_policy(actor=world.operator, policy=row, data=data)
        assert wider() == expected


def test_agents_are_given_it_under_a_number(world: World) -> None:
    row = create(world, rules=[{"attribute": "tail", "when": 'event.origin == "JFK"'}])
    plain = gather(world.flights)
    agent = next(each for each in plain.agents if each.name == "alpha")
    rules = [rule for rule in plan_agent(plain, agent).rules if rule.action == "publish"]
    assert len(rules) > 1
    assert {rule.limit for rule in rules} == {RateLimit(f"policy-{row.pk}", 3, 60)}
    others = [rule for rule in plan_agent(plain, agent).rules if rule.action != "publish"]
    assert {rule.limit for rule in others} <= {None}


def test_the_api_has_it(world: World, browsers: dict[str, Client]) -> None:
    client = browsers["manager"]
    body = {
        "domain": "flights",
        "name": "reports",
        "action": "publish",
        "event_type": "Flight",
        "expression": "true",
        "limit_count": 3,
        "limit_seconds": 60,
    }
    made = client.post(f"{API}/policies", body, JSON)
    assert made.status_code == 201, made.content
    assert client.get(f"{API}/policies/{made.json()['id']}").json()["limit_count"] == 3
    assert (made.json()["limit_count"], made.json()["limit_seconds"]) == (3, 60)
    half = client.post(f"{API}/policies", {**body, "name": "half", "limit_seconds": None}, JSON)
    assert half.status_code == 400
    assert half.json()["errors"][0]["pointer"] == "/limit_seconds"


def test_its_page_and_its_form_show_it(world: World, browsers: dict[str, Client]) -> None:
    row, client = create(world), browsers["manager"]
    place = ["flights", row.name]
    page = client.get(reverse("console:policy", args=place)).content.decode()
    assert "at most 3 events in any 60 seconds, each publisher" in page
    form = client.get(reverse("console:policy-edit", args=place)).content.decode()
    for name, value in (("limit_count", 3), ("limit_seconds", 60)):
        assert re.search(rf'<input[^>]*name="{name}"[^>]*value="{value}"', form) or re.search(
            rf'<input[^>]*value="{value}"[^>]*name="{name}"', form
        )
