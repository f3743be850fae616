"""Every endpoint as operator, manager, auditor of the same domain, manager of another, nobody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from adminapp.catalog.services import accept_risk
from adminapp.identity.models import ApiToken
from adminapp.identity.services import issue_token
from adminapp.policies.variables import declare_variable
from adminapp.privacy.services import set_split
from adminapp.roles.services import create_appointment_rule, open_session, set_role_settings
from adminapp.trustgroups.models import KeyEpoch
from tests.support.control_plane import World, key

API = "/api/v1"
IN_A_MONTH = (timezone.now() + timedelta(days=30)).isoformat()
READERS = {"operator": 200, "manager": 200, "auditor": 200, "stranger": 404, "anonymous": 401}
# 0 stands for what the operation gives to those who may.
WRITERS = {"operator": 0, "manager": 0, "auditor": 403, "stranger": 404, "anonymous": 401}
GROUPS = [
    {"overlay": "a", "attributes": ["carrier", "tail"]},
    {"overlay": "b", "attributes": ["origin"]},
]


@dataclass(frozen=True)
class Case:
    """One collection.

    Args:
        path: where it is.
        row: name of the object in the world that belongs to the domain `flights`.
        new: a body that makes another one.
        change: a body that changes the row.
        deletable: whether it can be deleted at all.
        after: status that deleting gives a permitted caller.
    """

    path: str
    row: str
    new: dict[str, Any] | None = None
    change: dict[str, Any] | None = None
    deletable: bool = True
    after: int = 204


CASES = [
    Case(
        "principals",
        "united",
        {"domain": "flights", "name": "Delta", "kind": "subscriber", "attributes": {}},
        {"name": "Renamed"},
    ),
    Case(
        "attribute-keys", "tail", {"domain": "flights", "name": "crew"}, {"title": "T"}, after=409
    ),
    Case(
        "subject-attributes",
        "subject_attribute",
        {"domain": "flights", "name": "hub", "type": {"type": "string"}},
        {"type": {"type": "enum", "values": ["AA", "DL", "UA", "WN"]}},
        after=409,
    ),
    Case("event-types", "departure", {"domain": "flights", "name": "Arrival"}, {"title": "D"}),
    Case("roles", "airline", {"domain": "flights", "name": "press"}, {"title": "A"}, after=409),
    Case(
        "appointment-rules",
        "appointment_rule",
        {"domain": "flights", "name": "badge", "parameters": ["station"], "by": ["airline"]},
        {"longest": 60},
    ),
    Case(
        "role-settings",
        "role_settings",
        {"domain": "flights", "by_session": True},
        {"by_session": True},
        deletable=False,
    ),
    Case("sessions", "session", None, {"deactivate": ["airline"]}, deletable=False),
    Case("trust-groups", "group", {"domain": "flights", "name": "crew"}, {"members": ["alpha"]}),
    Case(
        "policies",
        "policy",
        {
            "domain": "flights",
            "name": "all",
            "action": "subscribe",
            "event_type": "Flight",
            "expression": "has(subject.carrier)",
        },
        {"title": "changed"},
    ),
    Case(
        "environment",
        "variable",
        {"domain": "flights", "name": "storm", "type": {"type": "bool"}},
        {"title": "changed"},
    ),
    Case("classifications", "carrier", None, {"reason": "because"}, deletable=False),
    Case("split-plans", "split", None, {"active": False}),
    Case(
        "risk-acceptances",
        "acceptance",
        {
            "domain": "flights",
            "event_type": "Flight",
            "attribute": "origin",
            "pia_class": "confidential",
            "justification": "routes are public soon",
            "until": IN_A_MONTH,
        },
        {"justification": "still needed"},
    ),
    Case("memberships", "membership", {"domain": "flights", "user": "sten", "role": "auditor"}),
    Case("key-epochs", "epoch", deletable=False),
]
IDS = [case.path for case in CASES]


@pytest.fixture
def rows(world: World) -> World:
    """The world, with a row for every collection."""
    world.__dict__["subject_attribute"] = world.flights.subject_attributes.get(name="carrier")
    world.__dict__["variable"] = declare_variable(
        actor=world.manager, domain=world.flights, name="alarm", type={"type": "bool"}
    )
    who = {"actor": world.manager, "domain": world.flights}
    world.__dict__["appointment_rule"] = create_appointment_rule(**who, name="licensed")
    world.__dict__["role_settings"] = set_role_settings(**who, by_session=False)
    world.__dict__["session"] = open_session(actor=world.manager, principal=world.united)
    world.__dict__["carrier"] = world.flight.attributes.get(name="carrier")
    world.__dict__["membership"] = world.flights.memberships.get(user=world.auditor)
    world.__dict__["epoch"] = KeyEpoch.objects.create(
        domain=world.flights, group_ref="overlay:a", number=1, wrapped="w"
    )
    world.__dict__["acceptance"] = accept_risk(
        actor=world.manager,
        event_type=world.flight,
        attribute="tail",
        justification="ranges are needed",
        until=timezone.now() + timedelta(days=30),
    )
    world.__dict__["split"] = set_split(actor=world.manager, event_type=world.flight, groups=GROUPS)
    return world


def address(case: Case, rows: World) -> str:
    return f"{API}/{case.path}/{getattr(rows, case.row).pk}"


@contextmanager
def undone() -> Iterator[None]:
    """What happens inside never was."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def version(client: Client, url: str) -> str:
    return client.get(url)["ETag"]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_reading_one(case: Case, rows: World, browsers: dict[str, Client]) -> None:
    found = {name: browsers[name].get(address(case, rows)).status_code for name in READERS}
    assert found == READERS


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_lists_hold_what_one_may_see(case: Case, rows: World, browsers: dict[str, Client]) -> None:
    pk = getattr(rows, case.row).pk
    for standing in ("operator", "manager", "auditor"):
        answer = browsers[standing].get(f"{API}/{case.path}")
        assert pk in [each["id"] for each in answer.json()["results"]], standing
    stranger = browsers["stranger"].get(f"{API}/{case.path}")
    assert stranger.status_code == 200
    assert pk not in [each["id"] for each in stranger.json()["results"]]
    assert browsers["anonymous"].get(f"{API}/{case.path}").status_code == 401


