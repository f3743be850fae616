"""The golden vectors of keys for filters: unchanged, right by an independent check, accepted."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policyengine.bundles import decode_request, open_filter_answer, verify_filter_request
from policyengine.primitives import SealingKey
from tests.vectors import generate_filters, verify_filters

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(verify_filters.FILE.read_text("utf-8"))
FOLDER = Path(__file__).parent
CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "requests": verify_filters.check_request,
    "answers": verify_filters.check_answer,
}


def test_the_product_still_makes_these_vectors() -> None:
    assert generate_filters.text() == verify_filters.FILE.read_text(encoding="utf-8")


def test_the_independent_verifier_finds_them_right() -> None:
    assert verify_filters.verify(VECTORS) == 4
    done = subprocess.run(
        [sys.executable, str(FOLDER / "verify_filters.py")],
        cwd=FOLDER, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "filters: 4 right\n"
    assert "policyengine" not in (FOLDER / "verify_filters.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "number", "name"),
    [
        (kind, number, name)
        for kind, vectors in VECTORS.items()
        for number, vector in enumerate(vectors)
        for name in vector
    ],
)
def test_the_verifier_notices_a_change(kind: str, number: int, name: str) -> None:
    changed = copy.deepcopy(VECTORS[kind][number])
    held = changed[name]
    changed[name] = (
        {**held, "domain": "other"}
        if isinstance(held, dict)
        else held[:-1] + ("0" if held[-1] != "0" else "1")
    )
    with pytest.raises(Exception):  # noqa: B017 - an assertion, or the library's own refusal
        CHECKS[kind](changed)


def test_the_product_opens_them() -> None:
    for vector in VECTORS["requests"]:
        request = decode_request(bytes.fromhex(vector["message"]))
        asked = verify_filter_request(request, bytes.fromhex(vector["client_public"]))
        assert asked.to_json() == vector["body"]
    for vector in VECTORS["answers"]:
        key = SealingKey(bytes.fromhex(vector["recipient_private"]))
        answer = open_filter_answer(
            bytes.fromhex(vector["message"]),
            key=key,
            audience=vector["body"]["audience"],
            policy_key=bytes.fromhex(vector["authority_public"]),
        )
        assert answer.to_json() == vector["body"]
        opened = {str(epoch): data.decode() for epoch, data in answer.opened(key).items()}
        assert opened == vector["keys"]
