"""A process beside the test that carries out commands, one after the other.

The tests' own process has its settings already. What needs others is a module of functions that
runs `serve` on them; `Commands` starts it once, as a start takes longer than most of its work.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.processes import REPOSITORY

_SECONDS = 30


class Commands:
    """Started by the first call, ended by `close` or with the last one that knows it.

    Each line of its input is a command, a JSON list of its name and arguments, and is answered by
    a line: `{"result": ...}` or `{"error": ...}`.

    Args:
        module: what runs, as `python -m` takes it.
        environment: the process's own, whole.
    """

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._module, self._environment = module, environment
        self._process: subprocess.Popen[str] | None = None
        self.close: Callable[[], object] = _nothing

    def call(self, command: str, *arguments: object) -> Any:
        """Have a command done and give its answer."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        line = [command, *(str(one) for one in arguments)]
        print(json.dumps(line), file=process.stdin, flush=True)
        told = process.stdout.readline()
        assert told, f"{command}: {self._module} has ended"
        answer = json.loads(told)
        assert "result" in answer, f"{command}: {answer['error']}"
        return answer["result"]

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module], cwd=REPOSITORY, env=self._environment,
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.close = weakref.finalize(self, _end, self._process)
        return self._process


def _nothing() -> None:
    """There is nothing to end."""


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate(timeout=_SECONDS)
    finally:
        process.kill()


def serve(commands: Mapping[str, Callable[..., Any]]) -> None:
    """Answer until there is nothing more to read; Django stands ready."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(_answer(commands, line)), file=answers, flush=True)


def _answer(commands: Mapping[str, Callable[..., Any]], line: str) -> dict[str, Any]:
    from django.db import close_old_connections

    command, *arguments = json.loads(line)
    close_old_connections()
    try:
        return {"result": commands[command](*arguments)}
    except Exception:  # noqa: BLE001 - shown by the test, whatever it is
        return {"error": traceback.format_exc()}
