"""The authority as the audit's witness: it signs a log that grows, and no other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from policyengine.primitives import canonical, merkle
from policyengine.primitives.checkpoints import open_checkpoint
from policyengine.primitives.rand import SYSTEM_RANDOM
from tasks.authority.__main__ import main
from tasks.authority.files import write_private
from tasks.authority.operations import Operations
from tasks.authority.store import ANCHORED, StateError, create_state, load_state, signed_log

LEAVES = [merkle.leaf_hash(bytes([number])) for number in range(9)]
TIME = "2026-11-21T08:00:00Z"


def node(height: int, place: int) -> bytes:
    return merkle.root(LEAVES[place << height : (place + 1) << height])


def request(old: int, new: int, **change: object) -> dict[str, object]:
    return {
        "op": "sign_checkpoint",
        "origin": "test/audit",
        "size": new,
        "root": canonical.b64(merkle.root(LEAVES[:new])),
        "time": TIME,
        "proof": [canonical.b64(part) for part in merkle.consistency_proof(old, new, node)],
        **change,
    }


@pytest.fixture
def operations(tmp_path: Path) -> Operations:
    return Operations(create_state(tmp_path / "state", SYSTEM_RANDOM))


def test_it_signs_what_continues(operations: Operations) -> None:
    log = operations.answer({"op": "audit_log"})["result"]
    assert (log["size"], log["root"]) == (0, canonical.b64(merkle.EMPTY_ROOT))
    public = canonical.unb64(log["public"])
    for old, new in ((0, 3), (3, 3), (3, 8), (8, 9)):
        note = operations.answer(request(old, new))["result"]["note"]
        checkpoint = open_checkpoint(note, "test/audit", public)
        assert (checkpoint.size, checkpoint.root) == (new, merkle.root(LEAVES[:new]))
        assert operations.answer({"op": "audit_log"})["result"]["size"] == new


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 4},
        {"size": -1},
        {"size": 6},
        {"root": canonical.b64(bytes(32))},
        {"root": "short"},
        {"proof": []},
        {"proof": ["x"]},
        {"origin": "two words"},
        {"time": "now"},
        {"more": 1},
        {"size": "8"},
    ],
)
def test_it_refuses_what_does_not(operations: Operations, wrong: dict[str, object]) -> None:
    assert operations.answer(request(0, 5))["ok"] is True
    assert operations.answer(request(5, 8, **wrong))["ok"] is False
    assert operations.answer({"op": "audit_log"})["result"]["size"] == 5


def test_it_remembers_across_a_restart_until_told_to_forget(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    first = Operations(create_state(folder, SYSTEM_RANDOM))
    first.answer(request(0, 5))
    again = Operations(load_state(folder))
    assert (
        again.answer(request(0, 3))["error"] == "this does not continue the audit that was signed"
    )
    assert main(["forget-audit", "--state", str(folder)]) == 0
    assert again.answer(request(0, 3))["ok"] is True


def test_a_folder_with_an_older_memory_signs_no_other_history(tmp_path: Path) -> None:
    """A standby has the journal to its end, and the other files as they were copied last."""
    folder = tmp_path / "state"
    first = Operations(create_state(folder, SYSTEM_RANDOM))
    first.answer(request(0, 3))
    copied = (folder / "audit.json").read_bytes()
    first.answer(request(3, 8))
    for older in (copied, None):
        (folder / "audit.json").unlink()
        if older is not None:
            write_private(folder / "audit.json", older)
        second = Operations(load_state(folder))
        assert second.answer({"op": "audit_log"})["result"]["size"] == 8
        assert second.answer(request(3, 5))["ok"] is False
    assert second.answer(request(8, 9))["ok"] is True
    # and what was forgotten on purpose does not come back
    assert main(["forget-audit", "--state", str(folder)]) == 0
    third = Operations(load_state(folder))
    assert third.answer({"op": "audit_log"})["result"]["size"] == 0


def test_a_damaged_memory_is_not_written_over(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    Operations(create_state(folder, SYSTEM_RANDOM)).answer(request(0, 5))
    (folder / "audit.json").write_text("{}")
    again = Operations(load_state(folder))
    assert (folder / "audit.json").read_text() == "{}"
    assert again.answer(request(5, 8))["ok"] is False


def test_the_audits_key_signs_nothing_else(operations: Operations) -> None:
    for context in (b"", b"portcullis/bundle/v1"):
        asked = {"op": "sign", "purpose": "audit", "context_b64": canonical.b64(context)}
        assert operations.answer({**asked, "payload_b64": ""})["ok"] is False


def test_an_authority_of_an_earlier_release_gets_the_key_once(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    made = create_state(folder, SYSTEM_RANDOM)
    file = folder / "signing.json"
    kept = {name: key for name, key in json.loads(file.read_text()).items() if name in ANCHORED}
    file.write_text(json.dumps(kept))
    upgraded = load_state(folder)
    older = replace(made.anchors(), enrolment=upgraded.anchors().enrolment)
    assert upgraded.anchors() == older
    assert upgraded.signing["audit"].public != made.signing["audit"].public
    assert load_state(folder).signing["audit"].public == upgraded.signing["audit"].public
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_damaged_memory_is_no_empty_one(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    operations = Operations(create_state(folder, SYSTEM_RANDOM))
    operations.answer(request(0, 5))
    (folder / "audit.json").write_text("{}")
    with pytest.raises(StateError):
        signed_log(folder)
    assert operations.answer(request(0, 8))["ok"] is False
