"""Tokens that open some domains of their user and nothing else."""

from __future__ import annotations

import pytest
from django.test import Client

from adminapp.changes.models import Announcement, ChangeSet
from adminapp.core.errors import Invalid
from adminapp.identity import permissions
from adminapp.identity.models import ApiToken, Domain, User
from adminapp.identity.services import delete_domain, issue_token, set_membership
from tests.support.control_plane import World

API = "/api/v1"
JSON = "application/json"


def call(user: User, *domains: Domain, scopes: tuple[str, ...] = ("read", "write")) -> Client:
    """A client that comes with a restricted token."""
    _token, secret = issue_token(
        actor=user, user=user, name="robot", scopes=scopes, domains=domains
    )
    return Client(headers={"Authorization": f"Bearer {secret}"})


@pytest.fixture
def both(world: World) -> World:
    """`mona` manages both domains."""
    set_membership(actor=world.operator, user=world.manager, domain=world.heating, role="manager")
    return world


def names(client: Client, path: str) -> set[str]:
    return {each["domain"] for each in client.get(f"{API}/{path}").json()["results"]}


def test_it_opens_its_domains_and_no_other(both: World) -> None:
    robot = call(both.manager, both.heating)
    assert [each["name"] for each in robot.get(f"{API}/domains").json()["results"]] == ["heating"]
    assert names(robot, "memberships") == {"heating"}
    assert names(robot, "audit") == {"heating"}
    for path in ("policies", "principals", "event-types", "roles", "trust-groups", "appointments"):
        assert not names(robot, path), path
    assert robot.get(f"{API}/policies/{both.policy.pk}").status_code == 404
    new = {"name": "press"}
    refused = robot.post(f"{API}/roles", new | {"domain": "flights"}, JSON)
    assert refused.status_code == 404
    assert robot.post(f"{API}/roles", new | {"domain": "heating"}, JSON).status_code == 201
    text = b"object: role\ndomain: flights\nname: crew\n"
    applied = robot.post(f"{API}/apply", text, "application/yaml")
    assert applied.status_code == 403
    assert robot.get(f"{API}/export", {"domain": "flights"}).status_code == 400


def test_several_domains(both: World) -> None:
    robot = call(both.manager, both.flights, both.heating)
    assert names(robot, "memberships") == {"flights", "heating"}
    assert robot.get(f"{API}/policies/{both.policy.pk}").status_code == 200


def test_an_operator_leaves_the_platform_behind(world: World) -> None:
    robot = call(world.operator, world.flights)
    assert robot.get(f"{API}/users").status_code == 403
    assert robot.get(f"{API}/outbox").status_code == 403
    assert robot.post(f"{API}/overlays", {"name": "c", "title": "C"}, JSON).status_code == 403
    assert robot.post(f"{API}/domains", {"name": "x", "title": "X"}, JSON).status_code == 403
    world.operator.refresh_from_db()
    assert world.operator.is_superuser


def test_only_domains_that_one_sees(world: World, browsers: dict[str, Client]) -> None:
    def made(*domains: str) -> int:
        body = {"name": "robot", "scopes": ["read"], "domains": list(domains)}
        return browsers["manager"].post(f"{API}/tokens", body, JSON).status_code

    assert made("flights") == 201
    assert made("heating") == 404
    assert made("flights", "heating") == 404
    assert made() == 400
    (listed,) = browsers["manager"].get(f"{API}/tokens").json()["results"]
    assert (listed["domains"], listed["last_used"]) == (["flights"], None)


def test_unrestricted_tokens_say_so(world: World, browsers: dict[str, Client]) -> None:
    for more in ({}, {"domains": None}):
        body = {"name": "robot", "scopes": ["read"], **more}
        made = browsers["manager"].post(f"{API}/tokens", body, JSON)
        assert made.status_code == 201, made.content
        assert made.json()["domains"] is None


def test_a_token_whose_domain_is_gone_opens_nothing(world: World) -> None:
    trains = Domain.objects.create(name="trains", title="Trains")
    set_membership(actor=world.operator, user=world.manager, domain=trains, role="manager")
    robot = call(world.manager, trains)
    assert names(robot, "memberships") == {"trains"}
    delete_domain(actor=world.operator, domain=trains)
    assert ApiToken.objects.get().restricted
    assert robot.get(f"{API}/domains").json()["results"] == []
    assert not names(robot, "policies")


def test_it_gives_no_more_than_its_user_has(world: World) -> None:
    robot = call(world.auditor, world.flights)
    assert robot.get(f"{API}/policies/{world.policy.pk}").status_code == 200
    new = {"domain": "flights", "name": "press"}
    assert robot.post(f"{API}/roles", new, JSON).status_code == 403
    assert names(call(world.stranger, world.flights), "policies") == set()


def test_delegations_count_within_its_domains(both: World, delegate: User) -> None:
    inside, outside = call(delegate, both.flights), call(delegate, both.heating)
    url = f"{API}/roles/{both.airline.pk}"
    body, tag = {"title": "A"}, {"If-Match": "*"}
    assert inside.patch(url, body, JSON, headers=tag).status_code == 200
    assert outside.patch(url, body, JSON, headers=tag).status_code == 404
    delegate.limited_to = frozenset([both.heating.pk])
    assert not permissions.may_change(delegate, both.flights, "role", "airline")


def test_announcements_of_its_domains_alone(both: World) -> None:
    for domain in (both.flights, both.heating):
        row = ChangeSet.objects.create(domain=domain, domain_name=domain.name, source="api")
        Announcement.objects.create(user=both.manager, change_set=row, text=domain.name)
    robot = call(both.manager, both.heating)
    listed = robot.get(f"{API}/announcements").json()["results"]
    assert [each["text"] for each in listed] == ["heating"]


def test_a_kept_answer_is_not_given_through_another_door(both: World) -> None:
    wide, narrow = call(both.manager, both.flights), call(both.manager, both.heating)
    new, key = {"domain": "flights", "name": "press"}, {"Idempotency-Key": "k"}
    assert wide.post(f"{API}/roles", new, JSON, headers=key).status_code == 201
    assert narrow.post(f"{API}/roles", new, JSON, headers=key).status_code == 422


def test_at_least_one(world: World) -> None:
    with pytest.raises(Invalid):
        call(world.manager)
