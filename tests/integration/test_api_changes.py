"""Change sets, files and announcements over REST, for every standing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from adminapp.audit.models import Entry
from adminapp.changes.models import ChangeSet
from adminapp.identity import services as identity
from adminapp.identity.models import User
from adminapp.policies.models import Policy
from adminapp.roles.models import Role
from tests.support.control_plane import World

API = "/api/v1"
ROLE = {"op": "put", "kind": "role", "document": {"name": "pilot"}}
YAML = b"object: role\ndomain: flights\nname: pilot\n"
STANDINGS = ("operator", "manager", "auditor", "stranger", "delegate", "colleague", "anonymous")


@pytest.fixture
def everybody(browsers: dict[str, Client], delegate: User, colleague: User) -> dict[str, Client]:
    for name, user in (("delegate", delegate), ("colleague", colleague)):
        browsers[name] = Client()
        browsers[name].force_login(user, backend="adminapp.identity.backends.ThrottledBackend")
    return browsers


def post(client: Client, path: str, body: Any = None, **headers: str) -> Any:
    return client.post(
        f"{API}/{path}", json.dumps(body or {}), content_type="application/json", headers=headers
    )


def send(client: Client, path: str, data: bytes = YAML, **headers: str) -> Any:
    return client.post(f"{API}/{path}", data, content_type="application/yaml", headers=headers)


def drafted(client: Client, *operations: dict[str, Any]) -> Any:
    body = {"domain": "flights", "message": "why", "operations": list(operations or [ROLE])}
    answer = post(client, "change-sets", body)
    assert answer.status_code == 201, answer.content
    return answer


def step(client: Client, pk: int, deed: str, body: Any = None) -> Any:
    version = client.get(f"{API}/change-sets/{pk}").json()["version"]
    return post(client, f"change-sets/{pk}/{deed}", body, **{"If-Match": f'"{version}"'})


# -- change sets -----------------------------------------------------------------------------


def test_from_draft_to_revision(everybody: dict[str, Client], world: World) -> None:
    client = everybody["manager"]
    pk = drafted(client).json()["id"]
    planned = step(client, pk, "plan").json()
    assert planned["plan"]["changes"][0] == {
        "domain": "flights", "kind": "role", "key": "pilot", "op": "create", "diff": [],
    }  # fmt: skip
    assert not Role.objects.filter(name="pilot").exists()
    applied = step(client, pk, "submit")
    assert (applied.status_code, applied.json()["state"]) == (200, "applied")
    assert applied.json()["revision"] == planned["base_revision"] + 1
    entry = Entry.objects.get(change_set=pk, action="role.created")
    assert entry.source == "api"


def test_who_may_draft_and_see(everybody: dict[str, Client]) -> None:
    body = {"domain": "flights", "operations": [ROLE]}
    codes = {name: post(everybody[name], "change-sets", body).status_code for name in STANDINGS}
    assert codes == {
        "operator": 201, "manager": 201, "auditor": 403, "delegate": 201,
        "stranger": 404, "colleague": 404, "anonymous": 401,
    }  # fmt: skip
    pk = ChangeSet.objects.filter(state="draft").latest("pk").pk
    seen = {name: everybody[name].get(f"{API}/change-sets/{pk}").status_code for name in STANDINGS}
    assert seen == {
        "operator": 200, "manager": 200, "auditor": 200, "delegate": 200,
        "stranger": 404, "colleague": 404, "anonymous": 401,
    }  # fmt: skip


@pytest.mark.parametrize("deed", ["plan", "submit", "withdraw", "approve", "reject", "undo"])
def test_who_may_not_decide(everybody: dict[str, Client], deed: str) -> None:
    pk = drafted(everybody["manager"]).json()["id"]
    refused = {
        name: post(everybody[name], f"change-sets/{pk}/{deed}", **{"If-Match": "*"}).status_code
        for name in ("auditor", "delegate", "stranger", "colleague", "anonymous")
    }
    assert refused == {
        "auditor": 403, "delegate": 403, "stranger": 404, "colleague": 404, "anonymous": 401,
    }  # fmt: skip
    assert ChangeSet.objects.get(pk=pk).state == "draft"


def test_a_decision_names_the_version_it_is_about(everybody: dict[str, Client]) -> None:
    client = everybody["manager"]
    pk = drafted(client).json()["id"]
    assert post(client, f"change-sets/{pk}/plan").status_code == 428
    assert post(client, f"change-sets/{pk}/plan", **{"If-Match": '"9"'}).status_code == 412


def test_an_edit_waits_for_the_second_person(everybody: dict[str, Client], world: World) -> None:
    identity.update_domain(actor=None, domain=world.flights, data={"approval": "always"})
    answer = post(everybody["manager"], "roles", {"domain": "flights", "name": "pilot"})
    assert answer.status_code == 202, answer.content
    pk = answer.json()["change_set"]
    assert answer["Location"].endswith(f"/change-sets/{pk}")
    assert not Role.objects.filter(name="pilot").exists()
    own = step(everybody["manager"], pk, "approve")
    assert own.status_code == 403
    done = step(everybody["operator"], pk, "approve", {"comment": "fine"})
    assert (done.status_code, done.json()["state"]) == (200, "applied")
    assert done.json()["decisions"][0]["user"] == "olga"
    assert Role.objects.filter(name="pilot").exists()


def test_broken_glass_is_announced(everybody: dict[str, Client], world: World) -> None:
    grant = {
        "name": "emergency", "action": "subscribe", "event_type": "Flight", "expression": "true",
    }  # fmt: skip
    body = {
        "domain": "flights", "message": "the field is on fire", "minutes": 10,
        "operations": [{"op": "put", "kind": "policy", "document": grant}],
    }  # fmt: skip
    answer = post(everybody["manager"], "change-sets/break-glass", body)
    assert answer.status_code == 201, answer.content
    assert answer.json()["review"] == "due"
    assert Policy.objects.get(name="emergency").in_force()
    (heard,) = everybody["manager"].get(f"{API}/announcements").json()["results"]
    assert "the field is on fire" in heard["text"]
    read = post(everybody["manager"], f"announcements/{heard['id']}/read")
    assert read.json()["read"] is not None
    assert everybody["operator"].get(f"{API}/announcements/{heard['id']}").status_code == 404
    undone = step(everybody["operator"], answer.json()["id"], "undo", {"comment": "false alarm"})
    assert undone.json()["review"] == "undone"
    assert not Policy.objects.filter(name="emergency").exists()


def test_a_revision_is_restored_by_a_draft(everybody: dict[str, Client], world: World) -> None:
    client = everybody["manager"]
    world.flights.refresh_from_db()
    revision = world.flights.revision
    assert post(client, "roles", {"domain": "flights", "name": "pilot"}).status_code == 201
    answer = post(client, "change-sets/restore", {"domain": "flights", "revision": revision})
    assert answer.status_code == 201, answer.content
    assert answer.json()["operations"] == [
        {"op": "delete", "kind": "role", "key": "pilot", "document": None}
    ]
    wrong = post(client, "change-sets/restore", {"domain": "flights", "revision": 10**9})
    assert wrong.status_code == 400
    assert wrong.json()["errors"][0]["pointer"] == "/revision"


def test_a_delegate_changes_what_was_delegated_and_no_more(everybody: dict[str, Client]) -> None:
    client = everybody["delegate"]
    own = {"op": "put", "kind": "role", "document": {"name": "airline", "title": "Airlines"}}
    pk = drafted(client, own).json()["id"]
    assert step(client, pk, "plan").json()["plan"]["problems"] == []
    assert step(client, pk, "submit").json()["state"] == "applied"
    pk = drafted(client).json()["id"]
    (problem,) = step(client, pk, "plan").json()["plan"]["problems"]
    assert "only managers" in problem["detail"]
    assert step(client, pk, "submit").status_code == 400
    assert send(client, "apply").status_code == 400
    assert not Role.objects.filter(name="pilot").exists()


# -- files -----------------------------------------------------------------------------------


def test_export_plan_and_apply(everybody: dict[str, Client], world: World) -> None:
    client = everybody["manager"]
    text = client.get(f"{API}/export?domain=flights")
    assert text["Content-Type"].startswith("application/yaml")
    same = send(client, "plan?partial=false", text.content).json()
    assert (same["changes"], same["pending"], same["problems"]) == ([], False, [])
    planned = send(client, "plan").json()
    assert planned["pending"]
    assert [(each["op"], each["key"]) for each in planned["changes"]] == [("create", "pilot")]
    expect = f"flights:{planned['revisions']['flights']}"
    applied = send(client, f"apply?message=pilots&expect={expect}")
    assert applied.status_code == 200, applied.content
    (pk,) = applied.json()["change_sets"]
    assert (ChangeSet.objects.get(pk=pk).message, ChangeSet.objects.get(pk=pk).source) == (
        "pilots",
        "file",
    )
    stale = send(client, f"apply?expect={expect}", YAML.replace(b"pilot", b"other"))
    assert stale.status_code == 412


def test_who_may_send_files(everybody: dict[str, Client]) -> None:
    codes = {name: send(everybody[name], "plan").status_code for name in STANDINGS}
    assert codes == {
        "operator": 200, "manager": 200, "auditor": 403, "delegate": 200,
        "stranger": 403, "colleague": 403, "anonymous": 401,
    }  # fmt: skip
    exports = {
        name: everybody[name].get(f"{API}/export?domain=flights").status_code for name in STANDINGS
    }
    assert exports == {
        "operator": 200, "manager": 200, "auditor": 200, "delegate": 200,
        "stranger": 400, "colleague": 400, "anonymous": 401,
    }  # fmt: skip
    assert everybody["manager"].get(f"{API}/export?platform=true").status_code == 403


@pytest.mark.parametrize(
    ("data", "pointer", "message"),
    [
        (b"a: &a [*a, *a]\n", "body: ", "anchors"),
        (YAML + b"name: twice\n", "body: ", "a key stands there twice"),
        (YAML + b"rule: []\n", "body:1: /rule", "no known field"),
        (YAML.replace(b"flights", b"nowhere"), "", "operators|that you manage"),
    ],
)
def test_bad_files_are_told_where(
    everybody: dict[str, Client], data: bytes, pointer: str, message: str
) -> None:
    entries = Entry.objects.count()
    for path in ("plan", "apply"):
        answer = send(
            everybody["operator"] if "known" in message else everybody["manager"], path, data
        )
        assert answer.status_code in (400, 403), answer.content
        assert answer["Content-Type"] == "application/problem+json"
        if pointer:
            assert answer.json()["errors"][0]["pointer"] == pointer
    assert Entry.objects.count() == entries


def test_files_are_applied_once_under_an_idempotency_key(everybody: dict[str, Client]) -> None:
    client = everybody["manager"]
    first = send(client, "apply", **{"Idempotency-Key": "k1"})
    again = send(client, "apply", **{"Idempotency-Key": "k1"})
    assert first.json() == again.json()
    assert again["Idempotency-Replayed"] == "true"
    assert ChangeSet.objects.filter(source="file").count() == 1
