"""The audit over REST: who sees what, searching, proofs and the export."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from adminapp.audit import checkpoints, services
from adminapp.audit.erasure import erase_person
from adminapp.audit.models import Entry
from adminapp.core.authority import AuthorityClient, get_authority
from adminapp.identity import services as identity
from policyengine.primitives import merkle
from policyengine.primitives.checkpoints import open_checkpoint
from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority.operations import Operations
from tasks.authority.server import AuthorityServer
from tasks.authority.store import create_state
from tests.support.control_plane import World

API = "/api/v1/audit"
READERS = ("operator", "manager", "auditor", "stranger")


@pytest.fixture
def authority(tmp_path: Path, settings: Any) -> Iterator[AuthorityClient]:
    settings.AUDIT_WITNESS = tmp_path / "checkpoints.jsonl"
    path = tmp_path / "run" / "authority.sock"
    settings.AUTHORITY_SOCKET = path
    server = AuthorityServer(path, Operations(create_state(tmp_path / "state", SYSTEM_RANDOM)))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    made = AuthorityClient(path)
    yield made
    made.close()
    get_authority().close()
    server.shutdown()
    thread.join()
    server.server_close()


def found(client: Client, **query: Any) -> list[dict[str, Any]]:
    answer = client.get(API, query)
    assert answer.status_code == 200, answer.content
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


def test_everybody_sees_their_domains_entries(world: World, browsers: dict[str, Client]) -> None:
    domains = {
        name: {entry["domain"] for entry in found(browsers[name], limit=200)} for name in READERS
    }
    assert domains["operator"] == {"", "flights", "heating"}
    assert domains["manager"] == domains["auditor"] == {"flights"}
    assert domains["stranger"] == {"heating"}
    assert browsers["anonymous"].get(API).status_code == 401
    number = found(browsers["manager"])[0]["sequence"]
    for part in ("", "/proof"):
        codes = [browsers[name].get(f"{API}/{number}{part}").status_code for name in READERS]
        assert codes == [200, 200, 200, 404]
        assert browsers["anonymous"].get(f"{API}/{number}{part}").status_code == 401


def test_searching(world: World, browsers: dict[str, Client]) -> None:
    client = browsers["manager"]
    united = found(client, person="United")
    assert {entry["object_name"] for entry in united} >= {"United"}
    assert found(client, person=world.united.handle) == united
    assert {entry["person"] for entry in united} == {world.united.handle}
    assert found(client, text="unite") == united
    assert [entry["action"] for entry in found(client, object_name="tail")] == [
        "attribute-key.created"
    ]
    assert {entry["actor"] for entry in found(client, actor="mona")} == {"mona"}
    assert found(client, source="file") == []
    assert found(client, action="policy.created", object_id=world.policy.pk)[0]["before"] is None
    at = united[0]["at"]
    assert [entry["sequence"] for entry in found(client, since=at, until=at)] == []
    assert united[0]["sequence"] in [entry["sequence"] for entry in found(client, since=at)]
    # Somebody else's principal is no name to search by.
    assert found(browsers["stranger"], person="United") == []


def test_a_change_over_rest_says_so(world: World, browsers: dict[str, Client]) -> None:
    body = {"domain": "flights", "name": "crew"}
    made = browsers["manager"].post("/api/v1/attribute-keys", body, "application/json")
    assert made.status_code == 201
    (entry,) = found(browsers["manager"], object_name="crew")
    assert (entry["source"], entry["actor"]) == ("api", "mona")
    assert entry["change_set"] is not None
    same = found(browsers["manager"], change_set=entry["change_set"])
    assert [each["sequence"] for each in same] == [entry["sequence"]]


def test_proofs_lead_to_the_signed_root(
    world: World, browsers: dict[str, Client], authority: AuthorityClient
) -> None:
    client = browsers["auditor"]
    early = checkpoints.make_checkpoint(authority=authority)
    assert early is not None
    entry = found(client)[0]
    services.write(actor=None, action="a.b", object_type="a", object_id=1)
    checkpoints.make_checkpoint(authority=authority)
    last, first = client.get(f"{API}/checkpoints").json()["results"]
    key = checkpoints.log_key(authority)
    signed = open_checkpoint(last["note"], key.origin, key.public)
    assert (signed.size, signed.root.hex()) == (last["size"], last["root"])

    proof = client.get(f"{API}/{entry['sequence']}/proof", {"size": last["size"]}).json()
    merkle.verify_inclusion(
        index=entry["sequence"] - 1,
        size=signed.size,
        leaf=bytes.fromhex(entry["leaf"]),
        proof=[bytes.fromhex(part) for part in proof["path"]],
        root=signed.root,
    )
    grown = client.get(f"{API}/consistency", {"from": first["size"], "to": last["size"]}).json()
    merkle.verify_consistency(
        old=first["size"],
        new=last["size"],
        proof=[bytes.fromhex(part) for part in grown["path"]],
        old_root=bytes.fromhex(first["root"]),
        new_root=signed.root,
    )
    tree = client.get(f"{API}/tree").json()
    assert (tree["size"], tree["root"]) == (last["size"], last["root"])
    assert tree["checkpoint"]["note"] == last["note"]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("consistency", {}),
        ("consistency", {"from": "x"}),
        ("consistency", {"from": -1}),
        ("consistency", {"from": 10**6}),
        ("consistency", {"from": 0, "to": 10**6}),
        ("consistency", {"from": 3, "to": 2}),
        ("{number}/proof", {"size": 0}),
        ("{number}/proof", {"size": 1}),
        ("{number}/proof", {"size": 10**30}),
    ],
)
def test_what_cannot_be_proved(
    world: World, browsers: dict[str, Client], path: str, query: dict[str, Any]
) -> None:
    number = found(browsers["manager"])[0]["sequence"]
    answer = browsers["manager"].get(f"{API}/{path.format(number=number)}", query)
    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"] == "application/problem+json"


def test_the_check_is_the_operators(
    world: World, browsers: dict[str, Client], authority: AuthorityClient
) -> None:
    checkpoints.make_checkpoint(authority=authority)
    answer = browsers["operator"].get(f"{API}/chain").json()
    assert answer["whole"] is True
    assert (answer["problems"], answer["unchecked"]) == ([], [])
    assert (answer["size"], answer["checkpoints"]) == (Entry.objects.count(), 2)
    Entry.objects.filter(sequence=4).delete()
    answer = browsers["operator"].get(f"{API}/chain").json()
    assert answer["whole"] is False
    assert answer["problems"] == [
        {"sequence": 4, "last": 4, "kind": "removed", "message": "entry 4 is gone"}
    ]
    for name, code in (("manager", 403), ("auditor", 403), ("stranger", 403), ("anonymous", 401)):
        assert browsers[name].get(f"{API}/chain").status_code == code
        readable = 401 if name == "anonymous" else 200
        for path in ("tree", "checkpoints", "consistency?from=0"):
            assert browsers[name].get(f"{API}/{path}").status_code == readable, path


def export(client: Client, **query: Any) -> list[dict[str, Any]]:
    answer = client.get(f"{API}/export", query)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/x-ndjson"
    text = b"".join(answer.streaming_content).decode()
    return [json.loads(line) for line in text.splitlines()]


def test_the_export_can_be_checked_by_whoever_reads_it(
    world: World, browsers: dict[str, Client], authority: AuthorityClient
) -> None:
    checkpoints.make_checkpoint(authority=authority)
    *entries, end = export(browsers["operator"])
    assert [entry["sequence"] for entry in entries] == list(range(1, len(entries) + 1))
    leaves = []
    for entry in entries:
        body = {name: value for name, value in entry.items() if name != "leaf"}
        body["actor"] = body.pop("actor_pseudonym")
        body["format"] = 1
        if body["sealed"] is not None:
            body |= {"object_name": "", "before": None, "after": None}
        data = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        leaves.append(merkle.leaf_hash(data.encode()))
        assert leaves[-1].hex() == entry["leaf"]
    assert merkle.root(leaves).hex() == end["root"] == end["checkpoint"]["root"]
    assert any(entry["object_name"] == "United" and entry["sealed"] for entry in entries)


def test_the_export_holds_what_one_may_see_and_asked_for(
    world: World, browsers: dict[str, Client]
) -> None:
    *entries, end = export(browsers["auditor"])
    assert {entry["domain"] for entry in entries} == {"flights"}
    assert end["checkpoint"] is None
    *entries, _end = export(browsers["auditor"], person="United", action="principal.created")
    assert len(entries) == 1
    *entries, _end = export(browsers["stranger"], person="United")
    assert entries == []
    assert browsers["anonymous"].get(f"{API}/export").status_code == 401


def test_an_erased_person_is_nowhere(world: World, browsers: dict[str, Client]) -> None:
    client, handle = browsers["operator"], world.united.handle
    before = found(client, person=handle)
    identity.delete_principal(actor=world.manager, principal=world.united)
    erase_person(pseudonym=handle)
    after = found(client, person=handle)
    assert len(after) == len(before) + 1
    for entry in after:
        assert entry["erased"] is True
        assert (entry["object_name"], entry["before"], entry["after"]) == ("[erased]", None, None)
    text = json.dumps([found(client, limit=200), export(client)])
    assert "United" not in text
    assert client.get(f"{API}/chain").json()["whole"] is True
