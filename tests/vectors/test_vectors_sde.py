"""The golden vectors of searchable encryption: the engine, the file and a second reading agree."""

from __future__ import annotations

import ast
import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from policyengine.attributes import check_values, evaluate, parse, schema_from_json
from policyengine.sde import (
    BrokerKey,
    EncryptedEvent,
    EncryptedFilter,
    MasterKey,
    UserEvent,
    UserFilter,
    UserKey,
    reencrypt_event,
    reencrypt_filter,
)
from tests.vectors import verify_sde as independent
from tests.vectors.generate_sde import VECTORS, text

DOCUMENT: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))


def test_the_file_is_what_the_generator_writes() -> None:
    assert text() == VECTORS.read_text(encoding="utf-8")


def test_the_independent_verifier_finds_them_right() -> None:
    counts = {group: len(items) for group, items in DOCUMENT.items()}
    assert independent.verify(DOCUMENT) == counts
    assert {vector["group"] for vector in DOCUMENT["matches"]} == {"curve", "zp1024"}


def test_the_verifier_runs_by_itself(tmp_path: Path) -> None:
    some = tmp_path / "some.json"
    some.write_text(json.dumps({group: items[-1:] for group, items in DOCUMENT.items()}))
    done = subprocess.run(
        [sys.executable, independent.__file__, str(some)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("1 right") == len(DOCUMENT)


def test_the_verifier_uses_the_standard_library_only() -> None:
    tree = ast.parse(Path(independent.__file__).read_text(encoding="utf-8"))
    names = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in names} <= {*sys.stdlib_module_names, "__future__"}


def test_the_curve_of_the_verifier_is_secp256k1() -> None:
    curve = independent.Curve()
    g = curve.generator
    assert curve.decode(curve.encode(g)) == g
    assert curve.power(g, curve.order - 1) == curve.inverse(g)
    assert curve.product(g, curve.inverse(g)) is None
    # SEC 2's curve: 2G, as every list of its multiples has it
    double = "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"
    assert curve.encode(curve.product(g, g)).hex() == double


def test_the_engine_reads_what_it_wrote() -> None:
    for keys in DOCUMENT["keys"]:
        assert MasterKey.decode(bytes.fromhex(keys["master"])).encode().hex() == keys["master"]
        for user in keys["users"]:
            assert UserKey.decode(bytes.fromhex(user["user"])).encode().hex() == user["user"]
    for vector in DOCUMENT["events"]:
        share = BrokerKey.decode(bytes.fromhex(vector["share"]))
        finished = reencrypt_event(share, UserEvent.decode(bytes.fromhex(vector["sent"])))
        assert finished == EncryptedEvent.decode(bytes.fromhex(vector["finished"]))
    for vector in DOCUMENT["filters"]:
        share = BrokerKey.decode(bytes.fromhex(vector["share"]))
        stored = reencrypt_filter(share, UserFilter.decode(bytes.fromhex(vector["sent"])))
        assert stored == EncryptedFilter.decode(bytes.fromhex(vector["finished"]))


def test_the_vectors_say_what_plain_evaluation_says() -> None:
    asked = {vector["finished"]: vector["expression"] for vector in DOCUMENT["filters"]}
    events = {vector["finished"]: vector for vector in DOCUMENT["events"]}
    for vector in DOCUMENT["matches"]:
        event = events[vector["event"]]
        schema = schema_from_json(event["schema"])
        expression = parse(asked[vector["filter"]], schema)
        assert vector["holds"] == evaluate(expression, check_values(event["values"], schema))
    assert {vector["holds"] for vector in DOCUMENT["matches"]} == {False, True}


def strings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every hexadecimal string below a value."""
    if isinstance(value, str) and path[-1] != "value" and set(value) <= set("0123456789abcdef"):
        yield path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from strings(item, (*path, key))


def changed(path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """Return one vector with one place in it changed."""
    vector = copy.deepcopy(DOCUMENT[path[0]][path[1]])
    at = vector
    for key in path[2:-1]:
        at = at[key]
    at[path[-1]] = change(at[path[-1]])
    return vector


def other_digit(digits: str) -> str:
    return digits[:-1] + ("0" if digits[-1] != "0" else "1")


def repaired(digits: str, at: int) -> str:
    """Change a bit of versioned bytes and make the check value fit again."""
    body = bytearray.fromhex(digits)[:-16]
    body[at] ^= 1
    return bytes(body).hex() + independent.check_value(bytes(body)).hex()


HEXADECIMAL = [
    path
    for path in strings(DOCUMENT)
    if path[-1] in ("seed", "master", "user", "share", "sent", "finished", "filter", "event")
]


@pytest.mark.parametrize("path", HEXADECIMAL, ids=lambda path: "/".join(map(str, path)))
def test_the_verifier_notices_a_changed_digit(path: tuple[Any, ...]) -> None:
    vector = changed(path, other_digit)
    with pytest.raises(Exception):  # noqa: B017 - an assertion, or Python's own refusal
        independent.CHECKS[path[0]](vector)


@pytest.mark.parametrize(
    "path",
    [path for path in HEXADECIMAL if path[-1] != "seed" and path[0] != "matches" and not path[1]],
    ids=lambda path: "/".join(map(str, path)),
)
def test_the_verifier_notices_a_changed_field(path: tuple[Any, ...]) -> None:
    # the version, the kind, the group, the system, fields in front and one at the end
    for at in (0, 1, 2, 10, 19, 24, -1):
        vector = changed(path, partial(repaired, at=at))
        with pytest.raises(Exception):  # noqa: B017 - an assertion, or Python's own refusal
            independent.CHECKS[path[0]](vector)


def test_the_verifier_notices_a_match_of_other_bytes() -> None:
    # padding and leaves that do not hold could be anything: only the other groups tell
    vectors = copy.deepcopy(DOCUMENT)
    vectors["matches"][0]["event"] = repaired(vectors["matches"][0]["event"], -1)
    with pytest.raises(AssertionError):
        independent.verify(vectors)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("keys", 0, "users", 0, "name"), "someone"),
        (("keys", 0, "group"), "zp1024"),
        (("events", 0, "values", "level"), 6),
        (("events", 0, "values", "note"), "é"),
        (("events", 0, "ranges"), "bits"),
        (("events", 0, "padding"), 1),
        (("events", 0, "hidden", 0), None),
        (("filters", 1, "tree", "count"), 1),
        (("filters", 1, "leaves", 0, "value"), "x"),
        (("matches", 0, "holds"), False),
        (("matches", 0, "places"), []),
        (("matches", 0, "leaves", 0, "value"), "2"),
    ],
)
def test_the_verifier_notices_another_meaning(path: tuple[Any, ...], value: Any) -> None:
    assert changed(path, lambda old: old) == DOCUMENT[path[0]][path[1]]
    vector = changed(path, lambda old: [value] if old == value else value)
    with pytest.raises(Exception):  # noqa: B017 - an assertion, or Python's own refusal
        independent.CHECKS[path[0]](vector)
