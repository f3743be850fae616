"""The golden vectors of routing: the engine, the file and a second reading agree."""

from __future__ import annotations

import ast
import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policyengine.bundles import open_announcement, open_carried, open_expression, open_taken
from tests.vectors import verify_routing as independent
from tests.vectors.generate_routing import VECTORS, text

DOCUMENT: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))


def test_the_file_is_what_the_generator_writes() -> None:
    assert text() == VECTORS.read_text(encoding="utf-8")


def test_the_independent_verifier_finds_them_right() -> None:
    assert independent.verify(DOCUMENT) == {group: len(all_) for group, all_ in DOCUMENT.items()}


def test_the_verifier_runs_by_itself() -> None:
    done = subprocess.run(
        [sys.executable, independent.__file__], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("right") == len(DOCUMENT)


def test_the_verifier_uses_none_of_the_products_code() -> None:
    tree = ast.parse(Path(independent.__file__).read_text(encoding="utf-8"))
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in names if name.startswith(("policyengine", "tests"))]


def test_the_engine_reads_what_it_wrote() -> None:
    for vector in DOCUMENT["announcements"]:
        keys = {vector["epoch"]: bytes.fromhex(vector["key"])}
        public = bytes.fromhex(vector["public"])
        sealed = bytes.fromhex(vector["sealed"])
        opened = open_announcement(sealed, hop_keys=keys, verify_key={"alpha": public}.__getitem__)
        assert opened.to_json() == vector["body"]
    for vector in DOCUMENT["carried"]:
        keys = {vector["epoch"]: bytes.fromhex(vector["key"])}
        carriage, hop = open_carried(bytes.fromhex(vector["sealed"]), hop_keys=keys)
        assert (carriage.to_json(), hop.hex()) == (vector["body"], vector["hop"])
    for vector in DOCUMENT["taken"]:
        keys = {vector["epoch"]: bytes.fromhex(vector["key"])}
        opened_taken = open_taken(bytes.fromhex(vector["sealed"]), hop_keys=keys)
        assert opened_taken.to_json() == vector["body"]
    for vector in DOCUMENT["filters"]:
        for name, (epoch, key) in vector["keys"].items():
            held = {(name, epoch): bytes.fromhex(key)}
            place = {"domain": vector["domain"], "agent": vector["agent"]}
            assert open_expression(vector["sealed"], held, **place) == vector["expression"]


def strings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every hexadecimal string below a value."""
    if isinstance(value, str) and len(value) >= 32 and set(value) <= set("0123456789abcdef"):
        yield path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from strings(item, (*path, key))


@pytest.mark.parametrize("path", list(strings(DOCUMENT)), ids=lambda path: "/".join(map(str, path)))
def test_the_verifier_notices_a_changed_digit(path: tuple[Any, ...]) -> None:
    vector = copy.deepcopy(DOCUMENT[path[0]][path[1]])
    at = vector
    for key in path[2:-1]:
        at = at[key]
    at[path[-1]] = at[path[-1]][:-1] + ("0" if at[path[-1]][-1] != "0" else "1")
    with pytest.raises(Exception):  # noqa: B017 - an assertion, or the library's own refusal
        independent.CHECKS[path[0]](vector)
