"""The store of key-encryption keys: one contract, kept by files and by a program."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policyengine.errors import DecryptionError
from policyengine.primitives import canonical
from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority.__main__ import main
from tasks.authority.commandstore import CommandStore
from tasks.authority.filestore import FileStore
from tasks.authority.operations import Operations
from tasks.authority.store import KeyStore, StateError, create_state, load_state

KEY_ID = "encoding:heating:alpha:1"


def program(folder: Path) -> list[str]:
    return [sys.executable, "-m", "tasks.authority.keyprogram", "--keys", str(folder)]


@pytest.fixture(params=["files", "program"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyStore]:
    if request.param == "files":
        yield FileStore(tmp_path)
        return
    made = CommandStore(program(tmp_path / "keys"))
    yield made
    made.close()


def test_what_was_wrapped_opens_in_its_place_and_nowhere_else(store: KeyStore) -> None:
    assert not store.exists()
    store.create(SYSTEM_RANDOM)
    assert store.ids() == (1,)
    number, wrapped = store.wrap(b"secret", aad=b"here", random=SYSTEM_RANDOM)
    assert number == 1
    assert b"secret" not in wrapped
    assert store.unwrap(1, wrapped, aad=b"here") == b"secret"
    altered = wrapped[:-1] + bytes([wrapped[-1] ^ 1])
    for data, aad in ((wrapped, b"there"), (altered, b"here"), (b"", b"here")):
        with pytest.raises(DecryptionError):
            store.unwrap(1, data, aad=aad)


def test_keys_rotate_and_old_ones_open_until_they_are_retired(store: KeyStore) -> None:
    store.create(SYSTEM_RANDOM)
    _, old = store.wrap(b"secret", aad=b"", random=SYSTEM_RANDOM)
    assert store.rotate(SYSTEM_RANDOM) == 2
    number, new = store.wrap(b"secret", aad=b"", random=SYSTEM_RANDOM)
    assert (number, store.ids()) == (2, (1, 2))
    assert store.unwrap(1, old, aad=b"") == store.unwrap(2, new, aad=b"") == b"secret"
    with pytest.raises(DecryptionError):
        store.unwrap(2, old, aad=b"")
    with pytest.raises(StateError):
        store.retire(2)
    store.retire(1)
    assert store.ids() == (2,)
    for gone in (store.retire, lambda number: store.unwrap(number, old, aad=b"")):
        with pytest.raises(StateError):
            gone(1)


def test_keys_are_there_after_the_program_died(tmp_path: Path) -> None:
    store = CommandStore(program(tmp_path))
    store.create(SYSTEM_RANDOM)
    _, wrapped = store.wrap(b"secret", aad=b"", random=SYSTEM_RANDOM)
    pid = store._program.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert store.unwrap(1, wrapped, aad=b"") == b"secret"
    store.close()


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "no json",
        "[]",
        '{"ok":true,"result":"x"}',
        '{"ok":true,"result":[0]}',
        '{"ok":false,"error":"closed"}',
        '{"error":"closed"}',
    ],
)
def test_a_program_that_answers_nonsense_is_not_believed(tmp_path: Path, answer: str) -> None:
    script = tmp_path / "nonsense"
    script.write_text(f"#!/bin/sh\nread line\nprintf '%s\\n' '{answer}'\n")
    script.chmod(0o700)
    store = CommandStore([str(script)])
    for ask in (
        store.ids,
        lambda: store.wrap(b"", aad=b"", random=SYSTEM_RANDOM),
        lambda: store.rotate(SYSTEM_RANDOM),
    ):
        with pytest.raises(StateError):
            ask()
    store.close()


def test_a_program_that_says_nothing_or_is_missing_holds_nobody_up(tmp_path: Path) -> None:
    silent = CommandStore(["sleep", "60"], seconds=0.2)
    with pytest.raises(StateError, match="does not answer"):
        silent.ids()
    with pytest.raises(StateError, match="does not answer"):
        CommandStore([str(tmp_path / "missing")]).ids()


@pytest.fixture(params=["files", "program"])
def state_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An authority over either store, as the command line makes it."""
    folder = tmp_path / "state"
    arguments = ["init", "--state", str(folder), "--anchors", str(tmp_path / "anchors.json")]
    if request.param == "program":
        arguments += ["--key-program", " ".join(program(tmp_path / "keys"))]
    assert main(arguments) == 0
    return folder


def ask(folder: Path, op: str, **fields: Any) -> dict[str, Any]:
    return Operations(load_state(folder)).answer({"op": op, **fields})


def test_an_authority_works_over_either_store(state_folder: Path) -> None:
    wrapped = ask(state_folder, "create_key", key_id=KEY_ID)["result"]["wrapped"]
    assert "." not in wrapped
    before = ask(state_folder, "unwrap", key_id=KEY_ID, wrapped=wrapped)
    anchors = load_state(state_folder).anchors()
    assert main(["rotate-kek", "--state", str(state_folder)]) == 0
    # Who reads the state sees the same keys as before, old wraps open, new ones say their key.
    assert load_state(state_folder).anchors() == anchors
    assert ask(state_folder, "unwrap", key_id=KEY_ID, wrapped=wrapped) == before
    anew = ask(state_folder, "rewrap", key_id=KEY_ID, wrapped=wrapped)["result"]["wrapped"]
    assert anew.startswith("2.")
    again = ask(state_folder, "rewrap", key_id=KEY_ID, wrapped=anew)["result"]["wrapped"]
    assert again == anew
    assert main(["retire-kek", "1", "--state", str(state_folder)]) == 0
    assert ask(state_folder, "unwrap", key_id=KEY_ID, wrapped=anew) == before
    assert ask(state_folder, "unwrap", key_id=KEY_ID, wrapped=wrapped)["ok"] is False
    assert main(["retire-kek", "2", "--state", str(state_folder)]) == 2


def test_a_wrap_that_names_another_key_does_not_open(state_folder: Path) -> None:
    wrapped = ask(state_folder, "create_key", key_id=KEY_ID)["result"]["wrapped"]
    main(["rotate-kek", "--state", str(state_folder)])
    for text in (f"2.{wrapped}", f"3.{wrapped}", f"x.{wrapped}", f"9999999.{wrapped}", "2."):
        assert ask(state_folder, "unwrap", key_id=KEY_ID, wrapped=text)["ok"] is False
    for key_id in ("signing:policy", "", "blind:heating:slave:1"):
        assert ask(state_folder, "rewrap", key_id=key_id, wrapped=wrapped)["ok"] is False


def test_with_a_program_the_folder_holds_no_key(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    create_state(folder, SYSTEM_RANDOM, program(tmp_path / "keys"))
    key = (tmp_path / "keys" / "kek").read_bytes()
    assert {path.name for path in folder.iterdir()} == {"store.json", "signing.json"}
    for path in folder.iterdir():
        data = path.read_bytes()
        assert key not in data
        assert canonical.b64(key).encode() not in data
    with pytest.raises(StateError, match="already"):
        create_state(folder, SYSTEM_RANDOM, program(tmp_path / "keys"))
    (folder / "store.json").write_text('{"kind":"cloud","command":["x"]}')
    with pytest.raises(StateError, match="no store that is known"):
        load_state(folder)


def test_a_creation_that_was_cut_off_may_be_done_again(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    create_state(folder, SYSTEM_RANDOM)
    # Between the signing keys and the key-encryption key, which comes last.
    (folder / "kek").unlink()
    with pytest.raises(StateError, match="run `init` first"):
        load_state(folder)
    assert load_state(create_state(folder, SYSTEM_RANDOM).folder).signing
