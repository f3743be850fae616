"""The command as others run it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from policyengine.conformance import OPERATIONS, Responder
from tests.unit.engine_conformance.command import COMMAND, run
from tests.unit.engine_conformance.samples import SAMPLES

GUIDE = Path(__file__).parents[3] / "docs" / "conformance.md"
GOOD = json.dumps({"id": "g", "op": "evaluate", **SAMPLES["evaluate"][0]}).encode()


def test_every_line_has_its_answer_in_order() -> None:
    data = b"\n".join(
        [GOOD, b"", b"{", b"\xff\xfe", b"[" * 100_000, b"x" * 17_000_000, b'{"id": 7}', b"\r", GOOD]
    )
    found = run(data)
    assert [answer["id"] for answer in found] == ["g", None, None, None, None, None, 7, None, "g"]
    assert [answer["ok"] for answer in found] == [True, *[False] * 7, True]
    assert run(b"") == []
    assert len(run(GOOD + b"\n")) == 1


def test_an_answer_comes_before_the_next_question() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(json.dumps({"id": number, "op": "none"}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0


def test_nobody_reads_any_more() -> None:
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(GOOD + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write((GOOD + b"\n") * 3)
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def examples() -> list[list[dict[str, Any]]]:
    """Return the examples of the guide: a question and, mostly, its answer."""
    blocks = re.findall(r"```json\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return [[json.loads(line) for line in block.splitlines()] for block in blocks]


def test_the_examples_of_the_guide() -> None:
    responder = Responder()
    for question, expected in examples():
        found = json.loads(responder.answer(json.dumps(question).encode()))
        assert found == expected
    assert responder.unexpected == 0
    assert {question["op"] for question, _ in examples()} == set(OPERATIONS)
