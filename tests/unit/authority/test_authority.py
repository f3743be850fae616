"""The authority: what it signs, what it gives out, what it refuses, and its state on disk."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from adminapp.core.authority import AuthorityClient, AuthorityError, AuthorityUnavailable
from policyengine.bundles import FilterAnswer, contexts, decode_root, open_root
from policyengine.bundles.header import BundleHeader, PartRef
from policyengine.errors import SignatureError
from policyengine.primitives.canonical import dumps, pack
from policyengine.primitives.hashing import digest
from policyengine.primitives.hpke import generate_sealing_key
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import verify
from policyengine.trustgroups import Wrap, open_wrap
from tasks.authority.operations import Operations
from tasks.authority.server import AuthorityServer
from tasks.authority.store import StateError, create_state, load_state


def header(**changes: object) -> BundleHeader:
    members: dict[str, object] = {
        "domain": "heating",
        "audience": "agent:alpha",
        "revision": 1,
        "previous": "",
        "issued": 1,
        "expires": 2,
        "root_version": 1,
        "parts": (PartRef("scope", digest(b"scope"), 5), PartRef("keys", digest(b"keys"), 4)),
    }
    return BundleHeader(**{**members, **changes})


@pytest.fixture
def socket_path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "run" / "authority.sock"
    server = AuthorityServer(path, Operations(create_state(tmp_path / "state", SYSTEM_RANDOM)))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield path
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def client(socket_path: Path) -> Iterator[AuthorityClient]:
    made = AuthorityClient(socket_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("purpose", "context"),
    [
        ("policy", contexts.BUNDLE),
        ("lease", contexts.LEASE),
        ("receipt", contexts.RECEIPT),
    ],
)
def test_signs_each_purpose_in_its_own_context(
    client: AuthorityClient, purpose: str, context: bytes
) -> None:
    public = getattr(client.anchors(), purpose)
    payload = dumps(header().to_json()) if purpose == "policy" else b"payload"
    signature = client.sign(purpose, context, payload)
    verify(public, signature, context, payload)
    with pytest.raises(SignatureError):
        verify(public, signature, context, b"another payload")


@pytest.mark.parametrize(
    ("purpose", "context"),
    [
        ("lease", contexts.FILTER_ANSWER),
        ("policy", contexts.FILTER_ANSWER),  # the payload is none
        ("lease", contexts.BUNDLE),
        ("policy", contexts.NOTICE),
        ("notice", contexts.NOTICE),
        ("root", contexts.BUNDLE),
        ("policy", b""),
    ],
)
def test_refuses_a_context_of_another_purpose(
    client: AuthorityClient, purpose: str, context: bytes
) -> None:
    with pytest.raises(AuthorityError):
        client.sign(purpose, context, b"payload")


def test_signs_answers_about_filters_for_whom_they_are_for(client: AuthorityClient) -> None:
    place = {"audience": "client:p-ada", "domain": "care", "request": "1" * 32, "type": "Alarm"}
    answer = FilterAnswer(**place, attributes=("level",), at=1, reason="no policy lets her")
    body = dumps(answer.to_json())
    payload = pack(b"client:p-ada", body)
    signature = client.sign("policy", contexts.FILTER_ANSWER, payload)
    verify(client.anchors().policy, signature, contexts.FILTER_ANSWER, payload)
    with pytest.raises(SignatureError):
        verify(client.anchors().policy, signature, contexts.BUNDLE, payload)
    for wrong in (pack(b"client:p-eve", body), body, pack(b"client:p-ada", b"{}")):
        with pytest.raises(AuthorityError):
            client.sign("policy", contexts.FILTER_ANSWER, wrong)


def test_an_encoding_key_comes_back_under_its_own_id_only(client: AuthorityClient) -> None:
    wrapped = client.create_key("encoding:heating:alpha:1")
    key = client.unwrap("encoding:heating:alpha:1", wrapped)
    assert len(key) == 32
    assert client.unwrap("encoding:heating:alpha:1", wrapped) == key
    for other in ("encoding:heating:beta:1", "encoding:heating:alpha:2", "tag:heating:alpha:1"):
        with pytest.raises(AuthorityError):
            client.unwrap(other, wrapped)


def test_two_keys_are_never_the_same(client: AuthorityClient) -> None:
    name = "tag:heating:a:1"
    first, second = (client.unwrap(name, client.create_key(name)) for _ in range(2))
    assert first != second


def test_a_group_key_leaves_only_sealed_to_one_agent(client: AuthorityClient) -> None:
    key_id = "key:flights:airframe:3"
    wrapped = client.create_key(key_id)
    with pytest.raises(AuthorityError):
        client.unwrap(key_id, wrapped)
    members = [generate_sealing_key() for _ in range(2)]
    opened = []
    for name, member in zip(("alpha", "beta"), members, strict=True):
        sealed = client.wrap_for(
            key_id,
            wrapped,
            group="key:airframe",
            epoch=3,
            recipient=member.public,
            audience=f"agent:{name}",
        )
        wrap = Wrap("key:airframe", 3, sealed)
        opened.append(open_wrap(wrap, member, audience=f"agent:{name}"))
    assert opened[0] == opened[1]
    assert len(opened[0]) == 32


@pytest.mark.parametrize(
    ("group", "epoch"), [("key:other", 3), ("key:airframe", 4), ("overlay:airframe", 3)]
)
def test_a_wrap_carries_the_group_and_epoch_of_its_key(
    client: AuthorityClient, group: str, epoch: int
) -> None:
    wrapped = client.create_key("key:flights:airframe:3")
    with pytest.raises(AuthorityError):
        client.wrap_for(
            "key:flights:airframe:3",
            wrapped,
            group=group,
            epoch=epoch,
            recipient=generate_sealing_key().public,
            audience="agent:alpha",
        )


@pytest.mark.parametrize("name", ["", "signing:policy", "encoding:x", "key:a:b:c", "tag:a:b:1\n"])
def test_refuses_names_that_are_no_key_ids(client: AuthorityClient, name: str) -> None:
    with pytest.raises(AuthorityError):
        client.create_key(name)


def test_answers_garbage_without_falling_over(client: AuthorityClient, tmp_path: Path) -> None:
    operations = Operations(create_state(tmp_path / "other", SYSTEM_RANDOM))
    for request in (
        None,
        [],
        {},
        {"op": "unknown"},
        {"op": "sign"},
        {"op": "sign", "purpose": [], "context_b64": 1, "payload_b64": None},
        {"op": "sign", "purpose": "lease", "context_b64": 1, "payload_b64": None},
        {"op": "unwrap", "key_id": "tag:a:b:1", "wrapped": "!!"},
        {"op": "anchors", "more": 1},
    ):
        answer = operations.answer(request)
        assert answer["ok"] is False
        assert isinstance(answer["error"], str)
    assert client.anchors().root_version == 1


def test_the_client_reconnects_after_a_restart(tmp_path: Path) -> None:
    state = create_state(tmp_path / "state", SYSTEM_RANDOM)
    path = tmp_path / "authority.sock"
    client = AuthorityClient(path)
    anchors = []
    for _ in range(2):
        server = AuthorityServer(path, Operations(state))
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        anchors.append(client.anchors())
        server.shutdown()
        thread.join()
        server.server_close()
        client.close()
    assert anchors[0] == anchors[1]
    with pytest.raises(AuthorityUnavailable):
        client.anchors()


def test_a_second_authority_does_not_push_the_first_aside(socket_path: Path) -> None:
    with pytest.raises(FileExistsError):
        AuthorityServer(socket_path, None)  # type: ignore[arg-type]


def test_the_state_is_private_wrapped_and_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    created = create_state(folder, SYSTEM_RANDOM)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    stored = (folder / "signing.json").read_bytes()
    for key in created.signing.values():
        assert key.private not in stored
    assert load_state(folder).anchors() == created.anchors()
    with pytest.raises(StateError, match="already"):
        create_state(folder, SYSTEM_RANDOM)


def test_a_readable_or_exchanged_key_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        create_state(tmp_path / name, SYSTEM_RANDOM)
    (tmp_path / "one" / "kek").chmod(0o644)
    with pytest.raises(StateError, match="readable by others"):
        load_state(tmp_path / "one")
    exchanged = tmp_path / "two" / "kek"
    exchanged.write_bytes(bytes(32))
    with pytest.raises(StateError, match="does not open"):
        load_state(tmp_path / "two")


def test_the_command_line_makes_anchors_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tasks.authority", "init"]
    arguments = ["--state", str(tmp_path / "state"), "--anchors", str(tmp_path / "anchors.json")]
    first = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    root = open_root(decode_root((tmp_path / "anchors.json").read_bytes()))
    assert root.anchors() == load_state(tmp_path / "state").anchors()
    assert "self-made" in first.stdout
    second = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert second.returncode == 2
    assert "already holds an authority" in second.stderr
