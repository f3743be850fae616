"""The golden vectors: unchanged, right by an independent check, and accepted here."""

from __future__ import annotations

import ast
import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from policyengine.bundles import (
    open_bundle,
    open_delivery,
    open_lease,
    open_notice,
    open_publication,
    open_reply,
    open_subscribe,
    verify_receipt,
)
from policyengine.primitives import SealingKey, generate_sealing_key, open_sealed, seal_to
from policyengine.trustgroups import Wrap, open_wrap
from tests.vectors import generate, hpke_reference, verify

VECTORS = json.loads(verify.FILE.read_text(encoding="utf-8"))
FOLDER = Path(__file__).parent


def test_the_product_still_makes_these_vectors():
    assert generate.text() == verify.FILE.read_text(encoding="utf-8")


def test_the_independent_verifier_finds_them_right():
    assert verify.verify(VECTORS) == {group: len(items) for group, items in VECTORS.items()}


def test_the_verifier_runs_by_itself():
    done = subprocess.run(
        [sys.executable, str(FOLDER / "verify.py")],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("right") == len(VECTORS)


@pytest.mark.parametrize("name", ["verify.py", "hpke_reference.py"])
def test_the_verifier_uses_none_of_the_products_code(name):
    tree = ast.parse((FOLDER / name).read_text(encoding="utf-8"))
    modules = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [
        module for module in modules if module.startswith(("policyengine", "tests.support"))
    ]
    assert "cryptography.hazmat.primitives.hpke" not in modules


def strings(value, path=()):
    """Yield the path of every hexadecimal string below a value."""
    if isinstance(value, str) and len(value) >= 32 and set(value) <= set("0123456789abcdef"):
        yield path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from strings(item, (*path, key))


@pytest.mark.parametrize("path", list(strings(VECTORS)), ids=lambda path: "/".join(map(str, path)))
def test_the_verifier_notices_a_changed_digit(path):
    changed = copy.deepcopy(VECTORS)
    at = changed
    for key in path[:-1]:
        at = at[key]
    digits = at[path[-1]]
    at[path[-1]] = digits[:-1] + ("0" if digits[-1] != "0" else "1")
    group, index = path[0], path[1]
    with pytest.raises(Exception):  # noqa: B017 - an assertion, or the library's own refusal
        verify.CHECKS[group](changed[group][index])


def key_of(vector) -> SealingKey:
    return SealingKey(bytes.fromhex(vector["recipient_private"]))


@pytest.mark.parametrize("vector", VECTORS["bundles"], ids=lambda vector: vector["audience"])
def test_the_product_opens_the_bundles(vector):
    opened = open_bundle(
        bytes.fromhex(vector["message"]),
        key=key_of(vector),
        audience=vector["audience"],
        domain=vector["domain"],
        policy_key=bytes.fromhex(vector["policy_public"]),
    )
    assert opened.content.to_json() == vector["content"]
    assert opened.digest == vector["digest"]


def open_message(vector):
    data, key = bytes.fromhex(vector["message"]), key_of(vector)
    public = bytes.fromhex(vector["signer_public"])
    address = vector["address"]
    match vector["purpose"].split("/")[1]:
        case "notice":
            return open_notice(data, key=key, audience=address, notice_key=public)
        case "lease":
            return open_lease(data, key=key, audience=address, lease_key=public)
        case "publication":
            signed = open_publication(data, key=key, agent=address)
            signed.verify(public)
            return signed.part
        case "subscribe":
            asked = open_subscribe(data, key=key, agent=address)
            asked.verify(public)
            return asked.request
        case "delivery":
            return open_delivery(data, key=key, handle=address, verify=lambda _: public)
        case "reply":
            return open_reply(data, key=key, handle=address, verify=lambda _: public)
    raise AssertionError(vector["purpose"])


@pytest.mark.parametrize("vector", VECTORS["messages"], ids=lambda vector: vector["purpose"])
def test_the_product_opens_the_messages(vector):
    assert open_message(vector).to_json() == vector["body"]


def test_the_product_opens_the_wrap_and_verifies_the_receipts():
    (vector,) = VECTORS["wraps"]
    wrap = Wrap(vector["group"], vector["epoch"], bytes.fromhex(vector["sealed"]))
    key = open_wrap(wrap, key_of(vector), audience=vector["audience"])
    assert key.hex() == vector["key"]
    assert len(VECTORS["receipts"]) == 2
    for receipt in VECTORS["receipts"]:
        body = verify_receipt(receipt["receipt"], bytes.fromhex(receipt["public"]))
        assert body == receipt["receipt"]["body"]


def test_the_reference_and_the_library_open_each_others_messages():
    key = generate_sealing_key()
    sealed = seal_to(key.public, b"secret", info=b"purpose")
    assert hpke_reference.unseal(key.private, sealed[1:], b"purpose") == b"secret"
    other = b"\x01" + hpke_reference.seal(key.public, b"secret", b"purpose", bytes(range(32)))
    assert open_sealed(key, other, info=b"purpose") == b"secret"