@pytest.mark.parametrize("case", [case for case in CASES if case.new], ids=lambda case: case.path)
def test_creating(case: Case, rows: World, browsers: dict[str, Client]) -> None:
    for standing, code in WRITERS.items():
        with undone():
            answer = browsers[standing].post(f"{API}/{case.path}", case.new, "application/json")
            assert answer.status_code == (code or 201), (standing, answer.content)
            if not code:
                made, shown = answer.json(), browsers[standing].get(answer["Location"]).json()
                assert {name: made[name] for name in shown} == shown
                assert set(made) - set(shown) <= {"findings"}  # told once, when it is saved
                assert answer["ETag"] == f'"{made["version"]}"'


@pytest.mark.parametrize(
    "case", [each for each in CASES if each.change], ids=lambda case: case.path
)
def test_changing(case: Case, rows: World, browsers: dict[str, Client]) -> None:
    url = address(case, rows)
    before = version(browsers["operator"], url)
    for standing, code in WRITERS.items():
        with undone():
            answer = browsers[standing].patch(
                url, case.change, "application/json", headers={"If-Match": before}
            )
            assert answer.status_code == (code or 200), (standing, answer.content)
            assert (version(browsers["operator"], url) != before) == (not code)


@pytest.mark.parametrize(
    "case", [each for each in CASES if each.deletable], ids=lambda case: case.path
)
def test_deleting(case: Case, rows: World, browsers: dict[str, Client]) -> None:
    url = address(case, rows)
    before = version(browsers["operator"], url)
    for standing, code in WRITERS.items():
        with undone():
            answer = browsers[standing].delete(url, headers={"If-Match": before})
            assert answer.status_code == (code or case.after), (standing, answer.content)
            gone = browsers["operator"].get(url).status_code == 404
            assert gone == (not code and case.after == 204)


@pytest.mark.parametrize(
    ("path", "row", "new", "change"),
    [
        ("overlays", "overlay_a", {"name": "c", "title": "C"}, {"title": "changed"}),
        (
            "agents",
            "beta",
            {"name": "delta", "overlay": "a", "sealing_key": key(7), "verify_key": key(8)},
            {"state": "banned"},
        ),
    ],
)
def test_the_platform_is_seen_by_members_and_changed_by_operators(
    path: str,
    row: str,
    new: dict[str, Any],
    change: dict[str, Any],
    world: World,
    browsers: dict[str, Client],
) -> None:
    url = f"{API}/{path}/{getattr(world, row).pk}"
    for standing in ("manager", "auditor", "stranger"):
        browser = browsers[standing]
        assert browser.get(url).status_code == 200
        assert browser.post(f"{API}/{path}", new, "application/json").status_code == 403
        stale = browser.patch(url, change, "application/json", headers={"If-Match": '"1"'})
        assert stale.status_code == 403
    assert browsers["anonymous"].get(url).status_code == 401
    operator = browsers["operator"]
    assert operator.post(f"{API}/{path}", new, "application/json").status_code == 201
    changed = operator.patch(url, change, "application/json", headers={"If-Match": '"1"'})
    assert changed.status_code == 200
    assert changed.json() | change == changed.json()


