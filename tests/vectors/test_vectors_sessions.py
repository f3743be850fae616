"""The golden vectors of sessions: unchanged, right by an independent check, accepted here."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policyengine.bundles import OpenedSessions, open_delivery
from policyengine.primitives import SealingKey
from tests.vectors import generate_sessions, verify_sessions

VECTORS: list[dict[str, Any]] = json.loads(verify_sessions.FILE.read_text(encoding="utf-8"))
FOLDER = Path(__file__).parent
HEXADECIMAL = ("agent_public", "message", "recipient_private", "session_key")


def test_the_product_still_makes_these_vectors() -> None:
    assert generate_sessions.text() == verify_sessions.FILE.read_text(encoding="utf-8")


def test_the_independent_verifier_finds_them_right() -> None:
    assert verify_sessions.verify(VECTORS) == 3
    done = subprocess.run(
        [sys.executable, str(FOLDER / "verify_sessions.py")],
        cwd=FOLDER, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "sessions: 3 right\n"
    assert "policyengine" not in (FOLDER / "verify_sessions.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*HEXADECIMAL, "agent", "domain", "handle", "epoch", "body"])
@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_the_verifier_notices_a_change(number: int, name: str) -> None:
    changed = copy.deepcopy(VECTORS[number])
    held = changed[name]
    match held:
        case int():
            changed[name] = held + 1
        case dict():
            changed[name] = {**held, "part": held["part"] + 1}
        case _:
            changed[name] = held[:-1] + ("0" if held[-1] != "0" else "1")
    with pytest.raises(Exception):  # noqa: B017 - an assertion, or the library's own refusal
        verify_sessions.check(changed)


def test_the_product_opens_them_and_opens_each_session_once() -> None:
    opened = OpenedSessions()
    for vector in VECTORS:
        public = bytes.fromhex(vector["agent_public"])
        delivery = open_delivery(
            bytes.fromhex(vector["message"]),
            key=SealingKey(bytes.fromhex(vector["recipient_private"])),
            handle=vector["handle"],
            verify=lambda _, key=public: key,
            sessions=opened,
        )
        assert delivery.to_json() == vector["body"]
    assert len(opened) == 2
