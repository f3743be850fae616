"""The golden vectors of roots: engine, file and a second reading agree."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policyengine.bundles.rootrequests import open_request
from policyengine.bundles.roots import decode_root, decode_roots, open_root, verify_chain
from policyengine.errors import RejectedError
from tests.vectors import verify_roots as independent
from tests.vectors.generate_roots import VECTORS, text

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


@pytest.mark.parametrize("vector", DOCUMENT["chains"], ids=lambda vector: vector["name"])
def test_the_engine_agrees(vector: dict[str, Any]) -> None:
    pinned = open_root(decode_root(vector["pinned"].encode()))
    roots = decode_roots(vector["roots"].encode())
    if vector["follows"]:
        assert verify_chain(pinned, roots).version == pinned.version + len(roots)
    else:
        with pytest.raises(RejectedError):
            verify_chain(pinned, roots)


def test_the_engine_accepts_the_requests() -> None:
    for vector in DOCUMENT["requests"]:
        assert len(open_request(vector["request"].encode()).proofs) == 6
