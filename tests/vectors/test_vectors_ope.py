"""The golden vectors of order-preserving matching: engine, file and a second reading agree."""

from __future__ import annotations

import ast
import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from policyengine.attributes import check_values, evaluate, parse
from policyengine.ope import (
    DigitCipher,
    EncryptedEvent,
    EncryptedSubscription,
    TableCipher,
    cipher_of,
    sbm1_client,
)
from tests.vectors import verify_ope as independent
from tests.vectors.generate_ope import KEY, SCHEMA_TYPES, VECTORS, text, written

DOCUMENT: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))


def test_the_file_is_what_the_generator_writes() -> None:
    assert text() == VECTORS.read_text(encoding="utf-8")


def test_the_independent_verifier_finds_them_right() -> None:
    counts = {group: len(items) for group, items in DOCUMENT.items()}
    assert independent.verify(DOCUMENT) == counts
    assert {vector["form"] for vector in DOCUMENT["columns"]} == {"table", "digits", "text"}


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
    names = [
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    ]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    roots = {name.split(".")[0] for name in names}
    assert roots <= {*sys.stdlib_module_names, "__future__", "cryptography"}
    # of the library no key derivation and no numbers: single blocks and AES-GCM only
    assert {name for name in names if name.startswith("cryptography")} == {
        "cryptography.hazmat.primitives.ciphers",
        "cryptography.hazmat.primitives.ciphers.aead",
    }
    assert "CTR" not in {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_the_verifiers_key_stream_is_aes_256() -> None:
    key = bytes(range(32))
    block = bytes.fromhex("00112233445566778899aabbccddeeff")  # FIPS 197, appendix C.3
    wanted = "8ea2b7ca516745bfeafc49904b496089"
    assert independent.encrypted_blocks(key, block).hex() == wanted
    blocks = [independent.encrypted_blocks(key, bytes(15) + bytes([at])) for at in range(130)]
    halves = [int.from_bytes(one[at : at + 8], "big") for one in blocks for at in (0, 8)]
    assert list(islice(independent.key_stream(key), 260)) == halves


def test_the_verifiers_key_derivation_is_hkdf() -> None:
    # RFC 5869, appendix A.3: no salt and no info
    found = independent.hkdf(b"\x0b" * 22, "").hex()
    assert found == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"


def test_the_engine_reads_what_it_wrote() -> None:
    for vector in DOCUMENT["events"]:
        data = bytes.fromhex(vector["bytes"])
        assert EncryptedEvent.from_bytes(data).to_bytes() == data
    for vector in DOCUMENT["subscriptions"]:
        data = bytes.fromhex(vector["bytes"])
        assert EncryptedSubscription.from_bytes(data).to_bytes() == data


def test_the_engine_decrypts_the_numbers_and_words() -> None:
    columns = sbm1_client(KEY, SCHEMA_TYPES).layout.columns
    for vector in DOCUMENT["columns"]:
        cipher = cipher_of(columns[vector["name"]], bytes.fromhex(vector["key"]))
        if isinstance(cipher, TableCipher | DigitCipher):
            for entry in vector["points"]:
                assert cipher.decrypt(bytes.fromhex(entry["ciphertext"])) == entry["point"]


def test_the_vectors_say_what_plain_evaluation_says() -> None:
    texts = {vector["name"]: vector["text"] for vector in DOCUMENT["subscriptions"]}
    for vector in DOCUMENT["matches"]:
        for one in vector["subscriptions"]:
            assert written(one["tests"]) == texts[one["name"]]
        for event in vector["events"]:
            values = check_values(event["values"], SCHEMA_TYPES)
            held = [name for name in texts if evaluate(parse(texts[name], SCHEMA_TYPES), values)]
            assert event["names"] == sorted(held)
    first, *others = [[one["names"] for one in vector["events"]] for vector in DOCUMENT["matches"]]
    assert others == [first, first]


def strings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every string of bytes below a value."""
    if isinstance(value, str):
        if path[-1] in ("key", "seed", "bytes", "ciphertext", "digest"):
            yield path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from strings(item, (*path, key))


def changed(path: tuple[Any, ...], value: Any) -> Any:
    """Return the vectors with one place in them changed."""
    group, number = path[:2]
    vector = at = copy.deepcopy(DOCUMENT[group][number])
    for key in path[2:-1]:
        at = at[key]
    assert at[path[-1]] != value
    at[path[-1]] = value
    return DOCUMENT | {group: [*DOCUMENT[group][:number], vector, *DOCUMENT[group][number + 1 :]]}


def noticed(path: tuple[Any, ...]) -> bool:
    """Tell whether a vector depends on a key or a seed."""
    if path[-1] not in ("key", "seed"):
        return True
    vector = DOCUMENT[path[0]][path[1]]
    if path[0] == "subscriptions":  # some have no bounds to encrypt
        columns = (vector["intervals"] or {}).values()
        return any(end for each in columns for ends in each for end in ends)
    return vector.get("values") != {}


def refuses(path: tuple[Any, ...], value: Any) -> None:
    vectors = changed(path, value)
    if path[0] != "matches":  # padding and gaps could be anything: there the other groups tell
        vectors = {path[0]: [vectors[path[0]][path[1]]]}
    with pytest.raises(Exception):  # noqa: B017 - an assertion, or the library's own refusal
        check(vectors)


def check(vectors: dict[str, Any]) -> None:
    """Check the whole file, or one vector of one group."""
    if len(vectors) > 1:
        independent.verify(vectors)
    for group, (vector, *_) in vectors.items():
        independent.CHECKS[group](vector)


@pytest.mark.parametrize(
    "path", [*filter(noticed, strings(DOCUMENT))], ids=lambda path: "/".join(map(str, path))
)
def test_the_verifier_notices_a_changed_digit(path: tuple[Any, ...]) -> None:
    digits: Any = DOCUMENT
    for key in path:
        digits = digits[key]
    # the empty text has an empty ciphertext
    refuses(path, digits[:-1] + ("0" if digits[-1:] != "0" else "1") if digits else "00")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("tables", 3, "table", 7), 1),
        (("tables", 3, "bits"), 63),
        (("tables", 3, "size"), 49),
        (("tables", 7, "size"), 1000),
        (("columns", 0, "points", 0, "point"), 9),
        (("columns", 0, "type", "values"), ["UA"]),
        (("columns", 0, "name"), "carriers"),
        (("columns", 5, "points", 0, "code"), "0"),
        (("columns", 5, "form"), "table"),
        (("events", 1, "values", "delay"), 38),
        (("events", 1, "scheme"), "plain"),
        (("subscriptions", 1, "intervals", "delay", 0, 0, "open"), True),
        (("subscriptions", 1, "intervals", "delay", 0, 0, "point"), 0),
        (("subscriptions", 1, "intervals"), None),
        (("matches", 0, "events", 1, "names"), []),
        (("matches", 0, "events", 1, "values", "delay"), 5),
        (("matches", 0, "subscriptions", 1, "tests", 0, 2), 39),
    ],
    ids=lambda value: "/".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_the_verifier_notices_another_meaning(path: tuple[Any, ...], value: Any) -> None:
    refuses(path, value)
