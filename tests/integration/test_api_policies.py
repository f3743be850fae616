"""Plans, versions and what agents have acknowledged."""

from __future__ import annotations

import pytest
from django.test import Client

from adminapp.distribution.models import Bundle, Recipient
from adminapp.identity.models import Domain
from adminapp.policies.models import Policy
from tests.support.control_plane import World

API = "/api/v1"
JSON = "application/json"


@pytest.fixture
def manager(browsers: dict[str, Client]) -> Client:
    return browsers["manager"]


def test_a_plan_says_who_gains_and_changes_nothing(world: World, manager: Client) -> None:
    revision = Domain.objects.get(name="flights").revision
    answer = manager.post(
        f"{API}/policies/plan",
        {
            "domain": "flights",
            "policy": world.policy.pk,
            "data": {"expression": 'subject.role == "airline"', "attributes": ["carrier"]},
        },
        JSON,
    )
    assert answer.status_code == 200
    plan = answer.json()
    assert plan["agents"] == ["alpha", "gamma"]
    assert plan["encodings"] == 2
    assert plan["revision"] == revision == Domain.objects.get(name="flights").revision
    gained = {
        (line["type"], tuple(line["attributes"]), line["condition"]) for line in plan["gains"]
    }
    assert gained == {("Flight", ("carrier",), ""), ("Departure", ("carrier",), "")}
    lost = {(line["type"], tuple(line["attributes"])) for line in plan["losses"]}
    assert lost == {("Flight", ("origin", "tail")), ("Departure", ("delay", "origin", "tail"))}
    assert Policy.objects.get().version == 1


def test_a_plan_of_a_wrong_expression_points_at_the_place(world: World, manager: Client) -> None:
    body = {
        "domain": "flights",
        "policy": world.policy.pk,
        "data": {"expression": "subject.carier == 1"},
    }
    plan = manager.post(f"{API}/policies/plan", body, JSON).json()
    (problem,) = plan["problems"]
    assert problem["pointer"] == "/expression"
    assert (problem["position"], problem["suggestion"]) == (0, "subject.carrier")
    assert plan["gains"] == plan["losses"] == []


def test_a_plan_to_delete(world: World, manager: Client) -> None:
    body = {"domain": "flights", "policy": world.policy.pk, "data": None}
    plan = manager.post(f"{API}/policies/plan", body, JSON).json()
    assert {line["principal"] for line in plan["losses"]} == {"United"}
    assert Policy.objects.exists()


@pytest.mark.parametrize(
    ("standing", "code"), [("auditor", 403), ("stranger", 404), ("anonymous", 401)]
)
def test_who_may_not_plan(
    standing: str, code: int, world: World, browsers: dict[str, Client]
) -> None:
    body = {"domain": "flights", "policy": world.policy.pk, "data": None}
    assert browsers[standing].post(f"{API}/policies/plan", body, JSON).status_code == code


def test_versions_and_restoring_one(world: World, browsers: dict[str, Client]) -> None:
    url, manager = f"{API}/policies/{world.policy.pk}", browsers["manager"]
    original = manager.get(url).json()["expression"]
    manager.patch(url, {"expression": "true"}, JSON, headers={"If-Match": '"1"'})
    versions = browsers["auditor"].get(f"{url}/versions").json()
    assert [(each["number"], each["actor"]) for each in versions] == [(2, "mona"), (1, "mona")]
    assert versions[1]["snapshot"]["expression"] == original
    body = {"number": 1}
    assert browsers["auditor"].post(f"{url}/restore", body, JSON).status_code == 403
    assert browsers["stranger"].post(f"{url}/restore", body, JSON).status_code == 404
    stale = manager.post(f"{url}/restore", body, JSON, headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    restored = manager.post(f"{url}/restore", body, JSON, headers={"If-Match": '"2"'})
    assert (restored.status_code, restored["ETag"]) == (200, '"3"')
    assert restored.json()["expression"] == original
    assert manager.post(f"{url}/restore", {"number": 9}, JSON).status_code == 400
    assert browsers["stranger"].get(f"{url}/versions").status_code == 404


def test_credentials(world: World, browsers: dict[str, Client]) -> None:
    url = f"{API}/principals/{world.united.pk}"
    body = {"sealing_key": world.alpha.sealing_key, "verify_key": world.alpha.verify_key}
    for standing, code in (("anonymous", 401), ("stranger", 404), ("auditor", 403)):
        answer = browsers[standing].post(f"{url}/credentials", body, JSON)
        assert answer.status_code == code
    wrong = browsers["manager"].post(f"{url}/credentials", body | {"verify_key": "AAAA"}, JSON)
    assert wrong.json()["errors"][0]["pointer"] == "/verify_key"
    right = browsers["manager"].post(f"{url}/credentials", body, JSON)
    assert right.status_code == 200
    assert right.json()["sealing_key"] == world.alpha.sealing_key


def test_revisions_are_counted_from_acknowledgements(
    world: World, browsers: dict[str, Client]
) -> None:
    for number, (audience, state) in enumerate(
        [("agent:alpha", "applied"), ("agent:gamma", "rejected"), ("agent:beta", "sent")]
    ):
        Bundle.objects.create(
            audience=audience,
            domain=world.flights,
            revision=7,
            digest=str(number) * 64,
            size=10,
            message=b"sealed",
            state=state,
            expires_at="2030-01-01T00:00:00Z",
        )
    Recipient.objects.create(audience="agent:alpha", domain=world.flights, revision=7)
    auditor, stranger = browsers["auditor"], browsers["stranger"]
    (revision,) = auditor.get(f"{API}/revisions").json()["results"]
    assert {name: revision[name] for name in ("domain", "revision", "audiences")} == {
        "domain": "flights",
        "revision": 7,
        "audiences": 3,
    }
    assert (revision["applied"], revision["rejected"]) == (1, 1)
    bundles = auditor.get(f"{API}/bundles", {"state": "applied"}).json()["results"]
    assert [each["audience"] for each in bundles] == ["agent:alpha"]
    assert "message" not in bundles[0]
    (held,) = auditor.get(f"{API}/recipients").json()["results"]
    assert held["revision"] == 7
    for path in ("revisions", "bundles", "recipients"):
        assert stranger.get(f"{API}/{path}").json()["results"] == []
    progress = auditor.get(f"{API}/domains/{world.flights.pk}/progress").json()
    assert progress["domain"] == "flights"
    assert progress["agents"] == 2
