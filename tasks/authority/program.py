"""A program at the other end of a pipe: one line of canonical JSON each way, one at a time."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import IO, Any, Final

from policyengine.errors import DecodeError, DecryptionError, PortcullisError
from policyengine.primitives import canonical
from tasks.authority.files import StateError

MAX_LINE: Final = 16 * 2**20


class Program:
    """Starts a program when it is first asked, and once more when it has died.

    Whoever started it need not end it: it ends when its standard input does, which is when the
    process that started it ends, however that happens.

    Args:
        command: the program and its arguments.
        seconds: how long an answer may take.
    """

    def __init__(self, command: Sequence[str], *, seconds: float = 60.0) -> None:
        self._command = list(command)
        self._seconds = seconds
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []
        weakref.finalize(self, _end, self._running)

    @property
    def pid(self) -> int | None:
        """The process that answers, where one was started."""
        return self._running[0].pid if self._running else None

    def ask(self, operation: str, **fields: Any) -> Any:
        """What the program answers.

        Raises:
            DecryptionError: it says that something does not decrypt.
            StateError: it refuses otherwise, or does not answer.
        """
        line = canonical.dumps({"op": operation, **fields}) + b"\n"
        with self._lock:
            answer = self._exchange_or_restart(line)
        if answer.get("ok") is True:
            return answer.get("result")
        if answer.get("error") == "decryption":
            raise DecryptionError("the ciphertext does not open")
        raise StateError(f"`{self._command[0]}` refuses: {str(answer.get('error'))[:200]}")

    def close(self) -> None:
        """End the program."""
        with self._lock:
            _end(self._running)

    def _exchange_or_restart(self, line: bytes) -> dict[str, Any]:
        reused = bool(self._running)
        try:
            return self._exchange(line)
        except (OSError, DecodeError, TimeoutError) as error:
            _end(self._running)
            if not reused:
                raise self._silent() from error
        try:
            return self._exchange(line)
        except (OSError, DecodeError, TimeoutError) as error:
            _end(self._running)
            raise self._silent() from error

    def _exchange(self, line: bytes) -> dict[str, Any]:
        if not self._running:
            self._running.append(
                subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
                )
            )
        (process,) = self._running
        assert process.stdin is not None
        assert process.stdout is not None
        unsent = memoryview(line)
        while unsent:
            unsent = unsent[process.stdin.write(unsent) or 0 :]
        answer = canonical.loads(self._line(process.stdout.fileno()), max_bytes=MAX_LINE)
        if not isinstance(answer, dict):
            raise DecodeError("the answer is no object")
        return answer

    def _line(self, descriptor: int) -> bytes:
        found = bytearray()
        end = time.monotonic() + self._seconds
        while not found.endswith(b"\n"):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(descriptor, 65536) if ready else b""
            if not chunk or len(found) + len(chunk) > MAX_LINE:
                raise TimeoutError("the program did not answer")
            found += chunk
        return bytes(found[:-1])

    def _silent(self) -> StateError:
        return StateError(f"`{self._command[0]}` does not answer")


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    while running:
        process = running.pop()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def serve(table: dict[str, Callable[..., Any]], asked: IO[bytes], answers: IO[bytes]) -> None:
    """The other side: answer line by line until the end of what is asked."""
    for line in asked:
        answers.write(canonical.dumps(_answer(table, line)) + b"\n")
        answers.flush()


def _answer(table: dict[str, Callable[..., Any]], line: bytes) -> dict[str, Any]:
    try:
        fields = canonical.loads(line.rstrip(b"\n"), max_bytes=MAX_LINE)
        operation = table[fields.pop("op")]
        return {"ok": True, "result": operation(**fields)}
    except DecryptionError:
        return {"ok": False, "error": "decryption"}
    except (StateError, PortcullisError) as error:
        return {"ok": False, "error": str(error)}
    except (AttributeError, KeyError, TypeError):
        return {"ok": False, "error": "unknown operation or field"}
