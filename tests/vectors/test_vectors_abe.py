"""The golden vectors of attribute-based encryption: unchanged, right, and accepted here."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policyengine import abe
from policyengine.abe import group
from policyengine.errors import DecryptionError
from policyengine.primitives.canonical import unb64
from tests.vectors import bls12_381, verify_abe
from tests.vectors.generate_abe import VECTORS, text

DOCUMENT: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))
(KPABE,) = DOCUMENT["kpabe"]
(CPABE,) = DOCUMENT["cpabe"]


def test_the_product_still_makes_these_vectors() -> None:
    assert text() == VECTORS.read_text(encoding="utf-8")


def test_the_independent_verifier_finds_them_right() -> None:
    assert verify_abe.verify(DOCUMENT) == {"kpabe": 1, "cpabe": 1}


@pytest.mark.parametrize("name", ["verify_abe.py", "bls12_381.py"])
def test_the_verifier_uses_none_of_the_products_code(name: str) -> None:
    tree = ast.parse(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    modules = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [module for module in modules if module.startswith(("policyengine", "pymcl"))]


def texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every text that the verifier reads."""
    if isinstance(value, str):
        if path[-1] != "expression":  # for people; the tree beside it is what counts
            yield path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts(item, (*path, key))


def changed(path: tuple[Any, ...], new: Any) -> dict[str, Any]:
    """Return the vector on a path with something else at its end."""
    document = copy.deepcopy(DOCUMENT)
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    vector: dict[str, Any] = document[path[0]][path[1]]
    return vector


def value_at(path: tuple[Any, ...]) -> Any:
    """Return what is at the end of a path."""
    at: Any = DOCUMENT
    for key in path:
        at = at[key]
    return at


LETTERS = [path for path in texts(DOCUMENT) if "elements" not in path]
LETTERS += [path for path in texts(DOCUMENT) if "elements" in path][::17]


@pytest.mark.parametrize("path", LETTERS, ids=lambda path: "/".join(map(str, path)))
def test_the_verifier_notices_a_changed_letter(path: tuple[Any, ...]) -> None:
    was = value_at(path)
    middle = len(was) // 2
    letter = "A" if was[middle : middle + 1] != "A" else "B"
    vector = changed(path, was[:middle] + letter + was[middle + 1 :])
    with pytest.raises(Exception):  # noqa: B017 - an assertion, or base64's own refusal
        verify_abe.CHECKS[path[0]](vector)


@pytest.mark.parametrize("path", [("kpabe", 0, "opens", 0, 1), ("cpabe", 0, "opens", 1, 0)])
def test_the_verifier_notices_a_changed_right(path: tuple[Any, ...]) -> None:
    with pytest.raises(AssertionError):
        verify_abe.CHECKS[path[0]](changed(path, not value_at(path)))


def test_the_verifier_opens_no_changed_ciphertext() -> None:
    one, event = KPABE["filters"][1], unb64(KPABE["events"][1]["ciphertext"])
    key = unb64(one["key"])
    assert verify_abe.kp_opened(one["tree"], key, event) is not None
    assert verify_abe.kp_opened(one["tree"], key, event[:-1] + bytes([event[-1] ^ 1])) is None
    user, payload = unb64(CPABE["users"][0]["key"]), unb64(CPABE["payloads"][0]["ciphertext"])
    assert verify_abe.cp_opened(user, payload) is not None
    assert (
        verify_abe.cp_opened(user, payload[:-33] + bytes([payload[-33] ^ 1]) + payload[-32:])
        is None
    )


def test_the_verifier_refuses_another_authoritys_shares() -> None:
    one, stream = KPABE["filters"][0], verify_abe.Stream(b"another authority")
    other = verify_abe.KpAuthority(stream)
    with pytest.raises(AssertionError):
        verify_abe.check_shares(other, one["tree"], unb64(one["key"]), unb64(KPABE["public"]))


@pytest.mark.parametrize("number", range(len(KPABE["filters"])))
def test_the_product_opens_the_events(number: int) -> None:
    key = abe.decode_filter_key(unb64(KPABE["filters"][number]["key"]))
    for event, opens in zip(KPABE["events"], KPABE["opens"][number], strict=True):
        ciphertext = abe.decode_ciphertext(unb64(event["ciphertext"]))
        if opens:
            assert abe.decapsulate(key, ciphertext) == unb64(event["secret"])
        else:
            with pytest.raises(DecryptionError):
                abe.decapsulate(key, ciphertext)


@pytest.mark.parametrize("number", range(len(CPABE["users"])))
def test_the_product_opens_the_payloads(number: int) -> None:
    key = abe.decode_cp_user(unb64(CPABE["users"][number]["key"]))
    for payload, opens in zip(CPABE["payloads"], CPABE["opens"][number], strict=True):
        ciphertext = abe.decode_cp_ciphertext(unb64(payload["ciphertext"]))
        if opens:
            assert abe.cp_decapsulate(key, ciphertext) == unb64(payload["secret"])
        else:
            with pytest.raises(DecryptionError):
                abe.cp_decapsulate(key, ciphertext)


def test_every_kind_of_leaf_gate_and_sheet_is_there() -> None:
    trees = json.dumps([one["tree"] for one in KPABE["filters"]])
    assert '"not"' in trees
    assert '"count": 2, "terms": [{"is"' in trees
    for vector in (KPABE, CPABE):
        assert {opens for row in vector["opens"] for opens in row} == {True, False}
    sheets = [
        abe.decode_cp_ciphertext(unb64(one["ciphertext"])).sheets for one in CPABE["payloads"]
    ]
    assert [len(several) for several in sheets] == [1, 2]


@pytest.mark.parametrize("message", [b"", b"one", b"two", bytes(200)])
def test_both_curves_hash_alike(message: bytes) -> None:
    assert bls12_381.write_1(bls12_381.hash_1(message)) == bytes(group.G1.hash(message).serialize())


def test_both_curves_pair_alike() -> None:
    first, second = group.hash_to_g1("tag", b"one"), group.base_2(-7)
    one = bls12_381.read_1(group.encode_g1(first))
    two = bls12_381.read_2(group.encode_g2(second))
    found = bls12_381.product([(one, two), (bls12_381.BASE_1, bls12_381.BASE_2)])
    theirs = group.pair_product([(first, second), (group.BASE_1, group.BASE_2)])
    assert bls12_381.write_full(found) == bytes(theirs.serialize())
    moved = bls12_381.product(
        [(bls12_381.times(one, -7), bls12_381.BASE_2), (bls12_381.BASE_1, bls12_381.BASE_2)]
    )
    assert found == moved


def test_the_verifiers_curve_refuses_what_is_no_point() -> None:
    x = next(x for x in range(1, 99) if bls12_381.root(x**3 + 4) is not None)
    y = bls12_381.root(x**3 + 4)
    assert y is not None
    outside = bls12_381.write_1(((x, 0), (y, 0)))
    with pytest.raises(AssertionError, match="outside the subgroup"):
        bls12_381.read_1(outside)
    off = next(x for x in range(1, 99) if bls12_381.root(x**3 + 4) is None)
    with pytest.raises(AssertionError, match="not on the curve"):
        bls12_381.read_1(off.to_bytes(48, "little"))
    with pytest.raises(AssertionError, match="too large"):
        bls12_381.read_1(bls12_381.P.to_bytes(48, "little"))
