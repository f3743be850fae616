"""The golden vectors of the audit's tree: engine, file and a second reading agree."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policyengine.errors import SignatureError
from policyengine.primitives import merkle
from policyengine.primitives.checkpoints import open_checkpoint, parse_verifier_key
from tests.vectors import verify_merkle as independent
from tests.vectors.generate_merkle import HASHES, VECTORS, text

DOCUMENT: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))


def test_the_file_is_what_the_generator_writes() -> None:
    assert text() == VECTORS.read_text(encoding="utf-8")


def test_the_independent_verifier_finds_them_right() -> None:
    counts = {group: len(items) for group, items in DOCUMENT.items()}
    assert independent.verify(DOCUMENT) == counts


def test_the_verifier_runs_by_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, independent.__file__],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("right") == len(DOCUMENT)


def test_the_verifier_uses_none_of_the_products_code() -> None:
    tree = ast.parse(Path(independent.__file__).read_text(encoding="utf-8"))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in modules if name.startswith(("policyengine", "adminapp"))]


def test_every_proof_is_accepted_for_its_own_tree_alone() -> None:
    for vector in DOCUMENT["inclusion"]:
        size, index = len(vector["leaves"]), vector["index"]
        proof = [bytes.fromhex(part) for part in vector["path"]]
        whole = merkle.root(HASHES[:size])
        given = {"index": index, "size": size, "leaf": HASHES[index], "proof": proof}
        merkle.verify_inclusion(**given, root=whole)
        for wrong in (
            {"leaf": HASHES[index - 1] if index else bytes(32)},
            {"proof": [*proof, bytes(32)]},
            {"proof": proof[:-1] if proof else [bytes(32)]},
            {"index": size},
            {"index": -1},
        ):
            with pytest.raises(SignatureError):
                merkle.verify_inclusion(**{**given, **wrong}, root=whole)


def test_every_consistency_is_accepted_for_its_two_trees_alone() -> None:
    for vector in DOCUMENT["consistency"]:
        new, old = len(vector["leaves"]), vector["old"]
        given = {
            "old": old,
            "new": new,
            "proof": [bytes.fromhex(part) for part in vector["path"]],
            "old_root": merkle.root(HASHES[:old]),
            "new_root": merkle.root(HASHES[:new]),
        }
        merkle.verify_consistency(**given)
        for wrong in (
            {"old_root": bytes(32)},
            {"new_root": bytes(32)},
            {"proof": [*given["proof"], bytes(32)]},
            {"old": new + 1},
            {"old": -1},
        ):
            with pytest.raises(SignatureError):
                merkle.verify_consistency(**{**given, **wrong})
        if given["proof"]:
            with pytest.raises(SignatureError):
                merkle.verify_consistency(**{**given, "proof": given["proof"][:-1]})


def test_checkpoints_open_with_their_key() -> None:
    for vector in DOCUMENT["checkpoints"]:
        name, public = parse_verifier_key(vector["key"])
        checkpoint = open_checkpoint(vector["note"], name, public)
        assert (checkpoint.size, checkpoint.time) == (len(vector["leaves"]), vector["time"])
        with pytest.raises(SignatureError):
            open_checkpoint(vector["note"], name, bytes(32))
        with pytest.raises(SignatureError):
            open_checkpoint(vector["note"], "another", public)
        forged = vector["note"].replace(f"time {vector['time']}", "time 2027-01-01T00:00:00Z")
        with pytest.raises(SignatureError):
            open_checkpoint(forged, name, public)
