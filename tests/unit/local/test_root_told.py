"""What runs on a self-made root says so, loudly, where it is started."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from policyengine.bundles.rootrequests import open_request
from policyengine.bundles.roots import decode_roots, draft, encode_root
from policyengine.primitives.canonical import unb64
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import generate_signing_key
from tasks.authority.operations import Operations
from tasks.authority.roots import install_root, request, sign_root
from tasks.authority.server import AuthorityServer
from tasks.authority.store import AuthorityState, create_state
from tasks.local import parts, run
from tasks.local.layout import Layout


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[tuple[Layout, AuthorityState, Operations]]:
    """A place with an authority that serves."""
    layout = Layout(tmp_path / "var", 8000)
    layout.make()
    state = create_state(layout.authority_state, SYSTEM_RANDOM)
    operations = Operations(state)
    layout.authority_socket.parent.mkdir(parents=True, exist_ok=True)
    server = AuthorityServer(layout.authority_socket, operations)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield layout, state, operations
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_self_made_root_is_told_until_a_ceremony_was_held(
    authority: tuple[Layout, AuthorityState, Operations],
) -> None:
    layout, state, operations = authority
    assert parts.root_is_self_made(layout.authority_socket)
    assert "SELF-MADE ROOT" in parts.authority_detail(layout.authority_socket)
    text = "\n".join(run.beware(layout))
    assert "BEWARE" in text
    assert "policyctl root init" in text
    # People take over: the next root names holders whose keys are not on this machine.
    told = operations.answer({"op": "root", "after": 0})["result"]
    now = decode_roots(unb64(told["roots"]))[-1].claimed()
    people = sorted((generate_signing_key() for _ in range(3)), key=lambda key: key.public)
    holders = tuple(key.public for key in people)
    online = open_request(request(state, ())).online()
    made = draft(replace(now, version=now.version + 1, holders=holders, threshold=2, **online))
    signed = made.signed_by(people[0]).signed_by(people[1])
    install_root(state, sign_root(state, encode_root(signed)))
    assert not parts.root_is_self_made(layout.authority_socket)
    assert parts.authority_detail(layout.authority_socket) == "signs, keeps keys"
    assert run.beware(layout) == []


def test_an_authority_that_does_not_answer_holds_nothing_up(tmp_path: Path) -> None:
    layout = Layout(tmp_path, 8000)
    assert run.beware(layout) == []
    assert parts.authority_detail(layout.authority_socket) == "signs, keeps keys"