def test_domains(world: World, browsers: dict[str, Client]) -> None:
    url = f"{API}/domains/{world.flights.pk}"
    assert {name: browsers[name].get(url).status_code for name in READERS} == READERS
    new = {"name": "trains", "title": "Trains"}
    codes = {
        name: browsers[name].post(f"{API}/domains", new, "application/json").status_code
        for name in ("anonymous", "stranger", "auditor", "manager", "operator")
    }
    assert codes == {
        "anonymous": 401,
        "stranger": 403,
        "auditor": 403,
        "manager": 403,
        "operator": 201,
    }
    for name, code in (("auditor", 403), ("stranger", 404), ("manager", 200)):
        tag = version(browsers["operator"], url)
        body = {"lease_seconds": 45}
        answer = browsers[name].patch(url, body, "application/json", headers={"If-Match": tag})
        assert answer.status_code == code
    tag = version(browsers["operator"], url)
    parent = browsers["manager"].patch(
        url, {"parent": "trains"}, "application/json", headers={"If-Match": tag}
    )
    assert parent.status_code == 404  # a domain that this manager may not see
    assert browsers["manager"].delete(url, headers={"If-Match": tag}).status_code == 403
    assert browsers["operator"].delete(url, headers={"If-Match": tag}).status_code == 409


def test_appointments(world: World, browsers: dict[str, Client]) -> None:
    url = f"{API}/appointments/{world.appointment.pk}"
    assert {name: browsers[name].get(url).status_code for name in READERS} == READERS
    new = {"principal": world.airport.pk, "name": "licensed"}
    expected = {"anonymous": 401, "auditor": 403, "stranger": 400, "manager": 201}
    found = {
        name: browsers[name].post(f"{API}/appointments", new, "application/json").status_code
        for name in expected
    }
    assert found == expected
    tag = version(browsers["operator"], url)
    assert browsers["stranger"].delete(url, headers={"If-Match": tag}).status_code == 404
    assert browsers["auditor"].delete(url, headers={"If-Match": tag}).status_code == 403
    assert browsers["manager"].delete(url, headers={"If-Match": tag}).status_code == 204
    ended = browsers["manager"].get(url).json()
    assert ended["ends"] is not None
    assert browsers["manager"].get(f"{API}/access").json() == {"next": None, "results": []}


def test_the_audit_shows_ones_own_domains(world: World, browsers: dict[str, Client]) -> None:
    def domains(standing: str) -> set[str]:
        answer = browsers[standing].get(f"{API}/audit", {"limit": 200})
        return {each["domain"] for each in answer.json()["results"]}

    assert domains("operator") == {"", "flights", "heating"}
    assert domains("manager") == {"flights"}
    assert domains("auditor") == {"flights"}
    assert domains("stranger") == {"heating"}
    assert browsers["anonymous"].get(f"{API}/audit").status_code == 401
    own = browsers["manager"].get(f"{API}/audit").json()["results"][0]["sequence"]
    codes = {name: browsers[name].get(f"{API}/audit/{own}").status_code for name in READERS}
    assert codes == READERS


@pytest.mark.parametrize("path", ["outbox", "users", "audit/chain"])
def test_only_operators(path: str, world: World, browsers: dict[str, Client]) -> None:
    codes = {name: browsers[name].get(f"{API}/{path}").status_code for name in browsers}
    assert codes == {
        "anonymous": 401,
        "operator": 200,
        "manager": 403,
        "auditor": 403,
        "stranger": 403,
    }


def test_tokens_are_their_owners(world: World, browsers: dict[str, Client]) -> None:
    token, _secret = issue_token(
        actor=world.manager, user=world.manager, name="mine", scopes=["read"]
    )
    url = f"{API}/tokens/{token.pk}"
    codes = {name: browsers[name].get(url).status_code for name in browsers}
    assert codes == {
        "anonymous": 401,
        "operator": 404,
        "manager": 200,
        "auditor": 404,
        "stranger": 404,
    }
    for standing, code in (("operator", 404), ("stranger", 404), ("manager", 204)):
        answer = browsers[standing].delete(url, headers={"If-Match": '"1"'})
        assert answer.status_code == code
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("path", ["revisions", "bundles", "recipients", "revocations", "jobs"])
def test_rollout_lists_ask_who_calls(path: str, world: World, browsers: dict[str, Client]) -> None:
    assert browsers["anonymous"].get(f"{API}/{path}").status_code == 401
    for standing in ("operator", "manager", "auditor", "stranger"):
        assert browsers[standing].get(f"{API}/{path}").json()["results"] == []


