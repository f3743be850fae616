"""The golden vectors of deltas: unchanged, right by an independent check, carried out here."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policyengine.bundles import AgentContent, ClientContent, ComparatorContent, Delta
from policyengine.bundles.deltas import apply
from tests.vectors import generate_deltas, verify_deltas

VECTORS: list[dict[str, Any]] = json.loads(verify_deltas.FILE.read_text(encoding="utf-8"))
FOLDER = Path(__file__).parent
CONTENTS = {"agent": AgentContent, "client": ClientContent, "comparator": ComparatorContent}


def test_the_product_still_makes_these_vectors() -> None:
    assert generate_deltas.text() == verify_deltas.FILE.read_text(encoding="utf-8")


def test_the_independent_verifier_finds_them_right() -> None:
    assert verify_deltas.verify(VECTORS) == 27
    done = subprocess.run(
        [sys.executable, str(FOLDER / "verify_deltas.py")],
        cwd=FOLDER, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "deltas: 27 right\n"
    assert "policyengine" not in (FOLDER / "verify_deltas.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_they_lead_here_from_one_content_to_the_other(number: int) -> None:
    vector = VECTORS[number]
    form = CONTENTS[vector["kind"]]
    after = apply(form.from_json(vector["before"]), Delta.from_json(vector["delta"]))
    assert after.to_json() == vector["after"]


@pytest.mark.parametrize("name", ["before", "after", "outline", "delta"])
@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_the_verifier_notices_a_change(number: int, name: str) -> None:
    changed = copy.deepcopy(VECTORS[number])
    if name == "outline":
        changed[name] = changed[name][:-1] + ("0" if changed[name][-1] != "0" else "1")
    elif name == "delta":
        changed[name]["after"] = "0" * 64
    else:
        changed[name]["domain"] += "x"
    with pytest.raises(AssertionError):
        verify_deltas.check(changed)
