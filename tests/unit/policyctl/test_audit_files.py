"""An exported audit is checked without the server, and every tampering is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brokers.policyctl.audit import leaf
from brokers.policyctl.errors import Exit
from policyengine.primitives import merkle
from policyengine.primitives.checkpoints import Checkpoint, sign_checkpoint, verifier_key
from policyengine.primitives.signatures import SigningKey, generate_signing_key
from tests.support.policyctl import policyctl

ORIGIN = "portcullis.example/audit"
Lines = list[dict[str, Any]]


def entry(number: int, *, sealed: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {
        "sequence": number,
        "at": f"2030-01-01T00:00:{number:02}.000000Z",
        "actor": "mona",
        "actor_pseudonym": "u-2",
        "source": "api",
        "change_set": number,
        "action": "role.updated",
        "domain": "flights",
        "object_type": "role",
        "object_id": "1",
        "object_name": "airline",
        "before": {"title": ""},
        "after": {"title": f"\u00fc{number}", "n": 1.5},
        "person": "p-1" if sealed else None,
        "sealed": "c2VhbGVk" if sealed else None,
    }
    return made | {"leaf": leaf(made).hex()}


@pytest.fixture
def key() -> SigningKey:
    return generate_signing_key()


@pytest.fixture
def lines(key: SigningKey) -> Lines:
    """Nine entries, the eighth about a person, all of them signed."""
    entries = [entry(number, sealed=number == 8) for number in range(1, 10)]
    return [*entries, end(key, entries)]


def end(key: SigningKey, entries: Lines, size: int | None = None) -> dict[str, Any]:
    size = len(entries) if size is None else size
    root = merkle.root(bytes.fromhex(each["leaf"]) for each in entries[:size])
    note = sign_checkpoint(key, Checkpoint(ORIGIN, size, root, "2030-01-01T00:01:00Z"))
    held = {"size": size, "root": root.hex(), "note": note}
    return {"checkpoint": held, "size": len(entries), "root": root.hex()}


@pytest.fixture
def verify(tmp_path: Path, key: SigningKey) -> Callable[..., dict[str, Any]]:
    def run(lines: Lines, *, by: SigningKey | None = key, code: int) -> dict[str, Any]:
        file, known = tmp_path / "audit.jsonl", tmp_path / "key"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        words = ["audit", "verify", str(file), "-o", "json"]
        if by is not None:
            known.write_text(verifier_key(ORIGIN, by.public) + "\n")
            words += ["--key", str(known)]
        ended = policyctl(*words)
        assert ended.code == code, ended
        found: dict[str, Any] = ended.json()
        return found

    return run


def test_a_whole_file(lines: Lines, verify: Callable[..., Any]) -> None:
    assert verify(lines, code=Exit.OK) == {
        "whole": True,
        "entries": 9,
        "sealed": 1,
        "checkpoint": 9,
        "problems": [],
        "unchecked": [],
    }


@pytest.mark.parametrize("name", sorted(set(entry(1)) - {"leaf", "actor"}))
def test_any_field_that_was_changed(name: str, lines: Lines, verify: Callable[..., Any]) -> None:
    lines[3][name] = 4000 if isinstance(lines[3][name], int) else "else"
    found = verify(lines, code=Exit.ERROR)
    assert any("line 4" in line or "roots differ" in line for line in found["problems"])


def test_a_leaf_that_was_changed_with_its_entry(lines: Lines, verify: Callable[..., Any]) -> None:
    lines[3]["after"] = {"title": "forged"}
    lines[3]["leaf"] = leaf(lines[3]).hex()
    assert "roots differ" in verify(lines, code=Exit.ERROR)["problems"][0]


def test_a_signature_of_somebody_else(lines: Lines, verify: Callable[..., Any]) -> None:
    found = verify(lines, by=generate_signing_key(), code=Exit.ERROR)
    assert "does not hold" in found["problems"][0]


def test_entries_that_are_gone_moved_or_added(lines: Lines, verify: Callable[..., Any]) -> None:
    moved = [lines[1], lines[0], *lines[2:]]
    doubled = [*lines[:3], lines[2], *lines[3:]]
    for changed in (moved, doubled):
        assert not verify(changed, code=Exit.ERROR)["whole"]
    assert "some entries only" in verify([*lines[:2], *lines[3:]], code=Exit.ERROR)["unchecked"][0]


def test_files_that_break_off(lines: Lines, verify: Callable[..., Any]) -> None:
    assert "breaks off" in verify(lines[:-1], code=Exit.ERROR)["problems"][0]
    assert "after the checkpoint" in verify([*lines, lines[0]], code=Exit.ERROR)["problems"][0]


def test_what_the_file_cannot_tell_is_said(
    lines: Lines, key: SigningKey, verify: Callable[..., Any]
) -> None:
    assert "verifier key" in verify(lines, by=None, code=Exit.ERROR)["unchecked"][0]
    younger = [*lines[:-1], end(key, lines[:-1], size=7)]
    assert verify(younger, code=Exit.ERROR)["unchecked"] == [
        "2 entries are younger than the signed checkpoint"
    ]
    unsigned = [*lines[:-1], {"checkpoint": None, "size": 9, "root": ""}]
    assert verify(unsigned, code=Exit.ERROR)["unchecked"] == ["nothing was signed yet"]


@pytest.mark.parametrize("junk", ["nothing", "[]", "{}", '{"sequence": 1}', "[" * 100_000, "\x00"])
def test_lines_that_are_no_entries(junk: str, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_text(junk + "\n")
    ended = policyctl("audit", "verify", str(file))
    assert ended.code == Exit.ERROR
    assert "line 1: this is no entry" in ended.out


def test_keys_and_files_that_cannot_be_read(lines: Lines, tmp_path: Path) -> None:
    file, key = tmp_path / "audit.jsonl", tmp_path / "key"
    file.write_text(json.dumps(lines[-1]))
    key.write_text("nonsense")
    for words in ((str(file), "--key", str(key)), (str(file), "--key", "/nowhere"), ("/nowhere",)):
        assert policyctl("audit", "verify", *words).code == Exit.ERROR
