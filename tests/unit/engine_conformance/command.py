"""The command as a process, and lines for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

COMMAND = [sys.executable, "-m", "policyengine.conformance"]


def run(data: bytes, *, timeout: float = 120) -> list[dict[str, Any]]:
    """Send bytes to the command and return its answers; nothing else may come of it."""
    done = subprocess.run(COMMAND, input=data, capture_output=True, timeout=timeout, check=False)
    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout.isascii()
    return [json.loads(line) for line in done.stdout.splitlines()]


def ask(questions: Iterable[dict[str, Any]], *, timeout: float = 120) -> list[dict[str, Any]]:
    """Ask several things in one process; answers bear the numbers of the questions."""
    asked = [{"id": number, **question} for number, question in enumerate(questions)]
    data = "".join(json.dumps(question) + "\n" for question in asked).encode()
    answers = run(data, timeout=timeout)
    assert [answer["id"] for answer in answers] == list(range(len(asked)))
    return answers
