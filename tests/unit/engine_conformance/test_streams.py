"""What the command does with its streams, seen from inside."""

from __future__ import annotations

import io
import json
import os
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from policyengine.conformance.__main__ import main

LINE = b'{"id": 1, "op": "none"}\n'


@contextmanager
def descriptor(number: int, change: Callable[[], None]) -> Iterator[None]:
    """Change a standard stream for a while."""
    kept = os.dup(number)
    try:
        change()
        yield
    finally:
        os.dup2(kept, number)
        os.close(kept)


def played(
    stdin: object,
    monkeypatch: pytest.MonkeyPatch,
    change_errors: Callable[[], None] = lambda: None,
) -> tuple[int, bytes]:
    """Run the command with a standard input; return its status and what it wrote."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stdin))
    reading, writing = os.pipe()
    with descriptor(1, lambda: os.dup2(writing, 1) and None), descriptor(2, change_errors):
        os.close(writing)
        status = main()
        os.write(1, b"printed by a library\n")
    with open(reading, "rb") as written:  # noqa: PTH123 - a descriptor, not a path
        return status, written.read()


def test_answers_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    status, written = played(io.BytesIO(LINE + b"{"), monkeypatch)
    assert status == 0
    assert [json.loads(line)["id"] for line in written.splitlines()] == [1, None]


def test_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    status, written = played(io.BytesIO(LINE), monkeypatch, lambda: os.close(2))
    assert status == 0
    assert written.count(b"\n") == 1


def test_an_interrupt_ends_it_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            if not line:
                raise KeyboardInterrupt
            return line

    status, written = played(Interrupted(LINE), monkeypatch)
    assert status == 130
    assert written.count(b"\n") == 1


def test_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(LINE)))
    reading, writing = os.pipe()
    os.close(reading)
    with descriptor(1, lambda: os.dup2(writing, 1) and None):
        os.close(writing)
        assert main() == 1


def test_it_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO()))
    monkeypatch.delitem(sys.modules, "policyengine.conformance.__main__")
    with descriptor(1, lambda: None), pytest.raises(SystemExit) as ended:
        runpy.run_module("policyengine.conformance", run_name="__main__")
    assert ended.value.code == 0
