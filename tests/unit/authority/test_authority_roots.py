"""The authority under a root: who may sign, how roots follow, and that a self-made one is told."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from policyengine.bundles import SignedRoot, contexts
from policyengine.bundles.rootrequests import open_request
from policyengine.bundles.roots import (
    Root,
    decode_root,
    decode_roots,
    draft,
    encode_root,
    open_root,
    verify_chain,
)
from policyengine.primitives import canonical
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import verify
from tasks.authority.__main__ import main
from tasks.authority.operations import Operations
from tasks.authority.roots import install_root, request, sign_root
from tasks.authority.store import AuthorityState, StateError, create_state, load_state
from tests.support.roots import HOLDERS, YEAR, holder, signed

SIGN = {
    "op": "sign",
    "purpose": "lease",
    "context_b64": canonical.b64(contexts.LEASE),
    "payload_b64": canonical.b64(b"payload"),
}


@pytest.fixture
def state(tmp_path: Path) -> AuthorityState:
    return create_state(tmp_path / "state", SYSTEM_RANDOM)


def root_of(operations: Operations, after: int = 0) -> tuple[dict[str, object], list[SignedRoot]]:
    answer = operations.answer({"op": "root", "after": after})
    assert answer["ok"], answer
    data = canonical.unb64(answer["result"]["roots"])
    return answer["result"], list(decode_roots(data)) if data else []


def ceremony(asked: bytes, before: Root, **changes: object) -> Root:
    """Root N+1 of ada, ben and cyd with the keys that an authority asks for."""
    made = replace(
        before,
        version=before.version + 1,
        threshold=2,
        holders=tuple(holder(name).public for name in HOLDERS),
        **open_request(asked).online(),
    )
    return replace(made, **changes)


def hand_over(state: AuthorityState) -> Root:
    """From the self-made root to one of ada, ben and cyd, which both sign."""
    own = open_root(root_of(Operations(state))[1][0])
    made = ceremony(request(state), own)
    return install_root(state, sign_root(state, encode_root(signed(made))))


def signer(operations: Operations) -> bytes:
    answer = operations.answer(SIGN)
    assert answer["ok"], answer
    public = canonical.unb64(operations.answer({"op": "anchors"})["result"]["lease"])
    verify(public, canonical.unb64(answer["result"]["signature"]), contexts.LEASE, b"payload")
    return public


def test_a_new_authority_has_a_root_of_its_own_and_says_so(state: AuthorityState) -> None:
    status, chain = root_of(Operations(state))
    assert (status["version"], status["self_made"], status["threshold"]) == (1, True, 2)
    assert open_root(chain[0]).anchors() == state.anchors()
    assert status["fingerprint"] == chain[0].fingerprint
    # The same one after a restart.
    assert root_of(Operations(load_state(state.folder)))[1] == chain


def test_a_ceremony_takes_over_from_a_self_made_root(state: AuthorityState) -> None:
    operations = Operations(state)
    first = open_root(root_of(operations)[1][0])
    second = hand_over(state)
    # The running authority sees it without being restarted.
    status, chain = root_of(operations, after=1)
    assert (status["version"], status["self_made"]) == (2, False)
    assert verify_chain(first, chain) == second
    assert root_of(operations, after=2)[1] == []
    with pytest.raises(StateError, match="holders of its own"):
        sign_root(load_state(state.folder), encode_root(chain[0]))


def test_fresh_online_keys_sign_only_once_a_root_names_them(state: AuthorityState) -> None:
    operations = Operations(state)
    second = hand_over(state)
    before = signer(operations)
    asked = request(state, ["lease", "policy"])
    assert signer(operations) == before == second.lease
    third = ceremony(asked, second)
    assert third.lease != second.lease
    assert third.notice == second.notice
    install_root(state, encode_root(signed(third)))
    assert signer(operations) == third.lease
    # And by an authority that starts anew.
    assert signer(Operations(load_state(state.folder))) == third.lease


@pytest.mark.parametrize(
    ("changes", "by", "why"),
    [
        ({}, ["ada"], "1 of the 2 signatures"),
        ({}, ["eve", "mal"], "0 of the 2 signatures"),
        ({"version": 4}, ["ada", "ben"], "root 3 must come before"),
        ({"version": 2}, ["ada", "ben"], "trusted already"),
        ({"issued": 1, "expires": 2}, ["ada", "ben"], "has expired"),
        ({"lease": holder("zoe").public}, ["ada", "ben"], "key for `lease` that this authority"),
    ],
)
def test_a_root_that_may_not_follow_is_not_installed(
    state: AuthorityState, changes: dict[str, object], by: list[str], why: str
) -> None:
    second = hand_over(state)
    operations = Operations(load_state(state.folder))
    made = ceremony(request(state), second, **changes)
    with pytest.raises(StateError, match=why):
        install_root(state, encode_root(signed(made, by)))
    assert root_of(operations)[0]["version"] == 2
    assert signer(operations) == second.lease


def test_a_self_made_root_alone_may_be_replaced(state: AuthorityState) -> None:
    own = open_root(root_of(Operations(state))[1][0])
    made = replace(ceremony(request(state), own), version=1)
    data = encode_root(signed(made))
    with pytest.raises(StateError, match="signatures"):
        install_root(state, data)
    assert install_root(state, data, replace=True) == made
    # Anchors of earlier releases hold on: the same keys under the same version.
    assert root_of(Operations(load_state(state.folder)))[0]["self_made"] is False
    assert made.anchors() == own.anchors()
    with pytest.raises(StateError, match="only a self-made root"):
        install_root(load_state(state.folder), data, replace=True)


def test_rubbish_and_damage_are_told(state: AuthorityState) -> None:
    Operations(state)
    with pytest.raises(StateError, match="no root"):
        install_root(state, b"{}")
    with pytest.raises(StateError, match="no root"):
        sign_root(state, b"{}")
    for damage in (b"", b"[]\n", b"nothing\n", encode_root(draft(hand_over(state)))):
        (state.folder / "roots.json").write_bytes(damage)
        with pytest.raises(StateError, match="damaged"):
            Operations(load_state(state.folder))


def test_a_chain_that_vanishes_stops_a_running_authority(state: AuthorityState) -> None:
    operations = Operations(state)
    (state.folder / "roots.json").unlink()
    answer = operations.answer(SIGN)
    assert answer["ok"] is False
    assert "missing" in answer["error"]


def test_versions_that_are_none_are_refused(state: AuthorityState) -> None:
    for after in (-1, "1", None, True):
        answer = Operations(state).answer({"op": "root", "after": after})
        assert answer["ok"] is False


def test_production_does_not_start_on_a_self_made_root(
    state: AuthorityState,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = ["run", "--state", str(state.folder), "--socket", str(state.folder / "socket")]
    for name in ("production", None):
        if name is None:
            monkeypatch.delenv("PORTCULLIS_ENV")
        else:
            monkeypatch.setenv("PORTCULLIS_ENV", name)
        assert main(command) == 2
        assert "policyctl root init" in capsys.readouterr().err
    assert not (state.folder / "socket").exists()


@pytest.mark.parametrize("environment", ["development", "production"])
def test_a_self_made_root_is_told_loudly(
    state: AuthorityState,
    environment: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("PORTCULLIS_ENV", environment)
    monkeypatch.setattr("tasks.authority.server.AuthorityServer.serve_forever", lambda *_, **__: 0)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    command = ["run", "--state", str(state.folder), "--socket", str(state.folder / "socket")]
    with caplog.at_level(logging.WARNING, "portcullis.authority"):
        assert main([*command, "--allow-self-made-root"]) == 0
    assert "self-made" in caplog.text


def test_the_command_line_plays_its_part_of_a_ceremony(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "state", tmp_path / "root.json"
    at = ["--state", str(folder)]
    assert main(["init", *at, "--anchors", str(out)]) == 0
    own = open_root(decode_root(out.read_bytes()))
    asked = tmp_path / "request.json"
    assert main(["request", *at, "--out", str(asked), "--fresh", "notice"]) == 0
    made = ceremony(asked.read_bytes(), own, expires=own.issued + YEAR)
    assert made.notice != own.notice
    out.write_bytes(encode_root(signed(made)))
    assert main(["install-root", *at, "--root", str(out)]) == 2
    assert "cannot be put into force" in capsys.readouterr().err
    assert main(["sign-root", *at, "--root", str(out)]) == 0
    assert main(["install-root", *at, "--root", str(out)]) == 0
    assert "root 2 is in force" in capsys.readouterr().out
    assert main(["install-root", *at, "--root", str(tmp_path / "nothing")]) == 2
