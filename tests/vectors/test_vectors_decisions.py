"""The golden vectors of decision reports: unchanged, right by an independent check, accepted."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policyengine.bundles import decode_request, open_decisions, verify_decision_report
from policyengine.primitives import SealingKey
from tests.vectors import generate_decisions, verify_decisions

VECTORS: list[dict[str, Any]] = json.loads(verify_decisions.FILE.read_text(encoding="utf-8"))
FOLDER = Path(__file__).parent


def test_the_product_still_makes_these_vectors() -> None:
    assert generate_decisions.text() == verify_decisions.FILE.read_text(encoding="utf-8")


def test_the_independent_verifier_finds_them_right() -> None:
    assert verify_decisions.verify(VECTORS) == 2
    done = subprocess.run(
        [sys.executable, str(FOLDER / "verify_decisions.py")],
        cwd=FOLDER, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "decisions: 2 right\n"
    assert "policyengine" not in (FOLDER / "verify_decisions.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["agent_public", "message", "recipient_private", "rows"])
@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_the_verifier_notices_a_change(number: int, name: str) -> None:
    changed = copy.deepcopy(VECTORS[number])
    held = changed[name]
    changed[name] = (
        [*held, held] if isinstance(held, list) else held[:-1] + ("0" if held[-1] != "0" else "1")
    )
    with pytest.raises(Exception):  # noqa: B017 - an assertion, or the library's own refusal
        verify_decisions.check(changed)


def test_the_product_opens_them() -> None:
    for vector in VECTORS:
        request = decode_request(bytes.fromhex(vector["message"]))
        report = verify_decision_report(request, bytes.fromhex(vector["agent_public"]))
        rows = open_decisions(report, SealingKey(bytes.fromhex(vector["recipient_private"])))
        assert report.to_json() == vector["report"]
        found = [list(row.to_json().values()) for row in rows]
        assert json.loads(json.dumps(found)) == vector["rows"]