def test_a_revocation_is_the_managers(world: World, browsers: dict[str, Client]) -> None:
    body = {"principal": world.united.pk, "reason": "contract ended"}
    expected = {"anonymous": 401, "stranger": 400, "auditor": 403, "manager": 202}
    answers = {
        name: browsers[name].post(f"{API}/revocations", body, "application/json")
        for name in expected
    }
    assert {name: answer.status_code for name, answer in answers.items()} == expected
    place = answers["manager"]["Location"]
    assert {name: browsers[name].get(place).status_code for name in READERS} == READERS
    shown = browsers["auditor"].get(place).json()
    assert (shown["principal_name"], shown["reason"]) == ("United", "contract ended")
    assert browsers["manager"].get(f"{place}/receipt").status_code == 404
    again = browsers["manager"].post(f"{API}/revocations", body, "application/json")
    assert again.status_code == 412


TYPES = f"{API}/event-types"


@pytest.mark.parametrize("path", ["attributes", "versions", "diff?from=1&to=1"])
def test_what_a_type_is_and_was(path: str, world: World, browsers: dict[str, Client]) -> None:
    url = f"{TYPES}/{world.flight.pk}/{path}"
    codes = {name: browsers[name].get(url).status_code for name in READERS}
    assert codes == READERS


@pytest.mark.parametrize("path", ["tree", "findings"])
def test_the_types_of_a_domain(path: str, world: World, browsers: dict[str, Client]) -> None:
    url = f"{TYPES}/{path}?domain=flights"
    codes = {name: browsers[name].get(url).status_code for name in READERS}
    assert codes == READERS
    assert browsers["manager"].get(f"{TYPES}/{path}").status_code == 404


def test_profiles_are_for_everybody_signed_in(world: World, browsers: dict[str, Client]) -> None:
    for standing, code in {**dict.fromkeys(READERS, 200), "anonymous": 401}.items():
        answer = browsers[standing].get(f"{API}/profiles")
        assert answer.status_code == code
        if code == 200:
            assert answer.json()[0]["name"] == "open"


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("event-types/check", {"domain": "flights", "name": "Arrival"}, 200),
        (
            "classifications/bulk",
            {
                "domain": "flights",
                "items": [
                    {"event_type": "Flight", "attribute": "tail", "pia_class": "confidential"}
                ],
            },
            200,
        ),
        ("event-types/{departure}/retire", {}, 200),
    ],
)
def test_other_changes_of_types(
    path: str, body: dict[str, Any], code: int, world: World, browsers: dict[str, Client]
) -> None:
    url = f"{API}/{path.format(departure=world.departure.pk)}"
    for standing, expected in WRITERS.items():
        with undone():
            answer = browsers[standing].post(url, body, "application/json")
            assert answer.status_code == (expected or code), (standing, answer.content)


def test_no_address_is_forgotten_here() -> None:
    """A collection that is added to the API must be added to this module."""
    tested = {case.path for case in CASES} | {
        "profiles",
        "agreements",  # tests/integration/test_api_agreements.py
        "directory",
        "access",  # tests/integration/test_api_who.py
        "explain",
        "change-sets",  # tests/integration/test_api_changes.py
        "announcements",
        "webhooks",  # tests/integration/test_api_matrix.py, as everything else again
        "overlays",
        "agents",
        "delegations",
        "domains",
        "appointments",
        "representatives",
        "audit",
        "outbox",
        "users",
        "tokens",
        "revisions",
        "bundles",
        "recipients",
        "revocations",
        "jobs",
        "principal-imports",
        "activity",
        "activity-runs",
        "certificates",
        "enforcements",
        "enrolment-tokens",
        "enrolments",
        "fleets",
        "key-epochs",
        "rollout-plans",
        "rollouts",
        "rotations",
    }
    names = {key for key in get_resolver("adminapp.api.urls").reverse_dict if isinstance(key, str)}
    lists = {name.removesuffix("-list") for name in names if name.endswith("-list")}
    assert lists == tested
